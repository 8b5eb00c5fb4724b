"""From a space to its trials: the grid's product, several samples of it, in Ray Tune's order.

The grids are ordered by their paths as text, and the first of them changes fastest; a grid inside a value of another
one changes faster than all of those. Each sample goes through the whole product.

A trial's generator comes from the seed and the trial's number alone, so a trial's configuration is the same whatever
became of the others, and trials can be passed over without drawing them.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import count as count_from
from itertools import product
from typing import TYPE_CHECKING, Any

from ...text import closest
from .domains import Domain
from .errors import SpaceError
from .resolve import resolve
from .sameness import same
from .tree import checked, domains, freeze, key_of, put, sorted_grids, thaw

if TYPE_CHECKING:
    import numpy as np


def generator_of(seed: int, number: int) -> np.random.Generator:
    """The generator of the trial with this number."""
    import numpy as np

    return np.random.default_rng((seed, number))


def check_num_samples(num_samples: Any) -> None:
    """Refuse what is no number of samples: a whole number above 0, or -1."""
    if not isinstance(num_samples, int) or isinstance(num_samples, bool) or (num_samples < 1 and num_samples != -1):
        raise SpaceError(f"num_samples={num_samples!r}: give a whole number above 0, or -1 for trials without end")


def check_seed(seed: Any) -> int:
    """Refuse what is no seed: a whole number of 0 or more."""
    if not isinstance(seed, int):
        import numpy as np

        seed = int(seed) if isinstance(seed, np.integer) else seed
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise SpaceError(f"seed={seed!r}: give a whole number of 0 or more")
    return seed


def grid_size(node: Any) -> int:
    """In how many ways the grids of a thawed tree, or of a part of one, can be chosen."""
    return math.prod(sum(grid_size(thaw(value)) for value in grid.values) for _, grid in sorted_grids(domains(node)))


def _product(tree: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The tree with its grids chosen, once for each way to choose them."""
    grids = sorted_grids(domains(tree))
    if not grids:
        yield tree
        return
    for values in product(*(grid.values for _, grid in reversed(grids))):
        chosen = thaw(tree)
        for (path, _), value in zip(reversed(grids), values, strict=True):
            put(chosen, path, thaw(value))
        yield from _product(chosen)


def with_point(tree: dict[str, Any], point: Mapping[str, Any], path: tuple[Any, ...] = ()) -> dict[str, Any]:
    """The thawed tree with the values of a point in the place of its domains.

    Raises
    ------
    SpaceError
        The point has a key that the space has not.
    """
    found = dict(tree)
    for key, value in point.items():
        where = key_of((*path, key))
        if key not in tree:
            close = closest(key, tree)
            hint = f"did you mean {close}?" if close else f"there are {', '.join(map(str, tree))}"
            raise SpaceError(f"points_to_evaluate: the space has no {where}; {hint}")
        node = tree[key]
        if isinstance(node, dict) and isinstance(value, Mapping):
            found[key] = with_point(node, value, (*path, key))
            continue
        if not (node.contains(value) if isinstance(node, Domain) else same(freeze(node), value)):
            warnings.warn(f"points_to_evaluate: {where}={value!r} is none of {freeze(node)!r}", stacklevel=2)
        found[key] = thaw(value)
    return found


class Expansion:
    """The configurations of a space, one by one.

    Parameters
    ----------
    space : dict
    num_samples : int
        How often the grid is gone through, > 0; -1: without end.
    seed : int
        >= 0.
    points_to_evaluate : sequence of dicts
        Values for some or all parameters. Each of them takes the place of one sample, as long as there are any; where
        it says nothing of a grid, the grid is gone through.
    constant_grid_search : bool
        Draw once a sample, and not once a trial.

    Raises
    ------
    SpaceError
        The space, or a value of it, is not allowed.
    """

    def __init__(
        self,
        space: Mapping[str, Any],
        num_samples: int = 1,
        seed: int = 0,
        points_to_evaluate: Sequence[Mapping[str, Any]] = (),
        constant_grid_search: bool = False,
    ) -> None:
        check_num_samples(num_samples)
        self.seed: int = check_seed(seed)
        self.num_samples = num_samples
        self.constant_grid_search = constant_grid_search
        self.tree: dict[str, Any] = checked(space)
        self.points: list[dict[str, Any]] = [with_point(self.tree, point) for point in points_to_evaluate]
        self.number: int = 0  # of the next trial
        self._chosen: Iterator[dict[str, Any]] | None = None  # begun with the first trial: until then it can be pickled

    def count(self) -> int | None:
        """How many configurations there are in all, None: no end."""
        if self.num_samples == -1:
            return None
        rest = max(0, self.num_samples - len(self.points))
        return sum(map(grid_size, self.points)) + rest * grid_size(self.tree)

    def _all(self) -> Iterator[dict[str, Any]]:
        """The trees of all trials, with their grids chosen."""
        for n in count_from():
            if n >= len(self.points) and n >= self.num_samples != -1:
                return
            tree = self.points[n] if n < len(self.points) else self.tree
            if self.constant_grid_search:
                tree = thaw(tree)
                resolve(tree, generator_of(self.seed, self.number), leave_grids=True)
            yield from _product(tree)

    def skip(self) -> bool:
        """Pass over the next configuration; False: there is none."""
        if next(self._begun(), None) is None:
            return False
        self.number += 1
        return True

    def _begun(self) -> Iterator[dict[str, Any]]:
        if self._chosen is None:
            self._chosen = self._all()
        return self._chosen

    def __iter__(self) -> Iterator[tuple[int, dict[str, Any]]]:
        return self

    def __next__(self) -> tuple[int, dict[str, Any]]:
        chosen, number = next(self._begun()), self.number
        self.number += 1
        return number, resolve(thaw(chosen), generator_of(self.seed, number))


def expand(
    space: Mapping[str, Any], num_samples: int = 1, seed: int = 0, *, constant_grid_search: bool = False
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The configurations of a space, each with the number of its trial: see `Expansion`."""
    return Expansion(space, num_samples, seed, constant_grid_search=constant_grid_search)


def count(space: Mapping[str, Any], num_samples: int = 1) -> int | None:
    """How many trials a space makes with so many samples; None: no end."""
    return Expansion(space, num_samples).count()
