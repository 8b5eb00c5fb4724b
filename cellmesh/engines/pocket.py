"""What runs tasks of a session in a worker of an engine: a private segment, in which a task finds its function, its
arguments and all that it makes. So the API within a task is the one that it has at home.

A pocket is a node of one worker, which is the thread that calls `run`: it hears the session's task as any node would,
by the messages of a peer, executes it, and says what a peer says of its end. The engine has set the task's resources
aside, so here it asks for none.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from msgspec.structs import replace

from ..core_hooks import Hooks
from ..environment import driver_env
from ..environment.runtime_env import CHANGES
from ..objstore import own_pickles
from ..objstore._core import (
    FAILURE_STORE_FULL,
    OBJECT_FAILED,
    OBJECT_PENDING,
    RESOURCE_UNIT,
    ROLE_REMOTE_NODE,
    ROLE_WORKER,
    TASK_FLAG_ENV,
    Client,
    Runs,
    create_segment,
)
from ..scheduler.cluster.messages import (
    Cancel,
    Checkpoint,
    GroupBundle,
    Items,
    Kill,
    Message,
    Output,
    Ref,
    Reserve,
    Result,
    Results,
    Returned,
    Sealed,
    Taken,
    Task,
    Tasks,
    Unreserve,
    Value,
)
from ..scheduler.cluster.peer.broadcast import Tree
from ..scheduler.cluster.peer.bundles import Pool
from ..scheduler.cluster.peer.lineage import Lineage
from ..scheduler.cluster.peer.peer import Peer
from ..scheduler.ipc import held_text
from ..scheduler.ipc.messages import WorkerOutput
from ..scheduler.worker import actor as worker_actor
from ..scheduler.worker import output as worker_output
from ..session.current import process
from ..session.session import Config, WorkerNode, sizes_of
from .actor.calling import with_bytes
from .actor.pocket_calls import PocketCalls
from .batch import Batch
from .environment.processes import Environments
from .environment.session import PocketSession
from .interface import Outcome
from .kept import KeptValues
from .news import Line
from .parcels import CLOSED, Answered, Done, Given, Key, Large, Work, Yielded, decode_said, decode_work, encode

STORE_BYTES, MOST_OBJECTS, MOST_TASKS = 1 << 30, 1 << 20, 1 << 16
KEEP_SHARE = 4  # the fourth part of that is set aside for values of tasks that have ended
KEEP_S = 5.0  # and they are kept for so long after the last task that had one
HOME = 1  # the number here of the one machine there is besides


class Full(Exception):
    """A task's arguments have no room in the pocket."""


class _Link:
    """In the place of a worker's connection with a local scheduler, which a pocket has not: what tasks print goes
    home, the rest nowhere."""

    def __init__(self, show: Callable[[WorkerOutput], None]) -> None:
        self._show = show

    def send(self, message: Any) -> None:
        """See above."""
        if isinstance(message, WorkerOutput):
            self._show(message)

    def close(self) -> None:
        """In a process that was forked off: what that prints goes to its descriptors."""


class PocketHooks(Hooks):
    """The hooks of a pocket's worker, which is the only one there."""

    client: Client

    def __init__(self, tell_items: Callable[[], bool], rests: Callable[[], bool]) -> None:
        super().__init__()
        self._tell_items, self._rests = tell_items, rests
        self._depth = 0  # of tasks that run while others wait for them
        self.runner: int | None = None  # the thread that runs those, if one alone does

    def run_meanwhile(self) -> bool:
        """A task is about to sleep until others have ended: run one of those, or sleep as the engine's tasks do.
        Whether it has."""
        if not self._runs_tasks():
            return False
        self._depth += 1
        try:
            has_run = bool(self.client.run_one(0.0))
        finally:
            self._depth -= 1
        return has_run or self._rests()

    def has_yielded(self) -> bool:
        """A generator has yielded: what it has begun runs now, as its items may refer to that. Whether it is to wait
        for its reader, which one that is read in this thread cannot."""
        if self._depth and self._runs_tasks():
            return False
        while self.run_meanwhile():
            pass
        return self._tell_items()

    def _runs_tasks(self) -> bool:
        return self.runner in (None, threading.get_ident())


class Pocket(PocketCalls):
    """The pocket of this process, and the process's session.

    Parameters
    ----------
    session, namespace : str
        Of the session that it works for.
    store_bytes : int
        How much its tasks can have in it; memory is used as it fills.

    Attributes
    ----------
    n_copied : int
        Large values of others that were copied into it.
    is_torn : bool
        Something has interrupted it, and what is in there may be anything.
    """

    def __init__(self, session: str, namespace: str, store_bytes: int) -> None:
        self.session_id: str = session
        self.kept: KeptValues[int] = KeptValues(store_bytes // KEEP_SHARE)  # by slot
        self.n_copied: int = 0
        self.is_torn: bool = False
        segment = create_segment(store_bytes + store_bytes // KEEP_SHARE, MOST_OBJECTS, MOST_TASKS)
        try:
            agent = self._agent = Client(segment, ROLE_REMOTE_NODE, None)
            agent.set_total({"CPU": float(len(os.sched_getaffinity(0)))})
            hooks = self._hooks = PocketHooks(self._tell_items, self._rests)
            worker = hooks.client = Client(segment, ROLE_WORKER, hooks)
        finally:
            os.close(segment)
        super().__init__(worker, cache(agent.wake_fd))  # which gives one once
        self._peer = Peer(
            agent,
            self._hear,
            self._shape_of,
            lambda slot: None,
            Lineage(agent, lambda slot: None),
            Runs(agent),
            HOME,
            Tree(),
            lambda node: None,
        )
        self._result: Result | None = None
        self._sealed: dict[Key, Value] = {}
        self._saved: Ref | None = None  # by it, in this call
        self._turn = 0  # how often it has told of such
        self._made: worker_actor.Constructed | None = None  # what lives here
        self._bundle: GroupBundle | None = None  # that the last task was in which was in one
        self._origin = 0  # of the task that runs: its cell's number at home
        self._generator = -1  # the number of that
        self._items: list[Items] = []  # of it, that are to be told
        link: Any = _Link(self._show)
        self._output: worker_output.Output = worker_output.Output(self._worker, link, held_text.create())
        self._streams = self._output.streams()
        own_pickles.in_worker = True
        driver_env.node = os.uname().nodename
        config = Config({}, namespace=namespace, **sizes_of(self._worker))
        process.session = self._session = PocketSession(
            WorkerNode(self._output, session, ""), self._worker, config, is_worker=True
        )
        self._session.asks = self

    def run(self, work: Work, blobs: Sequence[Any], line: Line | None) -> Outcome:
        """Run the task of a parcel in this thread. What it raises is part of the outcome."""
        self._origin = work.task.origin
        is_generator = work.task.stream >= 0
        self._news.begin(work.task.number, line, is_generator)
        try:
            with self._takes_streams():
                with self._lock:
                    self._take_objects(work, blobs)
                    self._take_task(work.task, work.about)
                    if is_generator and line is not None:
                        self._generator = work.task.number
                with self._hears(line, is_generator):
                    if work.task.creates is not None:
                        self._construct()
                    result = self._run_to_end()
                    self._export_items()
                    large: list[Large] = []
                    return Outcome(encode(self._done(result, large)), large)
        except Full:
            return Outcome(encode(self._refused(work.task)))
        finally:
            self._news.end([])
            with self._lock:
                self._generator = -1
                self._items.clear()
                self._result = self._saved = None
                self._sealed.clear()
                if self._actor is None:
                    self._forget_task()
                if self._actor is None and work.task.creates is None:  # what an actor is given it keeps itself
                    self._keep(work)
                self._peer.sweep(time.monotonic())

    def _run_to_end(self) -> Result:
        """The task that there is."""
        while self._result is None:
            self._worker.run_one(None)
            with self._lock:
                self._peer.look()
                if self._result is not None:
                    self._generator = -1
        return self._result

    def run_batch(self, batch: Batch, work: Work, blobs: Sequence[Any], line: Line | None) -> Outcome:
        """Run the tasks of a parcel, one after the other, in this thread; each is to find what it would find if it came
        alone."""
        large: list[Large] = []
        task: Task | None = None
        self._news.begin_batch(batch)
        try:
            with self._takes_streams():
                with self._lock:
                    self._take_objects(work, blobs)
                with self._hears(line, False):
                    while True:  # no condition here: see scheduler/sync/condition.py
                        if (task := batch.next()) is None:
                            break
                        self._origin = task.origin
                        self._news.begin(task.number, line, False)
                        with self._lock:
                            self._take_task(task)
                        batch.end(task, self._done(self._run_to_end(), large), len(large))
                        with self._lock:
                            self._forget_task()
        except Full:
            batch.refuse(task)
        finally:
            self._news.end([])
            self._news.begin_batch(None)
            with self._lock:
                self._forget_task()
                self._keep(work)
                self._peer.sweep(time.monotonic())
        return Outcome(encode(batch.rest()), large)

    def _forget_task(self) -> None:
        """What was noted of one that no actor runs."""
        self._abandon_calls()
        self._result = None
        self._sealed.clear()
        self._release(self._names)
        self._names.clear()

    def _keep(self, work: Work) -> None:
        """Keep the large values that a task had, as far as that goes: for another one they need not be copied."""
        objects = self._peer.objects
        for given in work.objects:
            key = given.slot, given.generation
            if given.blob < 0 or (slot := objects.imported(key)) is None:
                continue
            is_new, gone = self.kept.use(key, slot, given.value.size, time.monotonic())
            if is_new:
                objects.hold(slot)
            self._drop(gone)
        if len(self.kept):
            _wake_sweeper()

    def _drop(self, slots: Sequence[int]) -> None:
        for slot in slots:
            self._peer.objects.drop(slot)

    def empty(self) -> None:
        """Keep no values of tasks that have ended."""
        with self._lock:
            self._worker.flush()
            self._drop(self.kept.clear())
            self._peer.sweep(time.monotonic())

    def close(self) -> None:
        """The process has no session any more."""
        if process.session is not None and process.session.client is self._worker:
            process.session = None
        self._worker.close()
        self._agent.close()

    def _construct(self) -> None:
        task = self._worker.run()  # all that there is to do here now is that constructor
        if (made := worker_actor.construct(self._worker, self._hooks, task)) is not None:
            self._made = made
            if label := worker_actor.label(made.instance):
                self._output.name = label
                self._hooks.name_actor(label)
            if clean_up := getattr(made.instance, "__ray_shutdown__", None):
                atexit.register(clean_up)
        with self._lock:
            self._peer.look()

    # ---- what it prints
    @contextmanager
    def _takes_streams(self) -> Iterator[None]:
        """What is printed meanwhile is the task's; before and after, the engine's."""
        others = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = self._streams
        try:
            yield
        finally:
            sys.stdout, sys.stderr = others

    def _show(self, message: WorkerOutput) -> None:
        self._peer.tasks_in.tell_output(message, self._origin)

    # ---- in
    def _take_objects(self, work: Work, blobs: Sequence[Any]) -> None:
        for given in work.objects:
            if given.blob >= 0:
                self.n_copied += self._peer.objects.imported((given.slot, given.generation)) is None
            self._resolve(given, blobs)

    def _resolve(self, given: Given, data: Sequence[Any]) -> None:
        self._peer.objects.resolve(Ref(given.slot, given.generation, value=with_bytes(given, data)))

    def serves_task(self, session: str, task: Task) -> bool:
        """Whether a task of that session can run here, as far as its environment goes."""
        return self.session_id == session and (
            task.actor is not None or self._session.environment_of_task in (None, task.env)
        )

    def _take_task(self, task: Task, about: Ref | None = None) -> None:
        """`about`: what describes the placement group that it is in. Its resources the engine has: here that is known
        by name, until a task of another one comes (decision 157)."""
        self._is_told = False
        if task.bundle is not None and about is not None:
            if self._bundle is not None and self._bundle != task.bundle:
                self._peer.receive(Unreserve(self._bundle.group, [self._bundle.index]))
            if self._bundle != task.bundle:
                self._bundle = task.bundle
                self._peer.receive(Reserve(task.bundle.group, about, [task.bundle.index], [{}]))
        if task.actor is None:
            self._session.environment_of_task = task.env
        self._peer.receive(Tasks([replace(task, demand={}, flags=task.flags & ~TASK_FLAG_ENV)]))
        if self._peer.actors.give_up():  # nobody here makes room while a call waits
            raise Full

    def _wake(self) -> None:
        """Its news are said by a thread of their own."""

    def _shape_of(
        self, demand: dict[str, int], hold: dict[str, int] | None, env: int, pool: Pool, priority: int
    ) -> bytes:
        amounts = {name: amount / RESOURCE_UNIT for name, amount in demand.items()}
        return self._agent.resource_class(amounts, None, env, *pool, priority=priority).shape

    def _hear(self, message: Message, frame: bytes | None = None) -> None:
        """What the peer says to the machine that it takes its tasks from."""
        match message:
            case Results([result]):
                self._result = result
            case Sealed(refs):
                self._sealed.update({(ref.slot, ref.generation): ref.value for ref in refs if ref.value is not None})
            case Output():
                self._news.add(message)
            case Items():
                self._items.append(message)
            case Checkpoint(_, state):
                self._saved = state
            case Tasks() | Cancel() | Taken() | Kill():
                self._calling.hear(message)
            case Returned():
                raise Full
            case _:
                pass  # what it has released it may be given again, and how far a task is the engine says

    # ---- what it yields
    def hear(self, message: bytes | None) -> None:
        """What its reader has taken of the generator that runs, or an answer, in any thread; None: nobody reads it, or
        will answer."""
        with self._lock:
            taken = Taken(self._generator, 0, closed=True) if message is None else decode_said(message)
            if message is None:
                self._calling.is_alone = True
                self._abandon_calls()
            elif isinstance(taken, Answered):
                self._take_answer(taken)
            if isinstance(taken, Taken) and 0 <= taken.number == self._generator:
                self._news.note_taken(CLOSED if taken.closed else taken.n)
                self._peer.receive(taken)

    def _tell_items(self) -> bool:
        """The task that runs has yielded; whether it is one whose reader is elsewhere."""
        if self._generator < 0:
            return False
        try:
            with self._lock:
                self._peer.look()
            self._export_items()
        except BaseException:
            self.is_torn = True
            raise
        return True

    def _export_items(self) -> None:
        items, self._items = self._items, []
        for message in items:
            large: list[Large] = []
            with self._lock:
                yielded = self._yielded(message, large)
            self._news.add(yielded, large)

    # ---- out
    def _yielded(self, message: Items, large: list[Large]) -> Yielded:
        told: Counter[Key] = Counter()
        made: dict[Key, Given] = {}
        values = [self._given((0, at), value, large, told, made) for at, value in enumerate(message.values, message.at)]
        self._output.flush()
        gone = self._let_go(told, made, True)
        return Yielded(message.at, values, list(made.values()), gone, self._next_turn())

    def _done(self, result: Result, large: list[Large]) -> Done:
        with self._lock:
            self._tell_all_calls(result)
            done, self._is_told = self._made_of(result, large), True
        run, at, news = self._news.end(large)
        return replace(done, run=run, at=at, news=news)

    def _made_of(self, result: Result, large: list[Large]) -> Done:
        """What has become of a task, without what it has printed and yielded."""
        told: Counter[Key] = Counter()
        made: dict[Key, Given] = {}
        if result.actor is not None:
            self._actor = result.actor.slot, result.actor.generation
        values = [self._given((0, i), value, large, told, made) for i, value in enumerate(result.values)]
        saved = self._saved
        if saved is not None:
            self._export(saved, large, told, made)
        self._output.flush()
        gone = self._let_go(told, made, self._actor is not None)
        kept, unanswered = self._refers_to()
        return Done(
            bool(result.status),
            values,
            list(made.values()),
            result.pid,
            result.ran,
            actor=None if result.actor is None else self._actor,
            saved=None if saved is None else (saved.slot, saved.generation),
            kept=kept,
            gone=gone,
            turn=self._next_turn(),
            unanswered=unanswered,
        )

    def _refused(self, task: Task) -> Done:
        """There is no room for what it is given."""
        failed = Given(0, 0, Value(OBJECT_FAILED, code=FAILURE_STORE_FULL))
        kept, unanswered = self._refers_to()
        return Done(
            True,
            [failed] * task.n_returns,
            [],
            os.getpid(),
            0,
            kept=kept,
            turn=self._next_turn(),
            unanswered=unanswered,
        )

    def _next_turn(self) -> int:
        turn, self._turn = self._turn, self._turn + 1
        return turn

    def _let_go(self, told: Counter[Key], made: dict[Key, Given], stays_here: bool) -> list[Key]:
        """Release what home was told of in this call, but not what an actor or a generator refers to still, by whose
        name it is told of it again; which of those names have no meaning any more."""
        stays = {key: n for key, n in told.items() if stays_here and (key in made or key in self._names)}
        self._release({key: n for key, n in told.items() if key not in stays})
        if not stays_here:
            return []
        self._names.update(stays)
        gone: list[Key] = []
        self._worker.flush()
        while unused := self._unused():
            found = [key for key in self._names if key[0] in unused]
            self._release({key: self._names.pop(key) for key in found})  # and with them what they refer to may go
            gone += found
        return gone

    def _unused(self) -> set[int]:
        """Of what home may hear of by its name again, the slots of what nothing refers to any more."""
        return set(self._peer.remote_node.unused([slot for slot, _ in self._names]))

    def _refers_to(self) -> tuple[list[Key], list[int]]:
        """What the actor was given, in this call or before, and still refers to, and its calls without an answer, which
        may bring more. Nothing, of a task."""
        if self._actor is None:
            return [], []
        self._peer.objects.release_unused()
        return self._peer.objects.imports(), list(self._calling.unanswered())

    def _given(self, key: Key, value: Value, large: list[Large], told: Counter[Key], made: dict[Key, Given]) -> Given:
        """A value with its bytes; what it refers to, and has been made here, goes to `made` before."""
        blob = -1
        if value.size > len(value.data):
            slot = value.there.slot if value.there is not None else key[0]
            large.append(memoryview(self._worker.view(self._worker.ref_at(slot))))  # where it lies
            _wake_sweeper()  # which lets go of it once nobody reads it
            blob = len(large) - 1
        if value.there is not None:
            told[value.there.slot, value.there.generation] += 1
        for ref in value.refs:
            if not ref.yours:
                self._export(ref, large, told, made)
        names = [replace(ref, value=None) for ref in value.refs]
        return Given(*key, replace(value, data=value.data if blob < 0 else b"", refs=names, there=None), blob)

    def _export(self, ref: Ref, large: list[Large], told: Counter[Key], made: dict[Key, Given]) -> None:
        key = ref.slot, ref.generation
        told[key] += 1
        if key in made or key in self._names or key == self._actor:
            return
        value = ref.value or self._peer.objects.value(ref.slot)
        while value.state == OBJECT_PENDING and key not in self._sealed:
            self._peer.look()
            if key not in self._sealed:
                self._run_another()  # that the task has submitted, and not waited for
        if value.state == OBJECT_PENDING:
            value = self._sealed.pop(key)
        made[key] = self._given(key, value, large, told, made)

    def _run_another(self, timeout: float | None = None) -> bool:
        """Run something that the task has submitted, while others may have the peer. Whether there was something within
        so many seconds."""
        if threading.get_ident() != self._thread:
            return False  # it is made, and there is to be looked alone
        self._lock.release()
        try:
            return bool(self._worker.run_one(timeout))
        finally:
            self._lock.acquire()


_lock = threading.Lock()
_pocket: Pocket | None = None
_is_integrated = False
_keeps = threading.Event()  # a pocket has values of tasks that have ended
_has_sweeper = False
_environments = Environments()
_batch: Batch | None = None  # that runs, or has run last; of a single task there is none


def run(data: bytes | memoryview, blobs: Sequence[Any], line: Line | None = None, of: type[Pocket] = Pocket) -> Outcome:
    """Run a parcel in this process's pocket, which the first one makes. This is what engines call in their workers.
    `line`: tells of tasks that run. `of`: what kind of pocket. Tasks whose environment changes their process run in
    another one, unless this is an actor's, or of one environment."""
    global _batch
    work = decode_work(data)
    with _lock:
        if of is Pocket and work.task.env & CHANGES and work.task.creates is None and work.task.actor is None:
            _batch = None
            return _environments.run(work, bytes(data), blobs, line)
        pocket = _pocket_for(work, of)
        _batch = Batch(work.tasks) if len(work.tasks) > 1 else None
        try:
            if _batch is None:
                outcome = pocket.run(work, blobs, line)
            else:
                outcome = pocket.run_batch(_batch, work, blobs, line)
            if pocket.is_torn:
                _close()
            return outcome
        except BaseException:  # whatever has interrupted it: what is in there may be anything
            _close()
            raise


def is_free(within_s: float) -> bool:
    """Whether no parcel runs, or none does within that time."""
    if not _lock.acquire(timeout=within_s):
        return False
    _lock.release()
    return True


def interrupt() -> None:
    """What an engine's interrupt does in the thread that runs a parcel. It raises KeyboardInterrupt, but a parcel of
    several tasks only begins none any more: the one that runs need not be the one that is cancelled.
    """
    if _batch is None or _batch.interrupt():
        raise KeyboardInterrupt


def hear(message: bytes | None) -> None:
    """What an engine is to `say` to the pocket of this process; None: nobody is there any more."""
    if not _environments.hear(message) and (pocket := _pocket) is not None:
        pocket.hear(message)


def here() -> Pocket | None:
    """The pocket of this process."""
    return _pocket


def _pocket_for(work: Work, of: type[Pocket]) -> Pocket:
    global _pocket, _is_integrated
    if _pocket is not None and not _pocket.serves_task(work.session, work.task):
        _close()
    if _pocket is None:
        _pocket = of(work.session, work.namespace, STORE_BYTES)
    if not _is_integrated:
        _is_integrated = True
        worker_output.integrate(_tell, _show)
    return _pocket


def _wake_sweeper() -> None:
    global _has_sweeper
    _keeps.set()
    if not _has_sweeper:
        _has_sweeper = True
        threading.Thread(target=_sweep, name="cellmesh-pocket", daemon=True).start()


def _sweep() -> None:
    """Have the pocket let go of values of tasks that have ended, once it is idle."""
    wait_s = KEEP_S
    while True:
        _keeps.wait()
        time.sleep(wait_s)
        with _lock:
            left_s = _pocket.kept.used_at + KEEP_S - time.monotonic() if _pocket is not None else 0.0
            if left_s > 0:
                wait_s = left_s
                continue
            wait_s = KEEP_S
            _keeps.clear()
            if _pocket is not None:
                _pocket.empty()


def _tell(*what: Any) -> None:
    if _pocket is not None:
        _pocket._output.tell(*what)


def _show(*what: Any) -> None:
    if _pocket is not None:
        _pocket._output.show(*what)


def _close() -> None:
    global _pocket
    if _pocket is not None:
        _pocket.close()
        _pocket = None


def close() -> None:
    """End this process's pocket, if there is one, and what is beside it."""
    with _lock:
        _close()
        _environments.close()
