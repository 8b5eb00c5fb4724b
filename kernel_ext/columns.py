"""Parallel numpy arrays that grow together: the rows of a table without a Python object per row. Pure."""
from __future__ import annotations

import mmap
from typing import Any

import numpy as np

Fill = Any  # a scalar of the column's dtype


class Columns:
    """Named arrays that grow together; the first `n` items of each are rows.

    Parameters
    ----------
    limit : int
        There are never more rows than that.
    **spec : (dtype, fill)
        A column's type, and the value that new rows get in it.

    Notes
    -----
    Each column is an attribute, whose first `n` items are valid. It never moves: growing by copying would cost more
    than everything else that is done with a row.
    """

    def __init__(self, limit: int, **spec: tuple[Any, Fill]) -> None:
        self.n = 0
        for name, (dtype, _) in spec.items():
            setattr(self, name, _reserve(limit, dtype))
        self._filled = [(getattr(self, name), fill) for name, (_, fill) in spec.items() if fill]  # others: born zero

    def extend(self, count: int) -> np.ndarray:
        """Append `count` rows of fill values and return their numbers."""
        first, self.n = self.n, self.n + count
        for column, fill in self._filled:
            column[first:self.n] = fill
        return np.arange(first, self.n)


def _reserve(n_items: int, dtype: Any) -> np.ndarray:
    """An array of zeros that takes memory page by page, as it is written to.

    Unlike `np.zeros`, which asks for huge pages: two megabytes for each column of a graph of three tasks.
    """
    n_bytes = n_items * np.dtype(dtype).itemsize
    return np.frombuffer(mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), dtype)


class RowSet:
    """A set of row numbers, most of them recent: a flag for each row, and a bound below which none is set.

    Parameters
    ----------
    limit : int
        Row numbers are below that.
    """

    def __init__(self, limit: int) -> None:
        self._flags = _reserve(limit, np.bool_)
        self._low = limit

    def add(self, rows: np.ndarray) -> None:
        if len(rows):
            self._flags[rows] = True
            self._low = min(self._low, int(rows.min()))

    def discard(self, rows: np.ndarray) -> None:
        self._flags[rows] = False

    def below(self, end: int) -> np.ndarray:
        """The members that are smaller than `end`, ascending."""
        low = self._low
        found = np.flatnonzero(self._flags[low:end]) + low
        if end > low:
            self._low = int(found[0]) if len(found) else end
        return found


class NumberTable:
    """From task numbers to rows: an array indexed by number, because task numbers are dense.

    It begins near the first number seen, and covers `SPAN` numbers; what lies outside has no row.
    """

    SPAN = 1 << 24  # 64 MB of 4-byte rows at most
    _SLACK = 1 << 16  # numbers a little older than the first one seen are still found

    def __init__(self) -> None:
        self._base: np.uint64 | None = None
        self._rows = _reserve(self.SPAN, np.int32)  # row + 1

    def find(self, numbers: np.ndarray) -> np.ndarray:
        """The rows of these numbers, -1 for those that have none."""
        index, inside = self._index(numbers)
        rows = self._rows.take(index).astype(np.intp) - 1  # as numpy indexes: other types cost a conversion each time
        return rows if inside is None else np.where(inside, rows, -1)

    def missing(self, numbers: np.ndarray, found: np.ndarray) -> np.ndarray:
        """Of the numbers that `find` did not find, the distinct ones that can be given a row, as they appeared."""
        index, inside = self._index(numbers)
        new = found < 0 if inside is None else (found < 0) & inside
        lacking = numbers[new]
        if len(lacking) > 1 and not (lacking[1:] > lacking[:-1]).all():
            lacking = lacking[np.sort(np.unique(lacking, return_index=True)[1])]
        return lacking

    def assign(self, numbers: np.ndarray, rows: np.ndarray) -> None:
        """Give rows to numbers that `missing` returned."""
        self._rows[self._index(numbers)[0]] = rows + 1

    def _index(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Positions in the array, and a mask of those that are inside when some are not (their position is then 0)."""
        if self._base is None:
            first = int(numbers.min())
            self._base = np.uint64(0 if first < self.SPAN // 2 else first - self._SLACK)
        # Unsigned: a number below the base wraps round to a huge one, which is outside, and negative as an index.
        index = (numbers - self._base).view(np.intp)
        if index.min() >= 0 and index.max() < self.SPAN:
            return index, None
        inside = (index >= 0) & (index < self.SPAN)
        return np.where(inside, index, 0), inside
