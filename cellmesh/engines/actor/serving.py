"""The pocket of an actor that takes several calls at a time. It serves them as a node's worker does, by threads or by
an asyncio loop in the main thread (`scheduler.worker.actor`), and so has a process of its own, see `actor.child`.

Three threads stand beside those. One takes in calls, and hands them to the segment, which knows limits and groups.
One, the *attendant*, sees in the segment what becomes of them, and tells it as it comes. And one runs the plain tasks
that calls submit, since a loop that awaits one has no time for it.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from ...errors import process_exit
from ...objstore._core import OBJECT_PENDING, repeat_interrupts
from ...scheduler.cluster.messages import Cancel, Items, Message, Output, Result, Results, Taken, Value
from ...scheduler.ipc.messages import WorkerOutput
from ...scheduler.worker import actor as worker_actor
from ...scheduler.worker.main import interrupter
from ..interface import Outcome
from ..news import SAY_S, Line, News
from ..parcels import CLOSED, Answered, Done, Key, Large, Work, decode_said, encode
from ..pocket import Full, Pocket
from .calling import or_end

SWEEP_S = 5.0
MOST_EARLY = 1000  # calls whose end was asked for before they had come


@dataclass
class _Call:
    """`told`: what the segment has told of it and nobody was told yet. `unsealed`: slots that the first of that refers
    to, as far as they are to be looked at, and `seen`: all of them; None: none was looked at. `is_over`: its outcome is
    made, and what comes later is none of its news."""

    number: int
    origin: int
    over: Callable[[Outcome], None]
    news: News = field(default_factory=lambda: News(has_thread=False))
    told: deque[Items | Result] = field(default_factory=deque["Items | Result"])
    unsealed: list[int] | None = None
    seen: set[int] = field(default_factory=set[int])
    is_over: bool = False


class ServingPocket(Pocket):
    """See above; until an actor has been constructed, a pocket as others are."""

    def __init__(self, session: str, namespace: str, store_bytes: int) -> None:
        super().__init__(session, namespace, store_bytes)
        self._calls: dict[int, _Call] = {}  # by number
        self._early: deque[int] = deque(maxlen=MOST_EARLY)
        self._ended = threading.Condition()  # a call has, and its caller knows
        self._wakes, self._woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._of_process: Line | None = None
        self._swept_at = 0.0

    @property
    def serves(self) -> bool:
        """Whether it has an actor whose calls do not run one after the other in the main thread."""
        made, info = self._made, self._worker.actor_info()
        return made is not None and info is not None and (made.loop is not None or info["max_concurrency"] > 1)

    # ---- the actor's threads
    def attend(self, line: Line) -> None:
        """From now on calls may come. `line`: tells of those that run. In the main thread."""
        self._of_process, self._hooks.runner = line, 0
        sys.stdout, sys.stderr = self._streams
        signal.signal(signal.SIGINT, interrupter(self._worker))
        repeat_interrupts()
        process_exit.before_exit = lambda status: self._look()  # what has ended is told
        for work in (self._attend, self._run_tasks):
            threading.Thread(target=or_end, args=(work,), name="cellmesh-pocket", daemon=True).start()

    def serve(self) -> None:
        """Serve the actor, in the main thread; returns when it has ended."""
        assert self._made is not None
        worker_actor.serve(self._worker, self._hooks, self._made.loop)

    def wait(self) -> None:
        """Until there are no calls."""
        with self._ended:
            self._ended.wait_for(lambda: not self._calls)

    def _run_tasks(self) -> None:
        self._hooks.runner = threading.get_ident()
        while self._worker.run_one(None, False) is not None:
            pass

    def _run_another(self, timeout: float | None = None) -> bool:
        """It has run, as all has that a call refers to which is told of."""
        return self._of_process is None and super()._run_another(timeout)

    # ---- in
    def begin(self, work: Work, blobs: Sequence[Any], over: Callable[[Outcome], None]) -> None:
        """Have a call served. `over`: called when it has ended, in another thread."""
        task, refused = work.task, None
        call = _Call(task.number, task.origin, over)
        call.news.begin(task.number, self._of_process, task.stream >= 0)
        with self._lock:
            self._calls[task.number] = call
            try:
                self._take_objects(work, blobs)
                self._take_task(task, work.about)
                if task.number in self._early:
                    self._peer.receive(Cancel([task.number]))
            except Full:
                refused, call.is_over = self._refused(task), True
        if refused is not None:
            self._end(call, refused, [])
        self._wake()

    def hear(self, message: bytes | None) -> None:
        """What the reader of a generator has taken, that the result of a call is not wanted, or an answer."""
        if self._of_process is None or message is None:
            super().hear(message)
            return
        said = decode_said(message)
        with self._lock:
            number = said.numbers[0] if isinstance(said, Cancel) else said.number
            if isinstance(said, Answered):
                self._take_answer(said)
            elif (call := self._calls.get(number)) is None:
                if isinstance(said, Cancel):
                    self._early.append(number)
                return
            else:
                if isinstance(said, Taken):
                    call.news.note_taken(CLOSED if said.closed else said.n)
                self._peer.receive(said)
        self._wake()

    # ---- out
    def _attend(self) -> None:
        wakes, segment = select.poll(), self._wake_fd()
        for fd in (segment, self._wakes):
            wakes.register(fd, select.POLLIN)
        while True:
            for fd, _ in wakes.poll((SAY_S if self._calls else SWEEP_S) * 1000):
                os.read(fd, 4096)
            self._look()
            for call in list(self._calls.values()):
                call.news.say()

    def _wake(self) -> None:
        try:
            os.write(self._woken, b"\0")
        except BlockingIOError:
            pass  # it is awake

    def _look(self) -> None:
        """See what has become of the calls, and tell of those that have ended."""
        ended: list[tuple[_Call, Done, list[Large]]] = []
        with self._lock:
            self._peer.look()
            self._tell_calls()
            for call in list(self._calls.values()):
                self._take_told(call, ended)
            if (now := time.monotonic()) - self._swept_at > SWEEP_S:
                self._swept_at = now
                self._peer.sweep(now)
        for call, done, large in ended:
            self._end(call, done, large)

    def _take_told(self, call: _Call, ended: list[tuple[_Call, Done, list[Large]]]) -> None:
        while call.told and self._is_known(call):
            large: list[Large] = []
            message = call.told.popleft()
            if isinstance(message, Items):
                call.news.add(self._yielded(message, large), large)
            else:
                ended.append((call, self._made_of(message, large), large))
                self._saved, call.is_over = None, True

    def _news_of_calls(self) -> News | None:
        if self._of_process is None:
            return super()._news_of_calls()
        return next((call.news for call in self._calls.values() if not call.is_over), None)

    def _end(self, call: _Call, done: Done, large: list[Large]) -> None:
        run, at, news = call.news.end(large)
        call.over(Outcome(encode(replace(done, run=run, at=at, news=news)), large))
        with self._ended:
            del self._calls[call.number]
            self._ended.notify_all()

    def _is_known(self, call: _Call) -> bool:
        """Whether what is to be told next refers to nothing that is yet to be made."""
        message = call.told[0]
        if call.unsealed is None:
            call.unsealed = [slot for slot, _ in _named(message.values)]
        saved = self._saved if isinstance(message, Result) else None
        if saved is not None and saved.slot not in (*call.seen, *call.unsealed):
            call.unsealed.append(saved.slot)
        while call.unsealed:
            slot = call.unsealed[-1]
            try:
                found = self._peer.remote_node.inspect(slot)
            except TypeError:  # shared memory, or a stream
                found = None
            if found is not None and found.state == OBJECT_PENDING:
                return False
            call.seen.add(call.unsealed.pop())
            inner = [] if found is None else [inner for inner in found.refs if inner not in call.seen]
            call.unsealed += inner
        call.unsealed = None
        call.seen.clear()
        return True

    def _unused(self) -> set[int]:
        waiting = [value for call in self._calls.values() for message in call.told for value in message.values]
        return super()._unused() - {slot for slot, _ in _named(waiting)}  # by which home is yet to hear of it

    # ---- what the peer says
    def _hear(self, message: Message, frame: bytes | None = None) -> None:
        match message:
            case Results(results) if self._of_process is not None:
                for result in results:
                    self._calls[result.number].told.append(result)
            case Items(number) if self._of_process is not None:
                self._calls[number].told.append(message)
            case Output(number) if self._of_process is not None:
                calls = list(self._calls.values())
                if call := self._calls.get(number, calls[0] if calls else None):
                    call.news.add(replace(message, origin=call.origin))
            case _:
                super()._hear(message, frame)

    def _show(self, message: WorkerOutput) -> None:
        super()._show(message)
        self._wake()

    def _tell_items(self) -> bool:
        if self._of_process is None:
            return super()._tell_items()
        self._wake()
        return self._hooks.runner != threading.get_ident()


def _named(values: Sequence[Value]) -> Iterator[Key]:
    """What these refer to, of what has been made here, with what that refers to as far as it is told along."""
    todo = list(values)
    while todo:
        for ref in todo.pop().refs:
            if not ref.yours:
                yield ref.slot, ref.generation
                if ref.value is not None:
                    todo.append(ref.value)
