"""The scores at a rung, split into the best part and the rest.

A rung asks one question of n scores: what is the smallest of the best n/eta? The best part grows by at most one with
each score, so two heaps answer it in O(log n): the best part with its smallest on top, the rest with its largest on
top. Who promotes needs to know whose scores they are (`Split`), who stops does not (`Quantile`), and floats compare in
half the time of pairs.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from heapq import heappush, heappushpop

LOWEST = -sys.float_info.max


class Split:
    """Scores in two parts.

    Parameters
    ----------
    n_best : callable
        How many of n scores are in the best part. It grows by 0 or 1 with n.

    Of equal scores the one that came first is better.
    """

    def __init__(self, n_best: Callable[[int], int]) -> None:
        self.n: int = 0
        self.best: list[tuple[float, int]] = []  # (score, -order of arrival), a heap
        self.rest: list[tuple[float, int]] = []  # (-score, order), likewise
        self._n_best = n_best

    def add(self, score: float) -> int | None:
        """Add a score. Which one is among the best now and was not before, by its order of arrival (from 0)."""
        order, self.n = self.n, self.n + 1
        best, rest = self.best, self.rest
        if len(best) < self._n_best(self.n):
            worse, entered = heappushpop(rest, (-score, order))
            heappush(best, (-worse, -entered))
            return entered
        if not best or (score, -order) < best[0]:
            heappush(rest, (-score, order))
            return None
        fallen, fallen_order = heappushpop(best, (score, -order))
        heappush(rest, (-fallen, -fallen_order))
        return order


class Quantile:
    """The q-quantile of scores that come one by one, interpolated linearly (numpy's default method).

    Parameters
    ----------
    q : float
        0 <= q < 1.
    """

    def __init__(self, q: float) -> None:
        self._q = q
        self._n = 0
        self._above: list[float] = []  # a heap
        self._below: list[float] = []  # likewise, of scores times -1

    def add(self, score: float) -> None:
        n_below = int(self._n * self._q) + 1  # of all scores with this one
        self._n += 1
        if len(self._below) < n_below:
            heappush(self._below, -heappushpop(self._above, score))
        else:
            heappush(self._above, -heappushpop(self._below, -score))

    def value(self) -> float | None:
        """None: there is no score yet. Between minus infinity and a number there is the lowest number."""
        if not self._n:
            return None
        below, position = -self._below[0], (self._n - 1) * self._q
        part = position - int(position)
        if not part or below == (above := self._above[0]):
            return below
        gap = above - below
        if not math.isfinite(gap):
            return max(below, LOWEST)
        return below + gap * part if part < 0.5 else above - gap * (1 - part)
