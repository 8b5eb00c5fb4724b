"""How much of what tasks print is kept for a home that does not take it: its line is broken, or slower than they are.
See `submitter`."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import replace

from msgspec import structs

from ...scheduler.cluster.messages import Output
from ..interface import Notice, Said
from ..parcels import Piece, decode_progress, encode

MOST_BYTES = 16 << 20


class Prints:
    """See above. What is said besides, items that are yielded for example, has bounds of its own, but is counted.

    Parameters
    ----------
    most_bytes : int
        That are kept; of what comes then, what was printed is left out.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._n_bytes = 0  # that home is not known to have
        self._sent: deque[tuple[int, int]] = deque()  # of that: the number of the last piece, and how many bytes
        self._n_left_out = 0  # characters, of which home was not told
        self._lock = threading.Lock()  # engines tell in any thread

    def admit(self, said: Said) -> Said:
        """That, or what is left of it. As many news as before: they are counted at home."""
        with self._lock:
            if self._n_bytes + len(said.message) > self._most:
                progress = decode_progress(said.message)
                news = [self._left(piece) for piece in progress.news]
                said = replace(said, message=encode(structs.replace(progress, news=news)))
            self._n_bytes += len(said.message)
            return said

    def _left(self, piece: Piece) -> Piece:
        if not isinstance(piece, Output):
            return piece
        self._n_left_out += len(piece.text) + len(piece.bundle)
        return Output(piece.task, piece.origin, "stdout", piece.pid)

    def sent(self, said: Said, number: int) -> None:
        """It goes home in pieces up to that number."""
        with self._lock:
            self._sent.append((number, len(said.message)))

    def came(self, n: int) -> None:
        """Home has the pieces up to that number."""
        with self._lock:
            while True:  # no condition here: see scheduler/sync/condition.py
                if not self._sent or self._sent[0][0] > n:
                    break
                self._n_bytes -= self._sent.popleft()[1]

    @property
    def has_notice(self) -> bool:
        """Whether home is to be told what was left out: there is room again, so it is said once."""
        return self._n_left_out > 0 and self._n_bytes <= self._most // 2

    def notice(self) -> Notice:
        """What it is told."""
        with self._lock:
            n, self._n_left_out = self._n_left_out, 0
        return Notice(
            f"{n:,} characters that tasks printed are not shown: the line was broken, or slower than they were."
        )
