"""Parallel numpy arrays that grow together: the rows of a table without a Python object per row. Pure."""
from __future__ import annotations

from typing import Any

import numpy as np

Fill = Any  # a scalar of the column's dtype


class Columns:
    """Named arrays of equal capacity; the first `n` items of each are rows.

    Parameters
    ----------
    **spec : (dtype, fill)
        A column's type, and the value that new rows get in it.

    Notes
    -----
    Each column is an attribute. The arrays are longer than `n` and replaced when they grow: index them, do not keep
    them.
    """

    def __init__(self, **spec: tuple[Any, Fill]) -> None:
        self.n = 0
        self._spec = spec
        for name, (dtype, fill) in spec.items():
            setattr(self, name, np.full(1024, fill, dtype))

    def extend(self, count: int) -> np.ndarray:
        """Append `count` rows of fill values and return their numbers."""
        first, self.n = self.n, self.n + count
        for name, (dtype, fill) in self._spec.items():
            column = getattr(self, name)
            if self.n > len(column):
                grown = np.empty(max(self.n, 2 * len(column)), dtype)
                grown[:first] = column[:first]
                grown[first:] = fill
                setattr(self, name, grown)
        return np.arange(first, self.n, dtype=np.int32)


class NumberTable:
    """From task numbers to rows: an array indexed by number, because task numbers are dense.

    It begins near the first number seen, and covers `SPAN` numbers; what lies outside has no row.
    """

    SPAN = 1 << 24  # 64 MB of 4-byte rows at most
    _SLACK = 1 << 16  # numbers a little older than the first one seen are still found

    def __init__(self) -> None:
        self._base: np.uint64 | None = None
        self._rows = np.full(1024, -1, np.int32)

    def find(self, numbers: np.ndarray) -> np.ndarray:
        """The rows of these numbers, -1 for those that have none."""
        index, inside = self._index(numbers)
        if inside is None:
            return self._rows[index]
        return np.where(inside, self._rows[index], np.int32(-1))

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
        index, _ = self._index(numbers)
        self._rows[index] = rows

    def _index(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Positions in the array, and a mask of those that are inside when some are not (their position is then 0)."""
        if self._base is None:
            first = int(numbers.min())
            self._base = np.uint64(0 if first < self.SPAN // 2 else first - self._SLACK)
        index = numbers - self._base  # unsigned: a number below the base wraps round to a huge one, which is outside
        end = int(index.max()) + 1
        if end <= len(self._rows):
            return index, None
        inside = index < self.SPAN
        if not inside.all():
            index = np.where(inside, index, np.uint64(0))
            end = int(index.max()) + 1
        else:
            inside = None
        if end > len(self._rows):
            grown = np.full(min(self.SPAN, max(end, 2 * len(self._rows))), -1, np.int32)
            grown[:len(self._rows)] = self._rows
            self._rows = grown
        return index, inside
