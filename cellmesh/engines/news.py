"""What a pocket's task has to tell before it has ended: that it runs, and what it prints."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from ..scheduler.cluster.messages import Begun, Output, Run
from .parcels import Progress, encode

SAY_S = 0.2  # a task that runs for longer tells what it has to before its end

Say = Callable[[bytes], bool]
"""Tells the engine's process something; whether it has it, else it is told again."""


class News:
    """Once a task has run for `SAY_S` a thread tells of it; what has not been told at its end comes with its outcome.

    So a quick task costs nothing here, and what a task prints is always there before its result.
    """

    def __init__(self) -> None:
        self._task = -1  # none runs
        self._run = self._at = 0
        self._news: list[Begun | Output] = []
        self._is_told = False
        self._since = 0.0
        self._say: Say | None = None
        self._lock = threading.Lock()
        self._busy = threading.Event()
        self._has_thread = False

    def begin(self, task: int, say: Say | None) -> None:
        """That task runs. `say`: None: its end alone is told."""
        with self._lock:
            self._run, self._at, self._news = time.time_ns(), 0, []
            self._task, self._is_told, self._since, self._say = task, False, time.monotonic(), say
        if say is not None:
            self._busy.set()
            if not self._has_thread:
                self._has_thread = True
                threading.Thread(target=self._tell, name="cellmesh-news", daemon=True).start()

    def add(self, output: Output) -> None:
        """It has printed something."""
        with self._lock:
            if self._task >= 0:
                self._news.append(output)

    def end(self) -> tuple[int, int, list[Begun | Output]]:
        """It has ended: which run it was, and what nobody has been told, behind how much."""
        with self._lock:
            self._task = -1
            return self._run, self._at, self._news

    def _tell(self) -> None:
        while True:
            self._busy.wait()
            time.sleep(SAY_S)
            with self._lock:
                progress, say = self._progress(), self._say
            if progress is None or say is None or not say(encode(progress)):
                continue
            with self._lock:
                if self._run == progress.run and self._task >= 0:
                    self._at += len(progress.news)
                    self._news = self._news[len(progress.news) :]

    def _progress(self) -> Progress | None:
        """What there is to be told now."""
        if self._task < 0:
            self._busy.clear()
            return None
        ran_s = time.monotonic() - self._since
        if ran_s < SAY_S:
            return None
        if not self._is_told:
            self._is_told = True
            self._news.insert(0, Begun([Run(self._task, os.getpid(), int(ran_s * 1e6))]))
        return Progress(self._task, self._run, self._at, list(self._news)) if self._news else None
