"""Calls of actors of the session, in the pocket of the task, or the actor, that makes them.

There a handle is a stand-in, as on any other node, so its calls come out of the segment as messages for the node that
the pocket takes for the session's. They become news of the task that runs, once all is made that they refer to; what
they return is named with them, so that home knows it from then on. The answers are heard in any thread.
"""

from __future__ import annotations

import os
import select
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from ...objstore._core import FAILURE_ACTOR_DIED, FAILURE_OBJECT_LOST, OBJECT_FAILED
from ...scheduler.cluster.messages import Cancel, Home, Items, Kill, Ref, Result, Shares, Taken, Task, Tasks, Value
from ...scheduler.sync.threads import ServiceThread
from ..news import BEAT_S, Line
from ..parcels import MAKER, Answered, Given, Key, Reads, Uncalled

Asked = Task | Uncalled | Reads | Kill


@dataclass(frozen=True)
class Making:
    """An actor that a task makes: as of `Task`, with what its home is to know."""

    creates: Value
    home: Home
    demand: Shares
    hold: Shares
    env: int
    flags: int
    priority: int

    def of(self, call: Task) -> Task:
        """The constructor, of a call that has its arguments."""
        return replace(
            call,
            actor=None,
            creates=self.creates,
            home=self.home,
            demand=self.demand,
            hold=self.hold,
            env=self.env,
            flags=self.flags,
            priority=self.priority,
        )


class Calling:
    """Which calls wait until they can be told of, and which have no answer.

    Attributes
    ----------
    pocket : int
        What this one is called towards home: another process for the same task is another one.
    is_alone : bool
        Nobody answers any more.
    makings : dict
        What calls of `MAKER` are to make that are not told of yet, by what they return.
    """

    def __init__(self) -> None:
        self.pocket: int = time.time_ns()
        self.is_alone: bool = False
        self.makings: dict[Key, Making] = {}
        self._begun: dict[int, Key] = {}  # of those that are, by number
        self._taken: set[Key] = set()  # of those that were answered, what has found its name taken
        self._lines: dict[Key, deque[Asked]] = {}  # by actor, so that none waits for what another line has
        self._open: dict[int, int] = {}  # calls without an answer, by number -> how many values each returns
        self._come: dict[int, int] = {}  # of these, by number: how many items have come

    def __len__(self) -> int:
        return len(self._open)

    def unanswered(self) -> dict[int, int]:
        """The calls that have no answer, by number: how many items of each have come."""
        return {number: self._come.get(number, 0) for number in list(self._open)}

    def hear(self, message: Tasks | Cancel | Taken | Kill) -> None:
        """The segment asks for that."""
        match message:
            case Tasks(tasks):
                for task in tasks:
                    assert task.actor is not None  # a pocket gives nobody else its tasks
                    actor = task.actor.slot, task.actor.generation
                    self._line(*((-2, task.number) if actor == MAKER else actor)).append(task)  # in any order
                    self._open[task.number] = task.n_returns
            case Cancel(numbers):
                self._cancel(set(numbers))
            case Taken(number, n, closed):
                if number in self._open:
                    self._line_of(number).append(Reads(self.pocket, number, n, closed))
            case Kill(actor):
                assert actor is not None  # it makes none
                self._line(actor.slot, actor.generation).append(message)

    def _line(self, *actor: int) -> deque[Asked]:
        return self._lines.setdefault((actor[0], actor[1]), deque())

    def _line_of(self, number: int) -> deque[Asked]:
        """In which what is said of a call is behind that."""
        for line in self._lines.values():
            if any(isinstance(ask, Task) and ask.number == number for ask in line):
                return line
        return self._line(-1, 0)

    def _cancel(self, numbers: set[int]) -> None:
        for line in self._lines.values():
            waiting = [ask.number for ask in line if isinstance(ask, Task) and ask.number in numbers]
            if waiting:
                line.append(Uncalled(self.pocket, waiting))
            numbers -= set(waiting)
        if numbers:
            self._line(-1, 0).append(Uncalled(self.pocket, sorted(numbers)))

    def waiting(self, is_made: Callable[[Task], bool]) -> Iterator[list[Task] | Uncalled | Reads | Kill]:
        """What can be told of now, each actor's in order: calls of which `is_made` holds, together as far as that
        goes."""
        found = True
        while found:
            found = False
            for line in list(self._lines.values()):
                tasks: list[Task] = []
                while line and isinstance(ask := line[0], Task) and is_made(ask):
                    tasks.append(ask)
                    line.popleft()
                if tasks:
                    yield tasks
                if line and not isinstance(ask := line[0], Task):
                    line.popleft()
                    yield ask
                    found = True
                found |= bool(tasks)
        self._lines = {actor: line for actor, line in self._lines.items() if line}

    @property
    def has_waiting(self) -> bool:
        """Whether something waits until it can be told of."""
        return bool(self._lines)

    def answered(self, said: Answered) -> Result | Items | None:
        """The result of a call, or what it has yielded; None: it is known, something before it is not, or it is not of
        this pocket. `said.objects` are to be known by then."""
        number = said.number
        if said.pocket != self.pocket or number not in self._open or self._come.get(number, 0) != said.at:
            return None
        values = [with_bytes(given, said.data) for given in said.values]
        if not said.is_over:
            self._come[number] = said.at + len(values)
            return Items(number, said.at, values)
        del self._open[number]
        self._come.pop(number, None)
        if (made := self._begun.get(number)) is not None and values[0].code == FAILURE_ACTOR_DIED:
            self._taken.add(made)
        return Result(number, int(said.failed), values)

    def begin_making(self, call: Task, made: Key) -> Task:
        """That is told of: the constructor."""
        self._begun[call.number] = made
        return self.makings.pop(made).of(call)

    def has_made(self, number: int) -> Key | None:
        """That call has its answer: what it returns, if it was to make an actor and was told of."""
        return self._begun.pop(number, None)

    def was_taken(self, made: Key) -> bool:
        """Whether the name was of what has its answer. Asked once."""
        if made not in self._taken:
            return False
        self._taken.remove(made)
        return True

    def abandon(self) -> list[Result]:
        """Nobody will answer those that are open: what they are told then."""
        lost, self._open, self._lines = self._open, {}, {}
        self._come.clear()
        return [Result(number, 1, [Value(OBJECT_FAILED, code=FAILURE_OBJECT_LOST)] * n) for number, n in lost.items()]


def with_bytes(given: Given, data: Sequence[bytes]) -> Value:
    """A value with its bytes. An actor's object, which a call has made, is home's."""
    if given.value.actor is not None:
        return replace(given.value, there=Ref(given.slot, given.generation))
    return given.value if given.blob < 0 else replace(given.value, data=data[given.blob])


class Hearing:
    """What a parcel that runs hears of the engine, and how it looks at its calls, from when it may want either.

    Parameters
    ----------
    line : Line
    fd : callable () -> int
        Readable when there may be something to look at.
    look : callable ()

    Attributes
    ----------
    line : Line or None
        None: it does not hear yet, or not any more.
    """

    def __init__(self, line: Line, fd: Callable[[], int], look: Callable[[], None]) -> None:
        self.line: Line | None = None
        self._line, self._fd, self._look = line, fd, look
        self._attendant: Attendant | None = None
        self._is_over = False
        self._lock = threading.Lock()  # any thread may want it

    def begin(self, calls: bool) -> None:
        """It may want that now; `calls`: and makes calls."""
        with self._lock:
            if self._is_over:
                return
            if self.line is None:
                self._line.listen()
                self.line = self._line
            if calls and self._attendant is None:
                self._attendant = Attendant(self._fd(), self._look)

    def end(self) -> None:
        """It has ended. Returns when nobody looks any more."""
        with self._lock:
            self._is_over = True
        if self._attendant is not None:
            self._attendant.end()
        if self.line is not None:
            self.line = None
            self._line.end()


class Attendant:
    """A thread that looks whenever there may be something to see.

    Parameters
    ----------
    fd : int
        Readable when there may be.
    look : callable ()
    """

    def __init__(self, fd: int, look: Callable[[], None]) -> None:
        self._fd, self._look = fd, look
        self._wakes, self._woken = os.pipe2(os.O_CLOEXEC)
        self._is_over = False
        # Beside a task that may be interrupted.
        self._thread = ServiceThread(lambda: or_end(self._attend), "cellmesh-calls")
        self._thread.start()

    def _attend(self) -> None:
        wakes = select.poll()
        for fd in (self._fd, self._wakes):
            wakes.register(fd, select.POLLIN)
        while not self._is_over:
            self._look()  # at first, too: the segment tells of nothing at which nobody has looked
            for fd, _ in wakes.poll(BEAT_S * 1000):  # who reads what a call yields may end without a word
                os.read(fd, 4096)

    def end(self) -> None:
        """Returns when it looks no more."""
        self._is_over = True
        os.write(self._woken, b"\0")
        self._thread.join()
        for fd in (self._wakes, self._woken):
            os.close(fd)


def or_end(work: Callable[[], None]) -> None:
    """Do that, without which this process is of no use."""
    try:
        work()
    except BaseException:
        traceback.print_exc(file=sys.__stderr__)
        os._exit(1)
