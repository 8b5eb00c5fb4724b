"""Ray as an engine, within its cluster: `init(address="ray:auto")` on one of its machines.

A parcel is a Ray task, `run_parcel`, which runs it in the pocket of its worker; Ray places it, retries it after a
crash, and keeps what is large: results that are, as returns of that task, which Ray makes again when they are lost.
What tasks tell that run goes through an actor of the session's, the *office*, which this process asks in a thread of
its own; a task that is quick has its outcome alone. An actor is a Ray actor, `ActorHost`, which Ray does not restart.
Where it takes several calls at a time, that hands them over to a process beside it, see `host`.
Public interfaces of Ray alone.

This module imports Ray late: it is imported in Ray's workers too, and in a process that may have no Ray.
"""

from __future__ import annotations

import atexit
import itertools
import os
import signal
import threading
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pickle import PickleBuffer
from typing import Any

from ...errors import process_exit
from ...objstore._core import deferring
from ...scheduler.cluster.messages import Spread
from ...scheduler.worker import leaving
from ...text import first_line
from .. import pocket
from ..actor.process import ActorProcess
from ..calls import ANY_NUMBER
from ..connection.connecting import imported
from ..interface import (
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
    Gone,
    Group,
    Handle,
    Lost,
    NodesChanged,
    Notice,
    Parcel,
    Said,
    SetAside,
    TaskEngine,
)
from ..news import Line
from ..parcels import Large
from .host import AGAIN_S, ConcurrentHost, HostLine, returned
from .joining import check_listens, joined

PREFIX = "ray:"
NODES_S = 2.0  # how often to look which machines there are
SLOW_S = 5.0  # without an answer to that, after which people are told
AUTO = (
    '"ray:auto" is the cluster of this machine, as `ray start` begins it; "ray://HOST:10001", with Ray Client\'s port, '
    "is for machines that are not of the cluster"
)
MOST_ASK = 10_000  # of an office at a time, among them each generator that runs
MOST_OVER = 1000  # runs of which it is known that they hear no more
OFFICE = "cellmesh-office"  # the name of an actor, in a namespace of this process's job


# ---------------------------------------------------------------- in Ray's workers
class Office:
    """An actor: takes what is said in pockets until it is fetched, and what is said to them until they hear it."""

    def __init__(self) -> None:
        import asyncio

        self._said: list[tuple[bytes, list[Any], asyncio.Event]] = []
        self._taken: list[asyncio.Event] = []  # of what was fetched last
        self._comes = asyncio.Event()
        self._told: dict[int, list[bytes]] = {}  # by parcel
        self._hears: dict[int, tuple[str, asyncio.Event]] = {}  # by parcel: which run of it
        self._over: deque[str] = deque(maxlen=MOST_OVER)  # runs that hear no more
        self._left: set[str] = set()

    async def say(self, message: bytes, large: list[Any]) -> None:
        """Returns when it has come where it was fetched. `large`: refs."""
        import asyncio

        has_come = asyncio.Event()
        self._said.append((message, large, has_come))
        self._comes.set()
        await has_come.wait()

    async def take(self) -> list[tuple[bytes, list[Any]]]:
        """What was said; waits until there is something. What was fetched before has come."""
        for has_come in self._taken:
            has_come.set()
        await self._comes.wait()
        self._comes.clear()
        said, self._said = self._said, []
        self._taken = [has_come for _, _, has_come in said]
        return [(message, large) for message, large, _ in said]

    async def tell(self, parcel: int, message: bytes) -> None:
        """Keep that for the pocket that runs a parcel, if it hears."""
        if parcel in self._hears:
            self._told.setdefault(parcel, []).append(message)
            self._hears[parcel][1].set()

    async def hear(self, parcel: int, run: str) -> list[bytes]:
        """What was told; waits until there is something, or that run of it is over."""
        import asyncio

        if run in self._over:
            return []
        if parcel not in self._hears or self._hears[parcel][0] != run:
            self._hears[parcel] = run, asyncio.Event()
        comes = self._hears[parcel][1]
        await comes.wait()
        comes.clear()
        return self._told.pop(parcel, [])

    async def forget(self, parcel: int, run: str) -> None:
        """That run of it is over, and hears no more."""
        self._over.append(run)
        if parcel in self._hears and self._hears[parcel][0] == run:
            self._told.pop(parcel, None)
            self._hears.pop(parcel)[1].set()

    async def note_left(self, actor: str) -> None:
        """An actor ends itself, and has done what it was there for."""
        self._left.add(actor)

    async def has_left(self, actor: str) -> bool:
        """Whether one has said so. Asked once, when it has ended."""
        has_left = actor in self._left
        self._left.discard(actor)
        return has_left


class ActorHost:
    """A Ray actor that an actor of the session lives in. Its constructor is the first parcel that is run."""

    def __init__(self, name: str) -> None:
        import ray

        self._name = name
        self._lock = threading.Lock()
        self._latest = 0  # parcel that has begun
        self._cancelled: set[int] = set()
        atexit.unregister(ray.shutdown)  # among what runs when an actor ends itself, which it is yet to tell

    def run(self, number: int, n_results: int, data: bytes, *blobs: Any) -> Any:
        """See `run_parcel`; nothing, if it was cancelled."""
        with self._lock:
            self._latest = number
            if number in self._cancelled:
                self._cancelled.discard(number)
                return [None] * (1 + n_results) if n_results else None
        process_exit.before_exit = self._note_exit
        return run_parcel(0, n_results, data, *blobs)

    def hear(self, message: bytes) -> None:
        """Tell its pocket something. In a concurrency group of its own."""
        pocket.hear(message)

    def cancel(self, number: int) -> bool:
        """Have a parcel not run, whether Ray has handed it over or not; False: it has begun. Ray itself tells of such a
        one once those before it have ended. In a concurrency group of its own."""
        with self._lock:
            if number <= self._latest:
                return False
            self._cancelled.add(number)
            return True

    def watch(self) -> None:
        """Never returns: it fails when the process has ended. In a concurrency group of its own."""
        threading.Event().wait()

    def end(self) -> None:
        """What the end of a process has: Ray waits for `watch` if it is to end one politely."""
        leaving.run_exit_functions()

    def _note_exit(self, status: int) -> None:
        if not status:
            import ray

            ray.get(the_office(ray).note_left.remote(self._name))


def run_parcel(number: int, n_results: int, data: bytes, *blobs: Any) -> Any:
    """A Ray task: runs a parcel; see `returned`."""
    if threading.current_thread() is threading.main_thread():  # what Ray interrupts, and it may be called at any time
        signal.signal(signal.SIGINT, deferring(_interrupt))
    return returned(pocket.run(data, [memoryview(blob).cast("B") for blob in blobs], OfficeLine(number)), n_results)


def begin_process(ended: Callable[[int], None]) -> ActorRunner:
    """Beside the worker, for an actor."""
    return ActorProcess(HostLine(OfficeLine(0)), ended)


def _interrupt(number: int, frame: Any) -> None:
    """Ray cancels a parcel that runs. In the place of Python's handler from the first parcel on: one that was handed
    over a moment ago must not be taken for one that has not begun."""
    pocket.interrupt()


_office: Any = None


def office_of_job(ray: Any) -> dict[str, str]:
    """The name and the namespace of the office: programs may give jobs the same one for their own actors."""
    return {"name": OFFICE, "namespace": f"cellmesh-{ray.get_runtime_context().get_job_id()}"}


def the_office(ray: Any) -> Any:
    """That of the job which this process works for."""
    return ray.get_actor(**office_of_job(ray))


class OfficeLine(Line):
    """The line by the office. `number`: the parcel's; 0: its pocket is told things by its host."""

    def __init__(self, number: int) -> None:
        self._number, self._run = number, uuid.uuid4().hex
        self._is_over = threading.Event()
        self._heard: Any = None  # a ref of what is heard next

    def say(self, message: bytes, large: Sequence[Large]) -> bool:
        """Tell the engine's process something."""
        import ray

        return self._ask("say", message, [ray.put(PickleBuffer(one)) for one in large]) is not False

    def listen(self) -> None:
        """Hear what it says."""
        if self._number:
            threading.Thread(target=self._hear, name="cellmesh-hear", daemon=True).start()

    def end(self) -> None:
        """Hear no more."""
        self._is_over.set()
        if self._number and _office is not None:
            _office.forget.remote(self._number, self._run)

    def rest(self, comes: threading.Event, seconds: float) -> bool:
        """Wait for what is heard next, as Ray's tasks wait. An actor keeps what it has."""
        import ray

        if (heard := self._heard) is None:
            return False
        if ray.wait([heard], timeout=seconds)[0]:
            comes.wait(seconds)  # until it is told on
        return True

    def _hear(self) -> None:
        def note(ref: Any) -> None:
            self._heard = ref

        while not self._is_over.is_set():
            for message in (messages := self._ask("hear", self._number, self._run, note=note) or []):
                pocket.hear(message)
            if not messages:
                self._is_over.wait(AGAIN_S)
        # Of the last line a pocket keeps hold, and Ray never ends a worker that has a ref.
        self._heard = None

    def _ask(self, method: str, *arguments: Any, note: Callable[[Any], None] = lambda ref: None) -> Any:
        """False: there is no office yet, or not any more. `note`: is called with the ref of the answer."""
        global _office
        import ray

        try:
            office = _office = _office or the_office(ray)
            note(ref := getattr(office, method).remote(*arguments))
            return ray.get(ref)
        except (ValueError, ray.exceptions.RayError) as error:
            error.__traceback__ = None  # Ray's frames have the ref, and the error: a cycle, and nobody collects here
            _office = None
            return False


# ---------------------------------------------------------------- in the engine's process
class _Actor:
    """An actor with one call at a time, by the Ray actor that it lives in, an `ActorHost`. What these methods return is
    Ray's. `n_calls`: that are under way; `is_over`: its process has ended, and Ray does not know."""

    def __init__(self, host: Any) -> None:
        self.host = host
        self.n_calls: int = 0
        self.is_over: bool = False

    def watch(self) -> Any:
        """Its end."""
        return self.host.watch.options(concurrency_group="watch").remote()

    def run(self, number: Handle, parcel: Parcel, blobs: Sequence[Any]) -> Any:
        """Run a parcel."""
        return self._run(parcel, blobs, number)

    def _run(self, parcel: Parcel, blobs: Sequence[Any], *what: Any) -> Any:
        run = self.host.run.options(num_returns=1 + parcel.n_results)
        return run.remote(*what, parcel.n_results, parcel.data, *blobs)

    def ended(self, number: Handle, is_lost: bool) -> None:
        """A parcel has. `is_lost`: on its way to the host."""

    def cancel(self, number: Handle) -> Any:
        """Have a parcel not run; whether it will not."""
        return self.host.cancel.options(concurrency_group="cancel").remote(number)

    def hear(self, message: bytes) -> None:
        """Tell its pocket something."""
        self.host.hear.options(concurrency_group="hear").remote(message)

    def end(self, then: Callable[[Any], None]) -> None:
        """End it as a program ends; `then`: called when that is done, if Ray's actor is to be killed then."""
        self.host.end.remote().future().add_done_callback(then)


class _ConcurrentActor(_Actor):
    """The same of one with several calls at a time, in a `ConcurrentHost`. Each parcel comes there with its place."""

    def __init__(self, host: Any) -> None:
        super().__init__(host)
        self._n_given = 0
        self._places: dict[Handle, int] = {}  # of parcels that are under way

    def watch(self) -> Any:
        return self.host.watch.remote()

    def run(self, number: Handle, parcel: Parcel, blobs: Sequence[Any]) -> Any:
        place = self._places[number] = self._n_given
        self._n_given += 1
        return self._run(parcel, blobs, place, parcel.group)

    def ended(self, number: Handle, is_lost: bool) -> None:
        place = self._places.pop(number)
        if is_lost:
            self.host.cancel.remote(place)  # those behind it wait for it

    def cancel(self, number: Handle) -> Any:
        return self.host.cancel.remote(self._places.get(number, -1))

    def hear(self, message: bytes) -> None:
        self.host.hear.remote(message)

    def end(self, then: Callable[[Any], None]) -> None:
        self.host.end.remote()  # and `watch` tells


class RayEngine(TaskEngine):
    """See above; `interface.Engine`."""

    can: Capabilities = Capabilities(
        retries=True,
        cancels_running=True,
        actors=True,
        concurrent_actors=True,
        output=True,
        nested=True,
        streams=True,
        groups=True,
    )

    def __init__(self) -> None:
        self._ray: Any = None
        self._tell: Callable[[Event], None] = lambda event: None
        self._numbers = itertools.count(1)
        self._runs: dict[Handle, list[Any]] = {}  # refs that Ray gives: of the outcome, and of large values
        self._blobs: dict[Blob, Any] = {}
        self._actors: dict[EngineActor, _Actor] = {}
        self._calls: dict[Handle, _Actor] = {}  # that are under way, and were not cancelled
        self._tasks: dict[tuple[Any, ...], Any] = {}  # by what is asked for
        self._groups: dict[Group, Any] = {}  # Ray's; None: it is being made
        self._nodes: list[EngineNode] = []
        self._closes = threading.Event()
        self._lock = threading.Lock()

    # ---- connection
    def connect(self, address: str, options: Mapping[str, Any], tell: Callable[[Event], None]) -> Facts:
        """Begin."""
        where = address.removeprefix(PREFIX)
        check_listens(PREFIX, where, AUTO)
        ray = imported("ray")
        context, versions = joined(ray, address, AUTO, options, partial(ray.init, address=where))
        self.begin(ray, tell)
        return Facts("ray", versions, context.dashboard_url or "")

    def begin(self, ray: Any, tell: Callable[[Event], None]) -> None:
        """Begin in a process of a job's, whose workers have what they need."""
        self._ray, self._tell = ray, tell
        self._nodes = self._machines()
        self._run = ray.remote(run_parcel)
        self._host = ray.remote(concurrency_groups={"watch": 1, "cancel": 1, "hear": 1})(ActorHost)
        self._concurrent_host = ray.remote(max_concurrency=MOST_ASK)(ConcurrentHost)
        self._office = (
            ray.remote(Office)
            .options(**office_of_job(ray), num_cpus=0, max_restarts=-1, max_concurrency=MOST_ASK)
            .remote()
        )
        for work in (self._watch, self._listen):
            threading.Thread(target=work, name="cellmesh-ray", daemon=True).start()

    def _machines(self) -> list[EngineNode]:
        return [
            EngineNode(node["NodeManagerHostname"], amounts_of(node["Resources"]))
            for node in self._ray.nodes()
            if node["Alive"]
        ]

    def _look_patiently(self) -> list[EngineNode]:
        """Tell people of a head that takes its time, as one that begins again."""
        told = list[Event]()

        def tell_slow() -> None:
            told.append(Notice(line="slow"))
            self._tell(told[0])

        is_slow = threading.Timer(SLOW_S, tell_slow)
        is_slow.daemon = True
        is_slow.start()
        try:
            found = self._machines()
        finally:
            is_slow.cancel()
        is_slow.join()  # it tells, or never will
        if told:
            self._tell(Notice(line="connected"))
        return found

    def _watch(self) -> None:
        while not self._closes.wait(NODES_S):
            try:
                found = self._look_patiently()
            except Exception as error:  # whatever a client says whose cluster has gone
                if not self._closes.is_set():
                    self._tell(Gone(f"Ray does not answer: {first_line(error)}"))
                return
            if found != self._nodes:
                self._nodes = found
                self._tell(NodesChanged())

    def _listen(self) -> None:
        """Fetch what is said in pockets."""
        while not self._closes.is_set():
            try:
                for message, large in self._ray.get(self._office.take.remote()):
                    self._tell(Said(message, [self._adopt(ref) for ref in large]))
            except self._ray.exceptions.RayError:  # its machine is lost: it begins again on another one
                self._closes.wait(NODES_S)

    def nodes(self) -> list[EngineNode]:
        """Its machines."""
        return self._nodes

    def close(self) -> None:
        """End."""
        self._closes.set()
        if self._ray is not None:
            self._ray.shutdown()

    # ---- parcels
    def submit(self, parcel: Parcel) -> Handle:
        """Have a parcel run."""
        number = next(self._numbers)
        blobs = [self._blobs[blob] for blob in parcel.blobs]
        refs = self._task_for(parcel).remote(number, parcel.n_results, parcel.data, *blobs)
        self._runs[number] = refs = refs if isinstance(refs, list) else [refs]
        refs[0].future().add_done_callback(partial(self._ended, number, parcel.most_runs))
        return number

    def _task_for(self, parcel: Parcel) -> Any:
        amounts = dict(parcel.resources)
        key = (parcel.bundle, parcel.n_results, parcel.most_runs, *sorted(amounts.items()))
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = self._run.options(
                name="cellmesh",
                num_returns=1 + parcel.n_results,
                max_retries=-1 if parcel.most_runs >= ANY_NUMBER else parcel.most_runs - 1,
                num_cpus=amounts.pop("CPU", 0),
                num_gpus=amounts.pop("GPU", 0),
                memory=amounts.pop("memory", None),
                resources=amounts,
                **self._place(parcel.bundle),
            )
        return task

    def _place(self, bundle: Bundle | None) -> dict[str, Any]:
        """The option that has something run there."""
        if bundle is None:
            return {}
        strategy = self._ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(
            self._groups[bundle.group], bundle.index, bundle.captures
        )
        return {"scheduling_strategy": strategy}

    def _ended(self, number: Handle, most_runs: int, future: Any) -> None:
        refs = self._runs.pop(number)
        if (error := future.exception()) is not None:
            kind, text = failure_of(self._ray.exceptions, error)
            self._tell(Failed(number, kind, most_runs, text))
            return
        found = future.result()
        data, more = found if isinstance(found, tuple) else (found, [])
        self._tell(Ended(number, data, [self._adopt(ref) for ref in [*refs[1:], *more]]))

    def _adopt(self, ref: Any) -> Blob:
        number = next(self._numbers)
        self._blobs[number] = ref
        return number

    # ---- actors
    def create_actor(self, parcel: Parcel, keeps: Mapping[str, float]) -> EngineActor:
        """Have an actor constructed."""
        number = next(self._numbers)
        name = f"{os.getpid()}-{number}"
        options = actor_options(parcel.resources, keeps) | self._place(parcel.bundle)
        if parcel.limits:
            host = self._concurrent_host.options(**options).remote(list(parcel.limits), begin_process)
            actor: _Actor = _ConcurrentActor(host)
        else:
            actor = _Actor(self._host.options(**options).remote(name))
        self._actors[number] = actor
        actor.watch().future().add_done_callback(partial(self._actor_ended, number, name))
        self._give(number, actor, parcel)
        return number

    def call(self, actor: EngineActor, parcel: Parcel) -> Handle:
        """Have a call run."""
        number = next(self._numbers)
        if (found := self._actors.get(actor)) is not None:
            self._give(number, found, parcel)
        else:
            self._tell(Failed(number, "crashed"))
        return number

    def _give(self, number: Handle, actor: _Actor, parcel: Parcel) -> None:
        blobs = [self._blobs[blob] for blob in parcel.blobs]
        refs = actor.run(number, parcel, blobs)
        self._runs[number] = refs = refs if isinstance(refs, list) else [refs]
        self._calls[number] = actor
        with self._lock:
            actor.n_calls += 1
        refs[0].future().add_done_callback(partial(self._call_ended, number, actor))

    def _call_ended(self, number: Handle, actor: _Actor, future: Any) -> None:
        self._tell_call(number, actor, future)
        with self._lock:
            actor.n_calls -= 1
            is_over = actor.is_over and not actor.n_calls
        if is_over:
            self._kill(actor.host)

    def _tell_call(self, number: Handle, actor: _Actor, future: Any) -> None:
        error = future.exception()
        is_over = isinstance(error, self._ray.exceptions.RayActorError)
        is_cancelled = self._calls.pop(number, None) is None
        actor.ended(number, is_lost=error is not None and not is_over)
        if is_cancelled:
            return
        if error is None:
            outcome = future.result()
            if not isinstance(outcome, bool):
                self._ended(number, 1, future)
                return
            kind, text, n_runs = "crashed", "", int(outcome)
        else:
            kind, text = actor_failure_of(self._ray.exceptions, error)
            n_runs = 1  # which calls had begun Ray does not tell
            if is_over:
                self._kill(actor.host)  # it may be there still, and not be reached
        del self._runs[number]
        self._tell(Failed(number, kind, n_runs, text))

    def _actor_ended(self, number: EngineActor, name: str, future: Any) -> None:
        actor = self._actors.pop(number, None)
        if self._closes.is_set():
            return
        if actor is not None and future.exception() is None:
            with self._lock:
                actor.is_over = True
                is_over = not actor.n_calls
            if is_over:  # else once it is known what has become of them
                self._kill(actor.host)
            code = future.result()
            self._tell(ActorEnded(number, "crashed", code, has_left=not code))
            return
        kind, _ = actor_failure_of(self._ray.exceptions, future.exception())
        asked = self._office.has_left.remote(name)
        asked.future().add_done_callback(partial(self._tell_end, number, kind))

    def _tell_end(self, actor: EngineActor, kind: FailureKind, future: Any) -> None:
        has_left = future.exception() is None and future.result()
        self._tell(ActorEnded(actor, kind, has_left=has_left))

    def kill(self, actor: EngineActor, force: bool) -> None:
        """End an actor."""
        found = self._actors.get(actor)
        if found is None:
            return
        if force:
            self._kill(found.host)
        else:
            found.end(lambda future: self._kill(found.host))

    def _kill(self, host: Any) -> None:
        self._in_thread(lambda: self._ray.kill(host))

    def _in_thread(self, what: Callable[[], None]) -> None:
        """Ray answers, and in its own threads nobody may wait for that."""

        def do() -> None:
            if not self._closes.is_set():
                what()

        threading.Thread(target=do, name="cellmesh-ray", daemon=True).start()

    def say(self, handle: Handle, message: bytes) -> None:
        """Tell a pocket something."""
        if (actor := self._actors.get(handle) or self._calls.get(handle)) is not None:
            actor.hear(message)
        elif handle in self._runs:
            self._office.tell.remote(handle, message)

    def cancel(self, handle: Handle, force: bool) -> None:
        """End a parcel: a task that runs is interrupted, a call is not."""
        if (actor := self._calls.get(handle)) is not None:
            actor.cancel(handle).future().add_done_callback(partial(self._call_cancelled, handle))
        elif (refs := self._runs.get(handle)) is not None:
            self._ray.cancel(refs[0], force=force)

    def withdraw(self, handle: Handle) -> None:
        """Have a parcel not begin; in one that runs Ray's interrupt goes to `_interrupt`."""
        if (refs := self._runs.get(handle)) is not None:
            self._ray.cancel(refs[0], recursive=False)

    def _call_cancelled(self, number: Handle, future: Any) -> None:
        if future.exception() is None and future.result() and self._calls.pop(number, None) is not None:
            del self._runs[number]
            self._tell(Failed(number, "cancelled"))

    # ---- placement groups
    def reserve(self, bundles: Sequence[Mapping[str, float]], strategy: Spread) -> Group:
        """Put resources aside."""
        number = next(self._numbers)
        self._groups[number] = None
        amounts = [dict(bundle) for bundle in bundles]
        self._in_thread(lambda: self._make_group(number, amounts, strategy))
        return number

    def _make_group(self, number: Group, bundles: list[dict[str, float]], strategy: Spread) -> None:
        try:
            group = self._ray.util.placement_group(bundles, strategy)
            with self._lock:
                if is_wanted := number in self._groups:
                    self._groups[number] = group
            if not is_wanted:
                self._ray.util.remove_placement_group(group)
            while number in self._groups and not self._closes.is_set():
                if group.wait(NODES_S):
                    self._tell(SetAside(number))
                    return
        except Exception as error:  # as of `_watch`
            if not self._closes.is_set():
                self._tell(Gone(f"Ray does not answer: {first_line(error)}"))

    def unreserve(self, group: Group) -> None:
        """Give them back."""
        with self._lock:
            found = self._groups.pop(group)
        self._tasks = {key: task for key, task in self._tasks.items() if key[0] is None or key[0].group != group}
        if found is not None:  # else it is removed once it is made
            self._in_thread(lambda: self._ray.util.remove_placement_group(found))

    # ---- values
    def put(self, data: bytes | memoryview) -> Blob:
        """Keep bytes."""
        number = next(self._numbers)
        self._blobs[number] = self._ray.put(PickleBuffer(data))
        return number

    def fetch(self, blob: Blob) -> None:
        """Get the bytes of a blob."""
        self._blobs[blob].future().add_done_callback(partial(self._fetched, blob))

    def _fetched(self, blob: Blob, future: Any) -> None:
        if future.exception() is not None:
            self._tell(Lost(blob))
        else:
            self._tell(Came(blob, memoryview(future.result()).cast("B")))

    def release(self, blobs: Sequence[Blob]) -> None:
        """These are not needed any more."""
        for blob in blobs:
            self._blobs.pop(blob, None)


# ---------------------------------------------------------------- pure
def amounts_of(resources: Mapping[str, float]) -> dict[str, float]:
    """What tasks may ask for, of what Ray says of a machine."""
    return {
        name: amount
        for name, amount in resources.items()
        if name != "object_store_memory" and not name.startswith("node:")
    }


def failure_of(exceptions: Any, error: BaseException) -> tuple[FailureKind, str]:
    """What has become of a parcel by that error of Ray's, and what there is to be said of it."""
    cause = getattr(error, "cause", None)
    if isinstance(error, exceptions.RayTaskError) and isinstance(cause, BaseException):
        error = cause
    kinds: list[tuple[Any, FailureKind]] = [
        (exceptions.TaskCancelledError, "cancelled"),
        (exceptions.OutOfMemoryError, "oom"),
        (exceptions.NodeDiedError, "node_died"),
        (exceptions.ObjectLostError, "object_lost"),
        (exceptions.TaskUnschedulableError, "unschedulable"),
        (exceptions.WorkerCrashedError, "crashed"),
    ]
    for of, kind in kinds:
        if isinstance(error, of):
            return kind, first_line(error)
    return "env_failed", first_line(error)


def actor_options(placed: Mapping[str, float], keeps: Mapping[str, float]) -> dict[str, Any]:
    """The options of a Ray actor that has so much set aside while it is placed, and then keeps that. Without `num_cpus`
    Ray places it as if it took one CPU, and has it keep none; of anything else it keeps what it was placed with."""
    amounts = dict(placed) | dict(keeps)
    cpus = amounts.pop("CPU", 0)
    options: dict[str, Any] = {
        "num_gpus": amounts.pop("GPU", 0),
        "memory": amounts.pop("memory", None),
        "resources": amounts,
        "max_restarts": 0,
        "max_task_retries": 0,
    }
    if not cpus or keeps.get("CPU"):
        options["num_cpus"] = cpus
    return options


def actor_failure_of(exceptions: Any, error: BaseException | None) -> tuple[FailureKind, str]:
    """What has become of a call by that error of Ray's, and what there is to be said of it."""
    if error is None:
        return "crashed", ""
    if isinstance(error, exceptions.ActorUnschedulableError):
        return "unschedulable", first_line(error)
    if isinstance(error, exceptions.RayActorError):
        return "crashed", first_line(error)
    return failure_of(exceptions, error)
