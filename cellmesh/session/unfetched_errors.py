"""Errors of tasks that nobody asks for: shown by the driver after a while, each once, and not more than one can read.
Errors that a driver has heard of are kept for a later look at the task, when no ref is left that has the error.

A worker tells of each task that fails; a process that gets the error of a task has it crossed off. What
is left after `PATIENCE_S` is shown. An error that a dependent task inherits is the same error.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

from ..scheduler.sync.threads import Later

PATIENCE_S = 10.0
N_WAITING = 200  # errors under watch; of further ones only the number is told
N_SHOWN = 5  # in one report
N_REMEMBERED = 4096  # that were fetched, perhaps before their notice arrived
MAX_CHARS = 4000  # of one error
MAX_SUMMARY = 250  # of its type and message
N_KNOWN = 1000  # errors kept for cards


def key_of(record: tuple[Any, ...]) -> int:
    """The same for the same error in every process, and for all those that do not differ in what they say and where."""
    _, function_name, cause_type, message, traceback, _, place, *_ = record
    told = function_name, cause_type, message, traceback, str(place)
    return zlib.crc32("\0".join(told).encode("utf-8", "replace"))


def text_of(record: tuple[Any, ...]) -> str:
    """What is shown of an error: the end of its traceback."""
    _, _, _, _, traceback, *_ = record
    return traceback.rstrip()[-MAX_CHARS:]


def summary_of(record: tuple[Any, ...]) -> str:
    """An error's type and the first line of its message."""
    _, _, cause_type, message, *_ = record
    return _cut(f"{cause_type}: {message}")


def _cut(text: str) -> str:
    line = text.strip().partition("\n")[0]
    return line if len(line) <= MAX_SUMMARY else f"{line[: MAX_SUMMARY - 1]}…"


class KnownErrors:
    """What the tasks of a session have failed with, the last `N_KNOWN` of them; for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._errors: OrderedDict[int, tuple[str, str]] = OrderedDict()
        self._supposed: set[int] = set()  # tasks of which no more is known than that their process has ended
        self._noted: deque[int] = deque(maxlen=N_KNOWN)  # tasks, in the order in which something became known of them
        self._n_noted = 0

    def note(self, task: int, error: str, traceback: str = "", *, is_supposed: bool = False) -> None:
        """A task has failed: why in a line (of more lines the first counts), and the worker's traceback.

        `is_supposed`: all that is said is that its process has ended, perhaps later than the error itself, which stays.
        """
        known = _cut(error), traceback
        with self._lock:
            before = self._errors.get(task)
            if before == known or (is_supposed and before is not None and task not in self._supposed):
                return
            (self._supposed.add if is_supposed else self._supposed.discard)(task)
            self._errors[task] = known
            self._noted.append(task)
            self._n_noted += 1
            for _ in range(len(self._errors) - N_KNOWN):
                self._supposed.discard(self._errors.popitem(last=False)[0])

    def since(self, n: int) -> tuple[dict[int, str], int]:
        """The lines that came after the first `n`, by task, and how many there were in all: what to ask for the next
        time.
        """
        with self._lock:
            new = list(self._noted)[max(0, len(self._noted) - (self._n_noted - n)) :] if n < self._n_noted else []
            return {task: self._errors[task][0] for task in filter(self._errors.__contains__, new)}, self._n_noted

    def of(self, task: int) -> tuple[str, str]:
        """What is known of a task by its number: the line and the traceback, both "" if nothing is."""
        with self._lock:
            return self._errors.get(task, ("", ""))


class UnfetchedErrors:
    """The errors that have come and have not been fetched yet.

    Parameters
    ----------
    show : callable
        Takes the text of a report.
    """

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._lock = threading.Lock()
        # By key: since when, task, text, how many.
        self._waiting: OrderedDict[int, tuple[float, str, str, int]] = OrderedDict()
        self._fetched: OrderedDict[int, None] = OrderedDict()
        self._n_more = 0
        self._reported_at = 0.0
        self._timer: Later | None = None
        self._closed = False

    def failed(self, key: int, task: str, text: str) -> None:
        """A task has failed."""
        with self._lock:
            if self._closed or key in self._fetched:
                return
            if key in self._waiting:
                since, _, _, n = self._waiting[key]
                self._waiting[key] = since, task, text, n + 1
            elif len(self._waiting) < N_WAITING:
                self._waiting[key] = time.monotonic(), task, text, 1
            else:
                self._n_more += 1
            self._start_timer()

    def fetched(self, key: int) -> None:
        """Somebody has got that error."""
        with self._lock:
            self._waiting.pop(key, None)
            self._fetched[key] = None
            for _ in range(len(self._fetched) - N_REMEMBERED):
                self._fetched.popitem(last=False)
            if self._timer is not None and not self._waiting:
                self._timer.cancel()
                self._timer = None

    def close(self) -> None:
        """Show nothing any more."""
        with self._lock:
            self._closed = True
            timer = self._timer
        if timer is not None:
            timer.cancel()
            timer.join()
        self._show = lambda _: None  # it refers to the session, and the session to this

    def _start_timer(self) -> None:
        if self._timer is None and self._waiting and not self._closed:
            due = max(next(iter(self._waiting.values()))[0], self._reported_at) + PATIENCE_S
            self._timer = Later(due - time.monotonic(), self._report, "cellmesh-unfetched")
            self._timer.start()

    def _report(self) -> None:
        with self._lock:
            if self._closed or self._timer is not threading.current_thread():  # which was cancelled as this began
                return
            self._timer = None
            self._reported_at = time.monotonic()
            due = [key for key, (since, *_) in self._waiting.items() if time.monotonic() >= since + PATIENCE_S]
            told = [self._waiting.pop(key) for key in due]
            for key in due:
                self._fetched[key] = None  # once is enough
            n_more = sum(n for *_, n in told[N_SHOWN:]) + (self._n_more if told else 0)
            self._n_more = 0 if told else self._n_more
            self._start_timer()
        for _, task, text, n in told[:N_SHOWN]:
            times = f" ({n} times)" if n > 1 else ""
            self._show(f"the task {task!r} has failed{times}, and nobody has asked for its value:\n{text}")
        if n_more:
            self._show(f"{n_more} more errors that nobody has asked for; cellmesh.error_info() lists the recent ones")
