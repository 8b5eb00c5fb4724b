"""What a pocket's task has to tell before it has ended: that it runs, what it prints, and what it yields."""

from __future__ import annotations

import os
import threading
import time
from _thread import interrupt_main
from collections.abc import Callable, Sequence
from contextlib import nullcontext

from ..scheduler.cluster.messages import Begun, Run
from .batch import Batch
from .parcels import SOON, Large, Piece, Progress, encode, with_places

SAY_S = 0.2  # a task that runs for longer tells what it has to before its end
# How often a generator says how far it knows of its reader, and who waits for answers which: that mends what was lost
# on the way.
BEAT_S = 2.0


class Line:
    """What a pocket has to the engine's process while it runs a parcel."""

    def say(self, message: bytes, large: Sequence[Large]) -> bool:
        """Tell it something, in any thread. Whether it has that, and will before it hears that the parcel has ended;
        else it is told again. `large`: bytes that may stay with the engine."""
        raise NotImplementedError

    def listen(self) -> None:
        """A generator begins, or what may call actors: until `end`, what the engine is to `say` to it goes to
        `pocket.hear`; and None if there is nobody any more."""

    def end(self) -> None:
        """It has ended."""

    def rest(self, comes: threading.Event, seconds: float) -> bool:
        """In the thread of a task that listens: sleep until that is set, or for so long, as a task of the engine's does
        that waits for another one, and leaves its CPU to that meanwhile. False: it did not sleep, as the engine has
        nothing like it."""
        return False


class News:
    """Once a task has run for `SAY_S` a thread tells of it; what it yields it tells at once. What has not been told at
    its end comes with its outcome.

    So a quick task costs nothing here, and what a task prints is always there before its result. Of a parcel of several
    tasks that has run for so long it tells which have ended, and that the rest will not begin here.

    Parameters
    ----------
    has_thread : bool
        Else whoever has it calls `say` now and then, and when something was yielded.
    unanswered : callable () -> dict
        As of `Progress`.
    """

    def __init__(self, has_thread: bool = True, unanswered: Callable[[], dict[int, int]] = dict) -> None:
        self._unanswered = unanswered
        self._task = -1  # none runs
        self._run = self._at = 0
        self._taken = -1
        self._news: list[tuple[Piece, Sequence[Large]]] = []
        self._is_told = False
        self._since = self._said_at = 0.0
        self._line: Line | None = None
        self._lock = threading.Lock()
        self._says = threading.Lock()  # held while something is said
        self._busy, self._hurry = threading.Event(), threading.Event()
        self._has_thread = not has_thread  # else it is begun when it is needed
        self._batch: Batch | None = None
        self._batch_since = 0.0

    def begin_batch(self, batch: Batch | None) -> None:
        """The tasks that begin from now on are of that one, which is broken up when it has run for `SAY_S`; None: of
        none."""
        with self._lock:
            self._batch, self._batch_since = batch, time.monotonic()

    def begin(self, task: int, line: Line | None, is_generator: bool) -> None:
        """That task runs. `line`: None: its end alone is told."""
        with self._lock:
            self._run, self._at, self._news = time.time_ns(), 0, []
            self._since = self._said_at = time.monotonic()
            self._task, self._is_told, self._line, self._taken = task, False, line, 0 if is_generator else -1
        if line is not None:
            self._busy.set()
            if not self._has_thread:
                self._has_thread = True
                threading.Thread(target=self._tell, name="cellmesh-news", daemon=True).start()

    @property
    def is_open(self) -> bool:
        """Whether a task runs of which there may be some."""
        return self._task >= 0

    def add(self, piece: Piece, large: Sequence[Large] = ()) -> None:
        """It has printed or yielded something, or called somebody."""
        with self._lock:
            if self._task >= 0:
                self._news.append((piece, large))
        if isinstance(piece, SOON):
            self._hurry.set()

    def note_taken(self, n: int) -> None:
        """So many of its items are known to have been taken."""
        with self._lock:
            self._taken = max(self._taken, n)

    def end(self, large: list[Large]) -> tuple[int, int, list[Piece]]:
        """It has ended: which run it was, and what nobody was told, behind how much. `large`: see `with_places`."""
        with self._says if self._taken >= 0 else nullcontext(), self._lock:  # items are not to go there twice
            self._task = -1
            return self._run, self._at, with_places(self._news, large)

    def _tell(self) -> None:
        while True:
            self._busy.wait()
            self._hurry.wait(SAY_S)
            self._hurry.clear()
            self.say()

    def say(self) -> None:
        """Tell what there is to be told now."""
        with self._says:
            self._say()

    def _say(self) -> None:
        large: list[Large] = []
        with self._lock:
            progress, line, batch = self._progress(large), self._line, self._batch
        if progress is None or line is None or not line.say(encode(progress), large):
            return
        with self._lock:
            if batch is not None and progress.others is not None:  # there may be another one by now
                if batch.told(progress.others):
                    interrupt_main()
            if self._run == progress.run and self._task >= 0:
                self._said_at = time.monotonic()
                self._at += len(progress.news)
                self._news = self._news[len(progress.news) :]

    def _progress(self, large: list[Large]) -> Progress | None:
        """What there is to be told now."""
        if self._task < 0:
            self._busy.clear()
            return None
        now, others = time.monotonic(), None
        if self._batch is not None and now - self._batch_since >= SAY_S:
            others = self._batch.break_up()
        is_quick = now - self._since < SAY_S and not any(isinstance(piece, SOON) for piece, _ in self._news)
        if is_quick and others is None:
            return None
        if not self._is_told:
            self._is_told = True
            run = Run(self._task, os.getpid(), int((now - self._since) * 1e6))
            self._news.insert(0, (Begun([run]), ()))
        beats = now - self._said_at >= BEAT_S
        unanswered = self._unanswered() if beats else None
        if not self._news and not (beats and (self._taken >= 0 or unanswered)):
            return None
        news = with_places(self._news, large)
        return Progress(self._task, self._run, self._at, news, self._taken, others, unanswered)
