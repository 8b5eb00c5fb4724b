"""The end of the line that is at home: an engine, by one that is behind the line. See `pieces` and `submitter`.

What carries the pieces asks it for them, and brings what comes: see `RelayEngine`.
"""

from __future__ import annotations

import itertools
import pickle
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...scheduler.cluster.messages import Spread
from ..interface import (
    Blob,
    Came,
    Capabilities,
    EngineActor,
    EngineNode,
    Event,
    Facts,
    Group,
    Handle,
    NodesChanged,
    Parcel,
)
from .pieces import Incoming, Outgoing


class RelayEngine(ABC):
    """See above; `interface.Engine`.

    Parameters
    ----------
    can : Capabilities
        Of the engine behind the line.
    """

    def __init__(self, can: Capabilities) -> None:
        self.can: Capabilities = can
        self._tell: Callable[[Event], None] = lambda event: None
        self._numbers = itertools.count(1)
        self._nodes: list[EngineNode] = []
        self._calls, self._events = Outgoing(), Incoming()
        self._changed = threading.Condition()

    # ---- for what carries
    @abstractmethod
    def open(self, address: str, options: Mapping[str, Any]) -> tuple[Facts, list[EngineNode]]:
        """Begin to carry; what the engine says of itself, and its machines."""

    def calls(self) -> bytes:
        """What is to be given to the submitter; b"": there is nothing."""
        with self._changed:
            return self._calls.batch() if self._calls else b""

    def given(self, n: int) -> None:
        """The submitter has the pieces up to that number."""
        with self._changed:
            self._calls.came(n)

    @property
    def n_come(self) -> int:
        """The pieces from the submitter that have come, up to that number."""
        return self._events.n

    def take(self, batch: bytes) -> None:
        """What has come from it. In one thread at a time."""
        for head, data in self._events.take(batch):
            event = pickle.loads(head)
            if isinstance(event, list):
                self._nodes, event = event, NodesChanged()
            elif isinstance(event, Came):
                event = Came(event.blob, data)
            self._tell(event)

    def _ask(self, name: str, *given: Any, data: bytes = b"") -> None:
        head = pickle.dumps((name, *given))
        with self._changed:
            self._calls.add(head, data)
            self._changed.notify_all()

    def _ask_for(self, name: str, *given: Any, data: bytes = b"") -> int:
        number = next(self._numbers)
        self._ask(name, number, *given, data=data)
        return number

    # ---- the interface
    def connect(self, address: str, options: Mapping[str, Any], tell: Callable[[Event], None]) -> Facts:
        """Begin."""
        self._tell = tell
        facts, self._nodes = self.open(address, options)
        return facts

    def nodes(self) -> list[EngineNode]:
        """Its machines."""
        return self._nodes

    def submit(self, parcel: Parcel) -> Handle:
        """Have a parcel run."""
        return self._ask_for("submit", parcel)

    def cancel(self, handle: Handle, force: bool) -> None:
        """End a parcel."""
        self._ask("cancel", handle, force)

    def withdraw(self, handle: Handle) -> None:
        """Have a parcel not begin."""
        self._ask("withdraw", handle)

    def put(self, data: bytes | memoryview) -> Blob:
        """Keep bytes."""
        return self._ask_for("put", data=bytes(data))

    def fetch(self, blob: Blob) -> None:
        """Get the bytes of a blob."""
        self._ask("fetch", blob)

    def release(self, blobs: Sequence[Blob]) -> None:
        """These are not needed any more."""
        self._ask("release", [*blobs])

    def create_actor(self, parcel: Parcel, keeps: Mapping[str, float]) -> EngineActor:
        """Have an actor constructed."""
        return self._ask_for("create_actor", parcel, dict(keeps))

    def call(self, actor: EngineActor, parcel: Parcel) -> Handle:
        """Have a call run."""
        return self._ask_for("call", actor, parcel)

    def kill(self, actor: EngineActor, force: bool) -> None:
        """End an actor."""
        self._ask("kill", actor, force)

    def reserve(self, bundles: Sequence[Mapping[str, float]], strategy: Spread) -> Group:
        """Put resources aside."""
        return self._ask_for("reserve", [dict(bundle) for bundle in bundles], strategy)

    def unreserve(self, group: Group) -> None:
        """Give them back."""
        self._ask("unreserve", group)

    def say(self, handle: Handle, message: bytes) -> None:
        """Tell a pocket something."""
        self._ask("say", handle, message)

    @abstractmethod
    def close(self) -> None:
        """End all that is under way, and the connection."""
