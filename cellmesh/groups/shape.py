"""How the members of a group are numbered: in a row, or along dimensions, the last of which varies fastest. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..submit.option_values import is_whole

Dims = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Shape:
    """So many members, along these dimensions; () is a row of them.

    Attributes
    ----------
    size : int
    dims : tuple of (str, int)
    """

    size: int
    dims: Dims = ()

    def coordinates(self, rank: int) -> dict[str, int]:
        """Where a member stands, by dimension; {} in a row."""
        found = {}
        for name, n in reversed(self.dims):
            rank, found[name] = divmod(rank, n)
        return dict(reversed(found.items()))

    def at(self, ranks: Iterable[int], wanted: Mapping[str, Any]) -> list[int]:
        """Those of the ranks with such coordinates: a number, a list of numbers or a slice for each dimension.

        Raises
        ------
        TypeError, ValueError, IndexError
            There is no such dimension, or no such place in it.
        """
        names = dict(self.dims)
        if not names:
            raise TypeError(
                "at() looks for coordinates, and this group is a row: cm.group(Stage, dp=2, pp=4) names dimensions"
            )
        if not wanted:
            raise TypeError(f"at() needs a coordinate at least, of {_words(self.dims)}")
        allowed: dict[str, set[int]] = {}
        for name, value in wanted.items():
            if name not in names:
                raise ValueError(f"at({name}={value!r}): the dimensions of the group are {_words(self.dims)}")
            allowed[name] = set(places(value, names[name], f"at({name}={value!r})"))
        return [rank for rank in ranks if all(self.coordinates(rank)[name] in some for name, some in allowed.items())]


def places(wanted: Any, n: int, called: str) -> list[int]:
    """Which of `n` places an index means: a number (also from the end), a slice, or several numbers.

    Raises
    ------
    TypeError, IndexError
        It is nothing of the kind, or out of range.
    """
    if isinstance(wanted, slice):
        return list(range(n))[wanted]
    numbers = (
        wanted
        if isinstance(wanted, Sequence) and not isinstance(wanted, str)
        else getattr(wanted, "tolist", lambda: [wanted])()
    )
    numbers = numbers if isinstance(numbers, Sequence) else [numbers]
    for number in numbers:
        if not is_whole(number):
            raise TypeError(f"{called}: needs a whole number, a list of them or a slice")
        if not -n <= number < n:
            there = f"0 to {n - 1}" if n else "none"
            raise IndexError(f"{called}: out of range, there are {n} places ({there})")
    found = [int(number) % n for number in numbers]
    if len(set(found)) < len(found):
        raise ValueError(f"{called}: names a member twice")
    return found


def shape_of(n: Any, dims: Mapping[str, Any] | None, called: str) -> Shape:
    """The shape of a group, from the number of its members, its dimensions, or both.

    Raises
    ------
    TypeError, ValueError
        There is neither, a number is none, or they do not agree.
    """
    if n is not None and (not is_whole(n) or n < 1):
        kind = ValueError if is_whole(n) else TypeError
        raise kind(f"{called}: the number of members must be a whole number >= 1, not {n!r}")
    if dims is None:
        if n is None:
            raise TypeError(
                f"{called}: needs a number of members, group(Trainer, 8), or named dimensions, group(Stage, dp=2, pp=4)"
            )
        return Shape(int(n))
    if not isinstance(dims, Mapping) or not dims:
        raise TypeError(
            f"{called}: shape={dims!r} must be a dict of dimensions to their sizes, such as {{'dp': 2, 'pp': 4}}"
        )
    for name, size in dims.items():
        if not isinstance(name, str) or not name.isidentifier():
            raise ValueError(f"{called}: the dimension {name!r} must be a name, as at({name}=0) could say it")
        if not is_whole(size) or size < 1:
            raise ValueError(f"{called}: the dimension {name}={size!r} must be a whole number >= 1")
    size = math.prod(map(int, dims.values()))
    if n is not None and n != size:
        raise ValueError(f"{called}: {n} members do not fit the shape {_words(tuple(dims.items()))}, which has {size}")
    return Shape(size, tuple((name, int(count)) for name, count in dims.items()))


def ranks_in_words(ranks: tuple[int, ...]) -> str:
    """(0, 1, 2, 5) -> "0-2, 5"."""
    parts: list[list[int]] = []
    for rank in ranks:
        if parts and rank == parts[-1][-1] + 1:
            parts[-1][1:] = [rank]
        else:
            parts.append([rank])
    return ", ".join("-".join(map(str, part)) for part in parts) or "none"


def _words(dims: Iterable[tuple[str, Any]]) -> str:
    return ", ".join(f"{name}={n}" for name, n in dims)
