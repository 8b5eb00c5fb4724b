"""A pocket's part of calls of actors of the session, of actors that its tasks make, and of what they ask of home: it
tells of them as they become known, and takes in the answers. See `calling`.

Two of those that are called live nowhere: the session's agent, which knows names and the key-value store, and who makes
actors at home. A pocket has a stand-in of either from when a task wants it, and one of the actor that lives in it, by
which that calls itself as others do: by home, in their order.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace

from ...exceptions import ObjectStoreFullError
from ...objstore._core import OBJECT_PENDING, Client
from ...refs import ObjectRef
from ...scheduler.cluster.messages import Actor, Items, Ref, Released, Result, Results, Task, Told, Value
from ...scheduler.cluster.peer.peer import Peer
from ..news import SAY_S, Line, News
from ..parcels import MAKER, SELF, Answered, Called, Given, Key, Large
from .calling import Calling, Hearing, Making

REST_S = 0.05  # a task waits for an answer for so long before it leaves its CPU to others
NOBODY = Actor(0, (1 << 16) - 1, [])  # how calls of the first two run: at the same time
ABOUT_NOBODY = "Home", "", "", 0, b"", (), None  # as an actor's object has it


class PocketCalls(ABC):
    """See above.

    Parameters
    ----------
    worker : Client
        That of the pocket's tasks.
    wake_fd : callable () -> int
        What is readable when there is something to look at.
    """

    _peer: Peer  # home, as the pocket sees it

    def __init__(self, worker: Client, wake_fd: Callable[[], int]) -> None:
        self._worker, self._wake_fd = worker, wake_fd
        self._actor: Key | None = None  # that lives here
        self._names: Counter[Key] = Counter()  # of what it has made and refers to, and home knows -> how often told of
        self._calling = Calling()
        self._news = News(unanswered=self._calling.unanswered)
        self._lock = threading.Lock()  # of the peer
        self._thread = 0  # that runs parcels
        self._is_told = False  # what has become of the task that runs: what comes later is none of its news
        self._answered = threading.Condition(self._lock)  # a call is
        self._comes = threading.Event()  # likewise
        self._waits_since = -1.0  # the task, for an answer; below 0: it does not
        self._hearing: Hearing | None = None  # of the parcel that runs

    # ---- what the pocket has besides
    @abstractmethod
    def _export(self, ref: Ref, large: list[Large], told: Counter[Key], made: dict[Key, Given]) -> None: ...

    @abstractmethod
    def _let_go(self, told: Counter[Key], made: dict[Key, Given], stays_here: bool) -> list[Key]: ...

    @abstractmethod
    def _next_turn(self) -> int: ...

    @abstractmethod
    def _resolve(self, given: Given, data: Sequence[Any]) -> None: ...

    @abstractmethod
    def _run_another(self, timeout: float | None = None) -> bool: ...

    @abstractmethod
    def _wake(self) -> None: ...

    # ---- who hears
    @contextmanager
    def _hears(self, line: Line | None, is_generator: bool) -> Iterator[None]:
        """Meanwhile it hears what the engine is to say, from when a task may want that, and looks what it calls."""
        self._calling.is_alone, self._thread = False, threading.get_ident()
        hearing = None if line is None else Hearing(line, self._wake_fd, self._look_at_calls)
        self._hearing = hearing
        try:
            calls = self._peer.actors.n_there > 0
            if hearing is not None and (calls or is_generator):
                hearing.begin(calls)
            yield
        finally:
            self._hearing = None
            if hearing is not None:
                hearing.end()

    def _look_at_calls(self) -> None:
        with self._lock:
            self._peer.look()
            self._tell_calls()

    def stand_in(self, key: Key) -> ObjectRef[Any]:
        """By which a task calls the session's agent, `AGENT`, who makes actors, `MAKER`, or the actor whose method it
        is, `SELF`.

        Raises
        ------
        ObjectStoreFullError
            There is no room for it.
        """
        if self._hearing is not None:
            self._hearing.begin(True)
        about = self._worker.put(ABOUT_NOBODY)
        with self._lock:
            if (slot := self._peer.objects.imported(key)) is None:
                if key == SELF:
                    assert self._actor is not None  # the caller has looked
                    value = self._peer.objects.value(self._actor[0])
                else:
                    value = replace(self._peer.objects.value(about._slot), actor=NOBODY)
                slot = self._peer.objects.resolve(Ref(*key, value=value))
                self._peer.look()  # from then on its calls are told of
            if slot is None:
                raise ObjectStoreFullError("a task on an engine has no room left for what it asks of its session")
            return self._worker.ref_at(slot)

    @property
    def is_constructed(self) -> bool:
        """Whether an actor lives here, of which home knows."""
        return self._actor is not None

    # ---- what it makes
    def describe(self, meta: tuple[Any, ...], actor: Actor) -> Value | None:
        """An actor's object, as home is to have it; None: it is too large."""
        about = self._worker.put(meta)
        with self._lock:
            value = self._peer.objects.value(about._slot)
        return replace(value, actor=actor) if len(value.data) == value.size and not value.refs else None

    def make(self, handle: ObjectRef[Any], making: Making) -> bool:
        """A call of `MAKER` is to make an actor, whose handle is what it returns. Waits until it is; False: its name is
        taken."""
        with self._lock:
            self._calling.makings[handle._slot, handle._generation] = making
            self._peer.look()
            self._tell_calls()
        self._wake()
        self._worker.wait([handle], 1, None)
        if self._calling.was_taken((handle._slot, handle._generation)):
            return False
        self._worker.get(handle)  # or it raises why there is none
        return True

    # ---- out
    def _news_of_calls(self) -> News | None:
        """Among which calls are told; None: not now."""
        return self._news if self._news.is_open and not self._is_told else None

    def _tell_calls(self) -> None:
        """Tell of calls, as far as all is made that they refer to."""
        if self._calling.is_alone:
            self._abandon_calls()
        if not self._calling.has_waiting or (news := self._news_of_calls()) is None:
            return
        for asked in self._calling.waiting(self._may_be_told):
            if isinstance(asked, list):
                large: list[Large] = []
                news.add(self._called(asked, large), large)
            else:
                news.add(asked)

    def _may_be_told(self, task: Task) -> bool:
        if is_making(task) and self._result_of(task) not in self._calling.makings:
            return False  # it is about to be said what that makes
        return self._is_made([task.function, *task.refs])

    def _result_of(self, task: Task) -> Key:
        (slot,) = self._peer.tasks_out.results_of(task.number)
        return slot, self._peer.remote_node.generation(slot)

    def _called(self, tasks: list[Task], large: list[Large]) -> Called:
        told: Counter[Key] = Counter()
        made: dict[Key, Given] = {}
        sent: list[Task] = []
        results: list[list[Key]] = []
        for task in tasks:
            for ref in (task.function, *task.refs):
                if not ref.yours:
                    self._export(ref, large, told, made)
            function, *refs = (replace(ref, value=None) for ref in (task.function, *task.refs))
            sent.append(replace(task, function=function, refs=refs))
        for i, task in enumerate(tasks):
            slots = self._peer.tasks_out.results_of(task.number)
            refs = [self._peer.objects.tell(slot, value=False) for slot in slots]
            results.append([(ref.slot, ref.generation) for ref in refs])
            if is_making(task):
                sent[i] = self._calling.begin_making(sent[i], *results[-1])
            else:
                self._names.update(results[-1])
        gone = self._let_go(told, made, True)
        return Called(self._calling.pocket, sent, results, list(made.values()), gone, self._next_turn())

    def _is_made(self, refs: Sequence[Ref]) -> bool:
        """Whether what these are, and refer to, is there, or is what a call returns that home knows of."""
        todo, seen = [ref.slot for ref in refs if not ref.yours], set[int]()
        while todo:
            slot = todo.pop()
            if slot in seen or (slot, self._peer.remote_node.generation(slot)) in self._names:
                continue
            seen.add(slot)
            try:
                found = self._peer.remote_node.inspect(slot)
            except TypeError:  # shared memory, or a stream
                continue
            if found.state == OBJECT_PENDING:
                return False
            todo += found.refs
        return True

    def _tell_all_calls(self, result: Result) -> None:
        """What it has called is told of, and what its result refers to is made: by what it has begun, or an answer."""
        actors = self._peer.actors
        while actors.n_there or self._calling.has_waiting:
            self._peer.look()
            self._tell_calls()
            waits = actors.has_waiting or self._calling.has_waiting
            if not waits and self._is_made([ref for value in result.values for ref in value.refs]):
                return
            if not self._run_another(0.0):
                self._answered.wait(SAY_S)

    # ---- in
    def _take_answer(self, said: Answered) -> None:
        for given in said.objects:
            self._resolve(given, said.data)
        if (answer := self._calling.answered(said)) is None:
            return
        if isinstance(answer, Items):
            self._peer.receive(answer)
        else:
            made = self._calling.has_made(said.number)
            if made is not None and answer.status:
                self._release({made: 1})
            elif made is not None:
                self._names[made] += 1  # home knows it by now
            self._peer.receive(Results([answer]))
        self._peer.look()
        self._note_answer()

    def _note_answer(self) -> None:
        self._answered.notify_all()
        self._waits_since = -1.0
        self._comes.set()

    def _rests(self) -> bool:
        """The task waits for something. If that may be an answer, and it has for a while, leave its CPU to others."""
        line, now = self._hearing.line if self._hearing is not None else None, time.monotonic()
        if line is None or not self._calling:
            return False
        if self._waits_since < 0:
            self._comes.clear()
            self._waits_since = now
            return False  # and it looks once more
        return now - self._waits_since >= REST_S and line.rest(self._comes, SAY_S)

    def _abandon_calls(self) -> None:
        """Nobody will answer them."""
        while results := self._calling.abandon():
            for result in results:
                if (made := self._calling.has_made(result.number)) is not None:
                    self._release({made: 1})
            self._peer.receive(Results(results))
            self._peer.look()  # what had no room takes their place
            self._note_answer()

    def _release(self, told: Mapping[Key, int]) -> None:
        self._peer.receive(Released([Told(*key, n) for key, n in told.items()]))


def is_making(task: Task) -> bool:
    """Whether a call makes an actor."""
    return task.actor is not None and (task.actor.slot, task.actor.generation) == MAKER
