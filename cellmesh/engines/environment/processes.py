"""Processes beside a worker of an engine, each with the pocket of one environment: an environment is set up in a
process for good, and the worker is to be for others what it was (decision 151).

One that has died takes the worker along: the engine knows what becomes of a task whose worker dies, and how often it
may begin again.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
import time
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from typing import Any

from ...scheduler.sync.threads import ServiceThread
from ..actor.process import ActorProcess
from ..interface import Outcome
from ..news import Line
from ..parcels import Large, Work

MOST = 4  # of one worker; the one that was used last the longest time ago goes first
KEEP_S = 60.0  # for the next task, at most
LEAVE_S = 2.0  # for all to end, when the worker does
LOOK_S = 0.1  # how often to look whether there was an interrupt: that of Ray wakes nobody
AGAIN_S = 0.2  # for the engine's way to be there again


class _LineOfNow(Line):
    """The line of the parcel that runs now. What a process has said it does not say again."""

    def __init__(self) -> None:
        self.of: Line | None = None
        self._heard: Line | None = None
        self._lock = threading.Lock()

    def listen(self) -> None:
        """Hear what it says, in the parcel that runs now."""
        with self._lock:
            if self.of is not None and self._heard is None:
                self._heard = self.of
                self._heard.listen()

    def end(self) -> None:
        """It has ended."""
        with self._lock:
            heard, self.of, self._heard = self._heard, None, None
        if heard is not None:
            heard.end()

    def say(self, message: bytes, large: Sequence[Large]) -> bool:
        """Tell the engine's process something. Returns when that has it."""
        line = self.of
        while line is not None and not line.say(message, large):
            time.sleep(AGAIN_S)
        return True


class _Environment:
    """A process. `ended`: set once it has."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.used_at = 0.0
        self.line = _LineOfNow()
        self.process = ActorProcess(self.line, self._note_end)

    def _note_end(self, code: int) -> None:
        self.ended.set()

    def run(self, work: Work, data: bytes, blobs: Sequence[Any], line: Line | None) -> Outcome | None:
        """Run a parcel; None: it has died. An outcome without data: it was interrupted, as this thread was."""
        outcomes: list[Outcome | None] = []  # which no interrupt takes away
        comes: SimpleQueue[None] = SimpleQueue()

        def over(outcome: Outcome | None) -> None:
            outcomes.append(outcome)
            comes.put(None)

        self.line.of = line
        if work.may_hear:
            self.line.listen()
        try:
            number = self.process.begin(data, blobs, over)
            while True:  # no condition here: see scheduler/sync/condition.py
                if outcomes:
                    return outcomes[0]
                try:
                    _wait(comes)
                except KeyboardInterrupt:
                    self.process.interrupt(number)
        finally:
            self.used_at = time.monotonic()
            self.line.end()


def _wait(comes: SimpleQueue[None]) -> None:
    while True:
        try:
            return comes.get(timeout=LOOK_S)
        except Empty:
            pass  # and here an interrupt is raised


class Environments:
    """Those of this process."""

    def __init__(self) -> None:
        self._there: dict[tuple[str, int], _Environment] = {}  # by session and number; the last is that used last
        self._now: _Environment | None = None
        self._lock = threading.Lock()
        self._has_sweeper = self._ends_with_us = False

    def run(self, work: Work, data: bytes, blobs: Sequence[Any], line: Line | None) -> Outcome:
        """Run a parcel in the process of its environment, which is begun if it is not there."""
        key = work.session, work.task.env
        with self._lock:
            now = self._now = self._taken(key)
        try:
            outcome = now.run(work, data, blobs, line)
        except BaseException:  # an interrupt in the midst of what is said to it
            with self._lock:
                self._there.pop(key, now).process.end(True)
            raise
        finally:
            self._now = None
        if outcome is None:
            os.kill(os.getpid(), signal.SIGKILL)
        elif outcome.data:
            return outcome
        raise KeyboardInterrupt

    def hear(self, message: bytes | None) -> bool:
        """Tell the pocket that runs a parcel something; False: none does."""
        if (now := self._now) is None:
            return False
        now.process.hear(message or b"")
        return True

    def close(self) -> None:
        """End them all, and give them the time to tidy up."""
        with self._lock:
            there = [*self._there.values()]
            self._end([*self._there])
        until = time.monotonic() + LEAVE_S
        for one in there:
            one.ended.wait(max(0.0, until - time.monotonic()))

    def _taken(self, key: tuple[str, int]) -> _Environment:
        found = self._there.pop(key, None)
        if found is None or found.ended.is_set():
            found = _Environment()
        self._there[key] = found
        self._end([*self._there][:-MOST])
        if not self._ends_with_us:
            self._ends_with_us = True
            atexit.register(self.close)
        if not self._has_sweeper:
            self._has_sweeper = True
            ServiceThread(self._sweep, "cellmesh-environments").start()
        return found

    def _end(self, keys: Sequence[tuple[str, int]]) -> None:
        for key in keys:
            self._there.pop(key).process.end(False)

    def _sweep(self) -> None:
        """End those that have not been used for long."""
        while True:
            time.sleep(KEEP_S / 4)
            with self._lock:
                before = time.monotonic() - KEEP_S
                # Of a list with `if` in it, Python 3.13 may leave the lock taken (scheduler/sync/condition.py).
                unused = (key for key, one in self._there.items() if one is not self._now and one.used_at < before)
                self._end([*unused])
                if not self._there:
                    self._has_sweeper = False
                    return
