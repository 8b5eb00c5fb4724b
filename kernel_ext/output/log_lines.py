"""The lines that the tasks of a session have printed, for the panel's logs. Bounded: the oldest lines are forgotten."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict, deque
from typing import NamedTuple

from ..panel_messages import N_LINES_MAX, Stream

N_CHARS_MAX = 4_000_000
LINE_CHARS_MAX = 2000  # the rest of a line is cut off
N_OPEN_MAX = 256  # lines that have not ended yet
PATIENCE_S = 1.0  # after that an unfinished line counts as one

_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class Line(NamedTuple):
    """`at`: seconds of the session; `task`: its number, 0 for none."""

    at: float
    task: int
    stream: Stream
    pid: int
    text: str


class LogLines:
    """The lines by number, in the order in which they were finished. One thread brings them, any may look."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: deque[Line] = deque()
        self._n_chars = 0
        self._first = 0  # number of the oldest line kept
        self._open: OrderedDict[tuple[int, Stream, int], Line] = OrderedDict()

    @property
    def count(self) -> int:
        """How many lines there have been, unfinished ones included: what changes when there is something to read."""
        return self._first + len(self._lines) + len(self._open)

    def add(self, at: float, task: int, stream: Stream, pid: int, text: str) -> None:
        """A piece of text; not necessarily whole lines."""
        key = (task, stream, pid)
        with self._lock:
            begun = self._open.pop(key, None)
            *whole, rest = ((begun.text if begun else "") + text).split("\n")
            for line in whole:
                self._append(Line(at, task, stream, pid, line))
            if rest:
                self._open[key] = Line(at, task, stream, pid, rest[-2 * LINE_CHARS_MAX :])
            for _ in range(len(self._open) - N_OPEN_MAX):
                self._append(self._open.popitem(last=False)[1])

    def since(self, number: int, now: float, n_chars: int) -> tuple[int, list[Line]]:
        """Lines from a number on, about so many characters of them, and the number of the first.

        The first is larger than `number` if older lines have been forgotten.
        """
        with self._lock:
            for key, line in list(self._open.items()):
                if now - line.at <= PATIENCE_S:
                    continue
                self._append(self._open.pop(key))
            first = min(max(number, self._first), self._first + len(self._lines))
            found = []
            for at in range(first - self._first, len(self._lines)):
                line = self._lines[at]
                n_chars -= len(line.text) + 40
                if n_chars < 0 and found:
                    break
                found.append(line)
            return first, found

    def _append(self, line: Line) -> None:
        # The last state of a line that was redrawn.
        text = _COLOURS.sub("", line.text.removesuffix("\r").rpartition("\r")[2])
        line = line._replace(text=text if len(text) <= LINE_CHARS_MAX else f"{text[: LINE_CHARS_MAX - 1]}…")
        self._lines.append(line)
        self._n_chars += len(line.text)
        while len(self._lines) > N_LINES_MAX or self._n_chars > N_CHARS_MAX:
            self._n_chars -= len(self._lines.popleft().text)
            self._first += 1
