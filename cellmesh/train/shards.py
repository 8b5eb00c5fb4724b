"""Parts of datasets, one for each rank, without a copy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


class Window(Sequence[Any]):
    """Consecutive items of a sequence.

    Parameters
    ----------
    items : sequence
        Anything with `len` and items by number, such as a `torch.utils.data.Dataset`.
    begin, end : int
    """

    def __init__(self, items: Any, begin: int, end: int) -> None:
        self._items, self._numbers = items, range(begin, end)

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self._items[i] for i in self._numbers[index]]
        return self._items[self._numbers[index]]

    def __iter__(self) -> Iterator[Any]:
        return (self._items[i] for i in self._numbers)


def shard_of(data: Any, rank: int, n_ranks: int) -> Any:
    """The part of a rank: views of arrays, dicts of them, tables and data frames; a window on other sequences.

    Raises
    ------
    ValueError
        Arrays in a dict differ in length.
    TypeError
        It is no sequence.
    """
    if isinstance(data, Mapping):
        lengths = {name: len(column) for name, column in data.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"the arrays of a dataset have one length, and these have {lengths}")
        return {name: shard_of(column, rank, n_ranks) for name, column in data.items()}
    if not hasattr(data, "__len__"):
        raise TypeError(f"a dataset has a length and items by number, and {type(data).__name__} has not")
    size = len(data) // n_ranks
    begin, end = rank * size, (rank + 1) * size
    if hasattr(data, "iloc"):  # pandas
        return data.iloc[begin:end]
    if hasattr(data, "slice"):  # Arrow, polars
        return data.slice(begin, end - begin)
    if hasattr(data, "__array__") or isinstance(data, (list, tuple, range)):
        return data[begin:end]
    return Window(data, begin, end)
