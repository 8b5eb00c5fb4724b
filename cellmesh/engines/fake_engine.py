"""An engine without a cluster: it runs parcels in this process, by a clock of its own, and fails as a seed says. For
tests of all that stands above an engine, and for `init(address="fake:")`, which shows how that looks.

Nothing happens by itself: `work` does what is next, one step at a time, so a test decides when time passes. The faults
are those that engines have: a worker dies before, while or after it runs a parcel; a machine is lost with what lies on
it; events come late.
"""

from __future__ import annotations

import heapq
import itertools
import os
import random
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..exceptions import EngineUnreachableError, EngineUnsupportedError
from .interface import (
    Blob,
    Came,
    Capabilities,
    Ended,
    EngineActor,
    EngineNode,
    Event,
    Facts,
    Failed,
    FailureKind,
    Group,
    Handle,
    Lost,
    NodesChanged,
    Outcome,
    Parcel,
    Said,
    Strategy,
)

Run = Callable[[bytes, Sequence[Any]], Outcome]


@dataclass(frozen=True)
class Faults:
    """How likely what is, each from 0 to 1. `crash`: that a worker dies, for each run of a parcel, half of them before
    the task has begun, half when it has ended and nobody knows. `lose`: that a result which is kept is lost. `late_s`:
    how late an event may come at most."""

    crash: float = 0.0
    lose: float = 0.0
    late_s: float = 0.0


@dataclass
class _Job:
    parcel: Parcel
    handle: int
    n_runs: int = 0


class FakeEngine:
    """See above; `interface.Engine`.

    Parameters
    ----------
    run : callable (data, blobs) -> Outcome
        What runs a parcel in a worker: `pocket.run`, or a test's.
    nodes : sequence of EngineNode
    seed : int
        Of the faults, and of what is late.
    faults : Faults
    run_s : float
        How long a parcel runs, by the virtual clock.

    Attributes
    ----------
    now : float
        The virtual clock.
    """

    can: Capabilities = Capabilities(output=True)

    def __init__(
        self,
        run: Run,
        nodes: Sequence[EngineNode] = (EngineNode("fake-1", {"CPU": 4.0}),),
        seed: int = 0,
        faults: Faults = Faults(),
        run_s: float = 0.001,
    ) -> None:
        self._run, self._nodes, self._faults, self._run_s = run, list(nodes), faults, run_s
        self._random = random.Random(seed)
        self._tell: Callable[[Event], None] = lambda event: None
        self._numbers = itertools.count(1)
        self._queue: deque[_Job] = deque()
        self._running: dict[int, tuple[_Job, EngineNode]] = {}
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._blobs: dict[Blob, bytes | None] = {}  # None: lost
        self._used: dict[str, dict[str, float]] = {node.name: {} for node in nodes}
        self.now: float = 0.0
        self._changed = threading.Condition(threading.RLock())
        self._is_closed = False

    # ---- the interface
    def connect(self, address: str, options: Mapping[str, Any], tell: Callable[[Event], None]) -> Facts:
        """Begin. "fake:" is always there, "fake:FILE" as long as that file is."""
        file = address.removeprefix("fake:")
        if file and not os.path.exists(file):
            raise EngineUnreachableError(f"there is no {address!r}: {file!r} is not there")
        self._tell = tell
        return Facts("fake")

    def nodes(self) -> list[EngineNode]:
        """Its machines."""
        return list(self._nodes)

    def submit(self, parcel: Parcel) -> Handle:
        """Have a parcel run."""
        with self._changed:
            job = _Job(parcel, next(self._numbers))
            if not any(_fits(parcel.resources, node.total, {}) for node in self._nodes):
                self._later(0.0, lambda: self._tell(Failed(job.handle, "unschedulable")))
            else:
                self._queue.append(job)
                self._later(0.0, self._place)
            self._changed.notify_all()
            return job.handle

    def cancel(self, handle: Handle, force: bool) -> None:
        """End a parcel that has not begun; one that runs goes on."""
        with self._changed:
            job = next((job for job in self._queue if job.handle == handle), None)
            if job is not None:
                self._queue.remove(job)
                self._end_run(job, "cancelled")
            self._changed.notify_all()

    def put(self, data: bytes | memoryview) -> Blob:
        """Keep bytes."""
        with self._changed:
            number = next(self._numbers)
            self._blobs[number] = bytes(data)
            return number

    def fetch(self, blob: Blob) -> None:
        """Get the bytes of a blob."""
        with self._changed:
            self._later(0.0, lambda: self._tell(self._found(blob)))
            self._changed.notify_all()

    def release(self, blobs: Sequence[Blob]) -> None:
        """These are not needed any more."""
        with self._changed:
            for blob in blobs:
                self._blobs.pop(blob, None)

    def create_actor(self, parcel: Parcel, spec: Mapping[str, Any]) -> EngineActor:
        """It has no actors."""
        raise EngineUnsupportedError("the fake engine has no actors")

    def call(self, actor: EngineActor, parcel: Parcel) -> Handle:
        """It has no actors."""
        raise EngineUnsupportedError("the fake engine has no actors")

    def kill(self, actor: EngineActor, restart: bool) -> None:
        """It has no actors."""
        raise EngineUnsupportedError("the fake engine has no actors")

    def find_actor(self, name: str, namespace: str) -> EngineActor | None:
        """It has no actors."""
        return None

    def reserve(self, bundles: Sequence[Mapping[str, float]], strategy: Strategy) -> Group:
        """It reserves nothing."""
        raise EngineUnsupportedError("the fake engine has no placement groups")

    def unreserve(self, group: Group) -> None:
        """It reserves nothing."""

    def say(self, worker: str, message: bytes) -> None:
        """Its pockets hear nothing while they run."""

    def close(self) -> None:
        """End."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    # ---- what happens
    @property
    def blobs(self) -> int:
        """How many it keeps."""
        return len(self._blobs)

    def work(self) -> bool:
        """Do what is next, and let time pass until then; False: there is nothing."""
        with self._changed:
            if not self._due:
                return False
            self.now, _, what = heapq.heappop(self._due)
        what()
        return True

    def serve(self) -> None:
        """Work until `close`, in a thread: time passes as it likes."""
        while not self._is_closed:
            if not self.work():
                with self._changed:
                    self._changed.wait_for(lambda: self._due or self._is_closed)

    def lose_node(self, name: str) -> None:
        """A machine is gone, with what runs there."""
        with self._changed:
            self._nodes = [node for node in self._nodes if node.name != name]
            for handle, (job, node) in list(self._running.items()):
                if node.name == name:
                    del self._running[handle]
                    self._end_run(job, "node_died")
            self._later(0.0, lambda: self._tell(NodesChanged()))

    def _later(self, after_s: float, what: Callable[[], None]) -> None:
        late = self._random.random() * self._faults.late_s
        heapq.heappush(self._due, (self.now + after_s + late, next(self._numbers), what))

    def _found(self, blob: Blob) -> Event:
        data = self._blobs.get(blob)
        return Lost(blob) if data is None else Came(blob, data)

    def _place(self) -> None:
        """Begin what there is room for, in the order in which it came."""
        with self._changed:
            while self._queue and (node := self._node_for(self._queue[0].parcel)) is not None:
                job = self._queue.popleft()
                self._take(node, job, 1)
                self._running[job.handle] = job, node
                self._later(self._run_s, partial(self._execute, job))

    def _node_for(self, parcel: Parcel) -> EngineNode | None:
        for node in self._nodes:
            if _fits(parcel.resources, node.total, self._used[node.name]):
                return node
        return None

    def _take(self, node: EngineNode, job: _Job, sign: int) -> None:
        used = self._used[node.name]
        for name, amount in job.parcel.resources.items():
            used[name] = used.get(name, 0.0) + sign * amount

    def _execute(self, job: _Job) -> None:
        with self._changed:
            if job.handle not in self._running:
                return  # its machine is lost
            job.n_runs += 1
            dies = self._random.random() < self._faults.crash
            dies_first = dies and self._random.random() < 0.5
            blobs = [self._blobs.get(blob) for blob in job.parcel.blobs]
        if None in blobs:
            self._ended(job, Failed(job.handle, "object_lost", job.n_runs))
            return
        outcome = None if dies_first else self._run(job.parcel.data, blobs)
        if dies or outcome is None:
            self._ended(job, None)
            return
        kept: list[int] = []
        with self._changed:
            for data in outcome.large:
                kept.append(next(self._numbers))
                lost = self._random.random() < self._faults.lose
                self._blobs[kept[-1]] = None if lost else bytes(data)
        self._ended(job, Ended(job.handle, outcome.data, kept))

    def _ended(self, job: _Job, event: Event | None) -> None:
        """A parcel has run; None: its worker has died."""
        with self._changed:
            found = self._running.pop(job.handle, None)
            if found is None:
                return
            self._take(found[1], job, -1)
            self._later(0.0, self._place)
            if event is None:
                self._end_run(job, "crashed")
            else:
                self._later(0.0, lambda: self._tell(event))

    def _end_run(self, job: _Job, kind: FailureKind) -> None:
        if kind != "cancelled" and self.can.retries and job.n_runs < job.parcel.most_runs:
            self._queue.append(job)
            self._later(0.0, self._place)
        else:
            self._later(0.0, lambda: self._tell(Failed(job.handle, kind, job.n_runs)))


def _fits(resources: Mapping[str, float], total: Mapping[str, float], used: Mapping[str, float]) -> bool:
    return all(amount <= total.get(name, 0.0) - used.get(name, 0.0) + 1e-9 for name, amount in resources.items())


class _Served(FakeEngine):
    """Works in threads of its own, by pockets: while one runs a parcel, the other tells what becomes of others."""

    def connect(self, address: str, options: Mapping[str, Any], tell: Callable[[Event], None]) -> Facts:
        """Begin."""
        facts = super().connect(address, options, tell)
        for _ in range(2):
            threading.Thread(target=self.serve, name="fake-engine", daemon=True).start()
        return facts

    def hear(self, message: bytes) -> bool:
        """A pocket says something."""
        self._tell(Said(message))
        return True


def served() -> FakeEngine:
    """The engine of `init(address="fake:")`."""
    from . import pocket

    engine = _Served(lambda data, blobs: pocket.run(data, blobs, engine.hear))
    return engine
