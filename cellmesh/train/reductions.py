"""Reductions: how the arrays of all ranks become one, in the order of the ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Combine(Protocol):
    """What numpy's binary functions are called with."""

    def __call__(self, a: NDArray[Any], b: NDArray[Any], /, *, out: NDArray[Any]) -> object: ...


@dataclass(frozen=True)
class Reduction:
    """How two arrays become one.

    Attributes
    ----------
    name : str
        In messages, and compared among ranks.
    combine : callable
        `combine(a, b, out=out)` writes into `out`, which may be `a`, what `a` and `b` make, element by element.
    finish : callable, optional
        `finish(total, n_ranks)` is called with the result of all ranks, and changes it in place.
    """

    name: str
    combine: Combine
    finish: Callable[[NDArray[Any], int], object] | None = None


def _divide(total: NDArray[Any], n_ranks: int) -> None:
    np.true_divide(total, n_ranks, out=total)


REDUCTIONS = {
    "sum": Reduction("sum", np.add),
    "avg": Reduction("avg", np.add, _divide),
    "product": Reduction("product", np.multiply),
    "min": Reduction("min", np.minimum),
    "max": Reduction("max", np.maximum),
    "band": Reduction("band", np.bitwise_and),
    "bor": Reduction("bor", np.bitwise_or),
    "bxor": Reduction("bxor", np.bitwise_xor),
}


def combined(parts: Sequence[NDArray[Any]], out: NDArray[Any], how: Reduction) -> None:
    """The arrays of all ranks, in their order, into `out`, which shares nothing with any but the first."""
    if len(parts) == 1:
        out[:] = parts[0]
    else:
        how.combine(parts[0], parts[1], out=out)
        for part in parts[2:]:
            how.combine(out, part, out=out)
    if how.finish is not None:
        how.finish(out, len(parts))


@lru_cache(maxsize=256)
def reduction_of(op: str | Reduction, dtype: np.dtype[Any]) -> Reduction:
    """The reduction of a name, if arrays of this dtype have it.

    Raises
    ------
    ValueError
        There is none of that name.
    TypeError
        Not for this dtype.
    """
    if isinstance(op, Reduction):
        return op
    how = REDUCTIONS.get(op)
    if how is None:
        raise ValueError(f"op={op!r}: it is one of {', '.join(REDUCTIONS)}, or a Reduction")
    try:
        one = np.zeros(1, dtype)
        how.combine(one, one, out=one)
        if how.finish is not None:
            how.finish(one, 1)
    except TypeError as error:  # numpy's, which names the dtypes; UFuncTypeError is one
        raise TypeError(f"op={op!r} of an array of {dtype}: there is no such reduction. {error}") from None
    return how
