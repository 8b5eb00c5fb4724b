"""Tables as parallel numpy arrays that grow together, without a Python object for each row. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np

from .pages import reserve

Fill = Any  # a scalar of the column's dtype


class Columns:
    """Named arrays that grow together; the first `n` items of each are rows.

    Parameters
    ----------
    limit : int
        There are never more rows than that.
    **spec : (dtype, fill)
        A column's type, and the value that new rows have in it.

    Attributes
    ----------
    count : array of one int64
        `n`, where C finds and changes it.

    Notes
    -----
    Each column is an attribute, whose first `n` items are valid. It never moves: growing by copying would cost more
    than everything else that is done with a row.
    """

    def __init__(self, limit: int, **spec: tuple[Any, Fill]) -> None:
        self.limit = limit
        self.count = np.zeros(1, np.int64)
        self._n_filled = 0
        self.arrays = {name: reserve(limit, dtype) for name, (dtype, _) in spec.items()}
        vars(self).update(self.arrays)
        self._filled = [(self.arrays[name], fill) for name, (_, fill) in spec.items() if fill]  # others: born zero

    @property
    def n(self) -> int:
        return int(self.count[0])

    def prepare(self, count: int) -> None:
        """Have `count` more rows hold the fill values, if there is room for so many, for C to take."""
        end = min(self.n + count, self.limit)
        if end > self._n_filled:
            for column, fill in self._filled:
                column[self._n_filled : end] = fill
            self._n_filled = end

    def extend(self, count: int) -> np.ndarray:
        """Append `count` rows of fill values and return their numbers."""
        self.prepare(count)
        first = self.n
        self.count[0] = first + count
        return np.arange(first, first + count)

    def keep(self, wanted: np.ndarray) -> None:
        """Drop the rows that are not wanted, of columns without fill values; `wanted` is a flag for each."""
        n, left = self.n, int(np.count_nonzero(wanted))
        if left < n:
            for column in self.arrays.values():
                column[:left] = column[:n][wanted]
            self.count[0] = left


class RowSet:
    """A set of row numbers, most of them recent: a flag for each row, and a bound below which none is set.

    Parameters
    ----------
    flags : array of bool
        Used in place.

    Attributes
    ----------
    flags : array of bool
    low : array of one int64
        The bound. Code that sets a flag lowers it.
    """

    def __init__(self, flags: np.ndarray) -> None:
        self.flags = flags
        self.low = np.full(1, len(flags), np.int64)

    def add(self, rows: np.ndarray) -> None:
        if len(rows):
            self.flags[rows] = True
            self.low[0] = min(self.low[0], rows.min())

    def discard(self, rows: np.ndarray) -> None:
        self.flags[rows] = False

    def below(self, end: int) -> np.ndarray:
        """The members that are smaller than `end`, ascending."""
        low = int(self.low[0])
        found = np.flatnonzero(self.flags[low:end]) + low
        if end > low:
            self.low[0] = found[0] if len(found) else end
        return found
