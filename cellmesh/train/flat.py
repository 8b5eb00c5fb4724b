"""Arrays as rows, and rows in parts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Flat:
    """An array as one row: of its own memory where that is possible, else a copy that is written back. What is only
    moved is moved as bytes, so that an element may be larger than a slot.
    """

    def __init__(self, array: NDArray[Any], writes: bool = True, as_bytes: bool = True) -> None:
        if array.dtype.hasobject or not array.itemsize:
            raise TypeError(
                f"an array of {array.dtype} cannot be sent: what it holds lies elsewhere, in this process. Numbers, "
                "times, texts and bytes of fixed width and structures of them can"
            )
        if writes and not array.flags.writeable:
            raise ValueError("the array is read-only, and the result is written into it: give a copy, array.copy()")
        self._array, self._writes, self._as_bytes = array, writes, as_bytes

    def __enter__(self) -> NDArray[Any]:
        self._row = self._array.reshape(-1)
        return self._row.view(np.uint8) if self._as_bytes else self._row

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None and self._writes and not np.may_share_memory(self._row, self._array):
            self._array[...] = self._row.reshape(self._array.shape)


def slices_of(size: int, n: int) -> list[slice]:
    """`n` slices of nearly the same length."""
    bounds = [size * i // n for i in range(n + 1)]
    return [slice(bounds[i], bounds[i + 1]) for i in range(n)]


def counted(name: str, counts: Sequence[int] | None, size: int, n_ranks: int) -> list[int]:
    if counts is None and size % n_ranks == 0:
        return [size // n_ranks] * n_ranks
    if counts is None or len(counts) != n_ranks or min(counts) < 0 or sum(counts) != size:
        raise ValueError(f"{name}={counts}: {n_ranks} numbers, one for each rank, that add up to {size}")
    return list(counts)


def check_dtypes(name: str, out: NDArray[Any], array: NDArray[Any]) -> None:
    """Raise ValueError if they differ."""
    if out.dtype != array.dtype:
        raise ValueError(f"{name}: the arrays are {text_of(out)} and {text_of(array)}, and need one dtype")


def check_size(name: str, large: NDArray[Any], small: NDArray[Any], n_ranks: int) -> None:
    if large.dtype != small.dtype or large.size != n_ranks * small.size:
        raise ValueError(
            f"{name} is {text_of(large)}: {n_ranks} times as many elements as the other array, {text_of(small)}, and "
            "the same dtype"
        )


def text_of(array: NDArray[Any]) -> str:
    """An array in messages: its dtype and shape."""
    return _text(array.dtype, array.shape)


@lru_cache(maxsize=1024)  # numpy takes longer for the name of a dtype than a small sum takes in all
def _text(dtype: np.dtype[Any], shape: tuple[int, ...]) -> str:
    # A dtype that numpy has not is a structure of one field of its name.
    return f"{dtype.names[0] if dtype.names and len(dtype.names) == 1 else dtype} {shape}"
