"""An engine without a cluster: it runs parcels in this process, by a clock of its own, and fails as a seed says. For
tests of all that stands above an engine, and for `init(address="fake:")`, which shows how that looks.

Nothing happens by itself: `work` does what is next, one step at a time, so a test decides when time passes. The faults
are those that engines have: a worker, or an actor, dies before, while or after it runs a parcel; a machine
is lost with what lies on it; events come late.
"""

from __future__ import annotations

import heapq
import itertools
import os
import random
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import Any

from ..exceptions import EngineUnreachableError
from ..scheduler.cluster.messages import Spread
from .actor.calling import or_end
from .actor.lines import Lines
from .interface import (
    ActorEnded,
    ActorRunner,
    Blob,
    Bundle,
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
    Over,
    Parcel,
    Said,
    SetAside,
    TaskEngine,
)
from .news import Line
from .parcels import Large

Run = Callable[[bytes, Sequence[Any]], Outcome]


MakeHost = Callable[[Callable[[int], None]], ActorRunner]
"""Makes one, which calls that with its exit status, or -signal, when it has ended."""


@dataclass(frozen=True)
class Faults:
    """How likely what is, each from 0 to 1. `crash`: that a worker dies, for each run of a parcel, half of them before
    the task has begun, half when it has ended and nobody knows. `lose`: that a result which is kept is lost. `late_s`:
    how late an event may come at most."""

    crash: float = 0.0
    lose: float = 0.0
    late_s: float = 0.0


@dataclass
class _Actor:
    """`number`: its handle, and that of its constructor. `bundle`: that it is to be in. `lines`: its calls that wait;
    `due`: those that begin now."""

    number: int
    keeps: Mapping[str, float]
    host: ActorRunner
    lines: Lines[_Job]
    bundle: Bundle | None = None
    where: _Where | None = None
    is_constructed: bool = False
    due: deque[_Job] = field(default_factory=deque["_Job"])
    hands_over: threading.Lock = field(default_factory=threading.Lock)


@dataclass
class _Job:
    parcel: Parcel
    handle: int
    n_runs: int = 0
    actor: _Actor | None = None  # whose constructor or call it is


@dataclass(eq=False)
class _Bundle:
    """`node`: where it is; None: nowhere yet."""

    amounts: Mapping[str, float]
    node: EngineNode | None = None
    used: dict[str, float] = field(default_factory=dict[str, float])


_Where = EngineNode | _Bundle
"""Of what somebody has resources."""


@dataclass
class _Group:
    strategy: Spread
    bundles: list[_Bundle]
    is_told: bool = False


class FakeEngine(TaskEngine):
    """See above; `interface.Engine`.

    Parameters
    ----------
    run : callable (data, blobs) -> Outcome
        What runs a parcel in a worker: `pocket.run`, or a test's.
    hear : callable (message)
        What a pocket of a worker is told.
    host : callable
        Makes what runs the parcels of an actor; by default they run as others do.
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

    can: Capabilities = Capabilities(actors=True, concurrent_actors=True, groups=True, output=True, streams=True)

    def __init__(
        self,
        run: Run,
        nodes: Sequence[EngineNode] = (EngineNode("fake-1", {"CPU": 4.0}),),
        seed: int = 0,
        faults: Faults = Faults(),
        run_s: float = 0.001,
        host: MakeHost | None = None,
        hear: Callable[[bytes], None] = lambda message: None,
    ) -> None:
        self._hear = hear
        self._run, self._nodes, self._faults, self._run_s = run, list(nodes), faults, run_s
        self._random = random.Random(seed)
        self._tell: Callable[[Event], None] = lambda event: None
        self._numbers = itertools.count(1)
        self._queue: deque[_Job] = deque()
        self._running: dict[int, tuple[_Job, _Where]] = {}
        self._host: MakeHost = host or (lambda ended: _Borrowed(run, ended))
        self._actors: dict[EngineActor, _Actor] = {}
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._blobs: dict[Blob, bytes | None] = {}  # None: lost
        self._groups: dict[Group, _Group] = {}
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
        return Facts("fake", dashboard="http://fake")

    def nodes(self) -> list[EngineNode]:
        """Its machines."""
        return list(self._nodes)

    def submit(self, parcel: Parcel) -> Handle:
        """Have a parcel run."""
        with self._changed:
            job = _Job(parcel, next(self._numbers))
            self._enqueue(job)
            return job.handle

    def cancel(self, handle: Handle, force: bool) -> None:
        """End a parcel that has not begun; one that runs goes on."""
        with self._changed:
            waiting = [job for job in self._queue if job.handle == handle]
            self._queue = deque(job for job in self._queue if job.handle != handle)
            for actor in self._actors.values():
                waiting += actor.lines.take_out(lambda job: job.handle == handle)
            for job in waiting:
                self._end_run(job, "cancelled")
            self._changed.notify_all()

    def withdraw(self, handle: Handle) -> None:
        """Have a parcel not begin."""
        self.cancel(handle, False)

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

    def create_actor(self, parcel: Parcel, keeps: Mapping[str, float]) -> EngineActor:
        """Have an actor constructed."""
        with self._changed:
            number = next(self._numbers)
            host = self._host(lambda code: self._over(number, "crashed", code))
            actor = _Actor(number, keeps, host, Lines(parcel.limits), parcel.bundle)
            self._actors[number] = actor
            self._enqueue(_Job(parcel, number, actor=actor))
            return number

    def call(self, actor: EngineActor, parcel: Parcel) -> Handle:
        """Have a call run."""
        with self._changed:
            found = self._actors.get(actor)
            job = _Job(parcel, next(self._numbers), actor=found)
            if found is None:
                self._later(0.0, lambda: self._tell(Failed(job.handle, "crashed")))
            else:
                found.lines.add(job, parcel.group)
                self._next_calls(found)
            self._changed.notify_all()
            return job.handle

    def kill(self, actor: EngineActor, force: bool) -> None:
        """End an actor."""
        with self._changed:
            found = self._actors.get(actor)
            if found is not None:
                if force:
                    self._over(actor, "crashed", -signal.SIGKILL)
                found.host.end(force)

    def reserve(self, bundles: Sequence[Mapping[str, float]], strategy: Spread) -> Group:
        """Put resources aside."""
        with self._changed:
            number = next(self._numbers)
            self._groups[number] = _Group(strategy, [_Bundle(amounts) for amounts in bundles])
            self._later(0.0, self._place)
            self._changed.notify_all()
            return number

    def unreserve(self, group: Group) -> None:
        """Give them back, and end what is there."""
        with self._changed:
            for actor in [actor for actor in self._actors.values() if _is_of(actor.bundle, group)]:
                self._over(actor.number, "crashed", -signal.SIGKILL)
                actor.host.end(True)
            waiting = [job for job in self._queue if _is_of(job.parcel.bundle, group)]
            running = [job for job, _ in self._running.values() if _is_of(job.parcel.bundle, group)]
            self._queue = deque(job for job in self._queue if job not in waiting)
            for job in running:
                del self._running[job.handle]
            for job in (*waiting, *running):
                self._later(0.0, partial(self._tell, Failed(job.handle, "crashed", job.n_runs)))
            for bundle in self._groups.pop(group).bundles:
                if bundle.node is not None:
                    self._take(bundle.node, bundle.amounts, -1)
            self._later(0.0, self._place)
            self._changed.notify_all()

    def say(self, handle: Handle, message: bytes) -> None:
        """Tell a pocket something."""
        with self._changed:
            actor = self._actors.get(handle)
            job = self._running[handle][0] if isinstance(handle, int) and handle in self._running else None
        if job is not None:
            actor = job.actor
        if actor is not None:
            actor.host.hear(message)
        elif job is not None:
            self._hear(message)

    def said(self, message: bytes, large: Sequence[Large]) -> None:
        """A pocket says something."""
        with self._changed:
            kept = [next(self._numbers) for _ in large]
            self._blobs.update(zip(kept, map(bytes, large), strict=True))
        self._tell(Said(message, kept))

    def close(self) -> None:
        """End."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _enqueue(self, job: _Job) -> None:
        in_group = job.parcel.bundle is not None
        if not in_group and not any(_fits(job.parcel.resources, node.total, {}) for node in self._nodes):
            if job.actor is not None:
                self._actors.pop(job.handle).host.end(True)
            self._later(0.0, lambda: self._tell(Failed(job.handle, "unschedulable")))
        else:
            self._queue.append(job)
            self._later(0.0, self._place)
        self._changed.notify_all()

    # ---- what happens
    @property
    def n_actors(self) -> int:
        """How many actors there are."""
        return len(self._actors)

    @property
    def used(self) -> Mapping[str, Mapping[str, float]]:
        """What is taken of each machine."""
        return {node.name: self._used[node.name] for node in self._nodes}

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
            for actor in [actor for actor in self._actors.values() if _is_on(actor.where, name)]:
                self._over(actor.number, "node_died", 0)
                actor.host.end(True)
            for handle, (job, where) in list(self._running.items()):
                if _is_on(where, name):
                    del self._running[handle]
                    self._end_run(job, "node_died")
            for group in self._groups.values():
                for bundle in group.bundles:
                    if _is_on(bundle, name):
                        bundle.node = None
                        bundle.used.clear()
            self._later(0.0, self._place)
            self._later(0.0, lambda: self._tell(NodesChanged()))

    def lose_blobs(self) -> None:
        """What it keeps is lost, though no machine is."""
        with self._changed:
            self._blobs = dict.fromkeys(self._blobs)

    def _later(self, after_s: float, what: Callable[[], None]) -> None:
        late = self._random.random() * self._faults.late_s
        heapq.heappush(self._due, (self.now + after_s + late, next(self._numbers), what))

    def _found(self, blob: Blob) -> Event:
        data = self._blobs.get(blob)
        return Lost(blob) if data is None else Came(blob, data)

    def _place(self) -> None:
        """Begin what there is room for, in the order in which it came."""
        with self._changed:
            for number, group in self._groups.items():
                self._set_aside(number, group)
            while (found := self._next()) is not None:
                job, where = found
                self._queue.remove(job)
                self._take(where, job.parcel.resources, 1)
                if job.actor is not None:
                    job.actor.where = where
                self._begin(job, where)

    def _next(self) -> tuple[_Job, _Where] | None:
        """What is to begin, and where. In a bundle nobody waits for those outside."""
        is_full = False
        for job in filter(self._may_begin, self._queue):
            if job.parcel.bundle is None and is_full:
                continue
            where = self._where_for(job.parcel)
            if where is not None:
                return job, where
            is_full |= job.parcel.bundle is None
        return None

    def _set_aside(self, number: Group, group: _Group) -> None:
        """All bundles that have no place, if there is room."""
        lacking = [bundle for bundle in group.bundles if bundle.node is None]
        nodes = _assigned(group, lacking, self._nodes, self._used)
        for bundle, node in zip(lacking, nodes, strict=False):
            bundle.node = node
            self._take(node, bundle.amounts, 1)
        if nodes and not group.is_told:
            group.is_told = True
            self._later(0.0, lambda: self._tell(SetAside(number)))

    def _may_begin(self, job: _Job) -> bool:
        """Whether a worker takes it, if there is room."""
        return True

    def _begin(self, job: _Job, where: _Where) -> None:
        self._running[job.handle] = job, where
        if job.actor is not None:
            job.actor.due.append(job)
        self._later(self._run_s, partial(self._execute, job) if job.actor is None else partial(self._call, job.actor))

    def _call(self, actor: _Actor) -> None:
        """Hand over the next of its calls."""
        with actor.hands_over:
            self._execute(actor.due.popleft())

    def _next_calls(self, actor: _Actor) -> None:
        while actor.is_constructed and actor.where is not None and (job := actor.lines.next()) is not None:
            self._begin(job, actor.where)

    def _where_for(self, parcel: Parcel) -> _Where | None:
        if parcel.bundle is not None:
            bundle = self._groups[parcel.bundle.group].bundles[parcel.bundle.index]
            fits = bundle.node is not None and _fits(parcel.resources, bundle.amounts, bundle.used)
            return bundle if fits else None
        for node in self._nodes:
            if _fits(parcel.resources, node.total, self._used[node.name]):
                return node
        return None

    def _take(self, where: _Where, amounts: Mapping[str, float], sign: int) -> None:
        used = where.used if isinstance(where, _Bundle) else self._used[where.name]
        for name, amount in amounts.items():
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
        if dies_first:
            self._go_through(job, None, dies)
        elif job.actor is None:
            self._work_on(job, blobs, dies)
        else:
            job.actor.host.run(job.parcel.data, blobs, lambda outcome: self._go_through(job, outcome, dies))

    def _work_on(self, job: _Job, blobs: Sequence[Any], dies: bool) -> None:
        """What the worker does that tasks share."""
        self._go_through(job, self._run(job.parcel.data, blobs), dies)

    def _go_through(self, job: _Job, outcome: Outcome | None, dies: bool) -> None:
        """A run has ended; None: before it had begun."""
        if dies or outcome is None:
            if job.actor is None:
                self._ended(job, None)
            else:
                self.kill(job.actor.number, True)
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
            actor, where = job.actor, found[1]
            if actor is None or not actor.is_constructed:
                self._take(where, job.parcel.resources, -1)
                self._later(0.0, self._place)
            if actor is not None and not actor.is_constructed and isinstance(event, Failed):
                self._actors.pop(actor.number).host.end(True)
            elif actor is not None:
                if actor.is_constructed:
                    actor.lines.ended(job.parcel.group)
                else:
                    actor.is_constructed = True
                    self._take(where, actor.keeps, 1)
                self._next_calls(actor)
            if event is None:
                self._end_run(job, "crashed")
            else:
                self._later(0.0, lambda: self._tell(event))
            self._changed.notify_all()

    def _over(self, number: EngineActor, kind: FailureKind, code: int) -> None:
        """The process of an actor has ended, and with it its constructor, or its calls."""
        with self._changed:
            actor = self._actors.pop(number, None)
            if actor is None:
                return
            begun = [job for job, _ in self._running.values() if job.actor is actor]
            waiting = [job for job in self._queue if job.actor is actor] + actor.lines.take_out(lambda job: True)
            self._queue = deque(job for job in self._queue if job.actor is not actor)
            for job in begun:
                del self._running[job.handle]
            for job in (*begun, *waiting):
                self._later(0.0, partial(self._tell, Failed(job.handle, kind, job.n_runs, code=code)))
            if actor.is_constructed:
                left = kind == "crashed" and not code
                self._later(0.0, partial(self._tell, ActorEnded(number, kind, code, left)))
            if actor.where is not None:
                amounts = actor.keeps if actor.is_constructed else begun[0].parcel.resources
                self._take(actor.where, amounts, -1)
                self._later(0.0, self._place)
            self._changed.notify_all()

    def _end_run(self, job: _Job, kind: FailureKind) -> None:
        if kind != "cancelled" and self.can.retries and job.n_runs < job.parcel.most_runs:
            self._queue.append(job)
            self._later(0.0, self._place)
        else:
            self._later(0.0, lambda: self._tell(Failed(job.handle, kind, job.n_runs)))


def _fits(resources: Mapping[str, float], total: Mapping[str, float], used: Mapping[str, float]) -> bool:
    return all(amount <= total.get(name, 0.0) - used.get(name, 0.0) + 1e-9 for name, amount in resources.items())


def _is_on(where: _Where | None, name: str) -> bool:
    node = where.node if isinstance(where, _Bundle) else where
    return node is not None and node.name == name


def _is_of(bundle: Bundle | None, group: Group) -> bool:
    return bundle is not None and bundle.group == group


def _assigned(
    group: _Group, lacking: Sequence[_Bundle], nodes: Sequence[EngineNode], used: Mapping[str, Mapping[str, float]]
) -> list[EngineNode]:
    """A machine for each of these bundles; none, if there is not room for all."""
    is_packed, is_strict = group.strategy.endswith("PACK"), group.strategy.startswith("STRICT")
    there = Counter(bundle.node.name for bundle in group.bundles if bundle.node is not None)
    for candidates in [[node] for node in nodes] if is_packed and is_strict else [nodes]:
        room, n_there, found = {name: Counter(amounts) for name, amounts in used.items()}, Counter(there), []
        for bundle in lacking:
            fitting = [
                node
                for node in candidates
                if _fits(bundle.amounts, node.total, room[node.name])
                and not (is_strict and not is_packed and n_there[node.name])
            ]
            if not fitting:
                break
            node = min(fitting, key=lambda node: -n_there[node.name] if is_packed else n_there[node.name])
            room[node.name].update(bundle.amounts)
            n_there[node.name] += 1
            found.append(node)
        else:
            return found
    return []


class _Borrowed:
    """What runs an actor's parcels as others are run."""

    def __init__(self, run: Run, ended: Callable[[int], None]) -> None:
        self._run, self._ended = run, ended

    def run(self, data: bytes, blobs: Sequence[Any], over: Over) -> None:
        """Run one."""
        over(self._run(data, blobs))

    def hear(self, message: bytes) -> None:
        """Nobody is there that hears."""

    def end(self, force: bool) -> None:
        """It has ended."""
        self._ended(-signal.SIGKILL if force else 0)


class _Served(FakeEngine):
    """Works in threads of its own, by pockets: while one runs a parcel, the other does all else."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._jobs: SimpleQueue[tuple[_Job, Sequence[Any], bool] | None] = SimpleQueue()  # None: it is closed
        self._now: _Job | None = None
        self._is_lent = False

    def connect(self, address: str, options: Mapping[str, Any], tell: Callable[[Event], None]) -> Facts:
        """Begin."""
        facts = super().connect(address, options, tell)
        for work in (self.serve, self._work_on_all):
            threading.Thread(target=or_end, args=(work,), name="fake-engine", daemon=True).start()
        return facts

    def _work_on(self, job: _Job, blobs: Sequence[Any], dies: bool) -> None:
        self._jobs.put((job, blobs, dies))

    def _work_on_all(self) -> None:
        while (given := self._jobs.get()) is not None:
            self._now, blobs, dies = given
            super()._work_on(self._now, blobs, dies)

    def close(self) -> None:
        """End."""
        super().close()
        self._jobs.put(None)

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Meanwhile others may have what the parcel has that runs."""
        job = self._now
        assert job is not None  # it asks
        self._lend(job, -1)
        try:
            yield
        finally:
            self._lend(job, 1)

    def _may_begin(self, job: _Job) -> bool:
        return job.actor is not None or not self._is_lent  # the worker, of which there is one, is not free

    def _lend(self, job: _Job, sign: int) -> None:
        with self._changed:
            self._is_lent = sign < 0
            if job.handle in self._running:
                self._take(self._running[job.handle][1], job.parcel.resources, sign)
                self._later(0.0, self._place)
                self._changed.notify_all()


class _Line(Line):
    """To that engine, which is in this process."""

    def __init__(self, engine: _Served) -> None:
        self._engine = engine

    def say(self, message: bytes, large: Sequence[Large]) -> bool:
        """Tell it something."""
        self._engine.said(message, large)
        return True

    def rest(self, comes: threading.Event, seconds: float) -> bool:
        """Sleep, and have others use the CPU."""
        with self._engine.lent():
            comes.wait(seconds)
        return True


def served() -> FakeEngine:
    """The engine of `init(address="fake:")`."""
    from . import pocket
    from .actor.process import ActorProcess

    engine = _Served(
        lambda data, blobs: pocket.run(data, blobs, _Line(engine)),
        host=lambda ended: ActorProcess(_Line(engine), ended),
        hear=pocket.hear,
    )
    return engine
