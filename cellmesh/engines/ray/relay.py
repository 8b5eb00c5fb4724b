"""The relay, in Ray's cluster: what submits for a session outside of it, see `outside`. Ray is imported late.

It is a detached actor, as Ray Client's own job ends with its connection. What it submits, makes and reserves ends with
it, and it ends when it is told to, or nobody has asked for ten minutes.
"""

from __future__ import annotations

import pickle
import threading
import time

from ..interface import Event
from ..relay.submitter import Submitter
from .engine import RayEngine

NAMESPACE = "cellmesh"
WAIT_S = 10.0  # for news
UNASKED_S = 600.0


class Relay:
    """See above. Its methods run in threads of Ray's."""

    def __init__(self, unasked_s: float = UNASKED_S) -> None:
        import ray

        self._ray, self._me, self._unasked_s = ray, ray.get_runtime_context().current_actor, unasked_s
        self._changed = threading.Condition()
        self._asked_at = time.monotonic()
        self._engine = RayEngine()
        self._submitter = Submitter(self._engine)
        self._engine.begin(ray, self._tell)
        threading.Thread(target=self._watch, name="cellmesh-relay", daemon=True).start()

    def nodes(self) -> bytes:
        """The engine's machines, as its `nodes`."""
        return pickle.dumps(self._engine.nodes())

    def give(self, batch: bytes) -> int:
        """See `Submitter.give`."""
        with self._changed:
            self._asked_at = time.monotonic()
            return self._submitter.give(batch)

    def take(self, n: int) -> bytes:
        """See `Submitter.came` and `Submitter.take`; waits until there is something, for a while."""
        with self._changed:
            self._asked_at = time.monotonic()
            self._submitter.came(n)
            self._changed.wait_for(lambda: self._submitter.has_news, WAIT_S)
            return self._submitter.take()

    def end(self) -> None:
        """Have its process end, and with it what it has there."""
        self._ray.kill(self._me)

    def _tell(self, event: Event) -> None:
        self._submitter.tell(event)
        with self._changed:
            self._changed.notify_all()

    def _watch(self) -> None:
        with self._changed:
            while (left_s := self._asked_at + self._unasked_s - time.monotonic()) > 0:
                self._changed.wait(left_s)
        self.end()
