"""From a space without grids to a configuration: domains are drawn, and functions called once what they read is there.

Parameters are drawn in the order in which they stand. A function that reads one without a value is put off (`Later`),
until nothing changes any more: then those that are left wait for each other in a circle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .domains import Domain, Function, Grid
from .errors import Later, SpaceError
from .tree import Path, Thawed, domains, freeze, key_of, put, thaw

if TYPE_CHECKING:
    import numpy as np

MAX_TURNS = 20  # how often a function may return another domain in its own place


class ConfigView(Mapping[str, Any]):
    """A configuration as functions of `sample_from` see it: by key and by attribute. Reading what has no value yet
    raises `Later`.
    """

    def __init__(self, node: dict[Any, Any], path: Path) -> None:
        self._node, self._path = node, path

    def __getitem__(self, key: Any) -> Any:
        if key == "config" and not self._path and key not in self._node:
            return self  # spec.config.lr, as Ray had it
        return _seen(self._node[key], (*self._path, key))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __iter__(self) -> Iterator[Any]:
        return iter(self._node)

    def __len__(self) -> int:
        return len(self._node)

    def __repr__(self) -> str:
        return repr(self._node)


class ListView(Sequence[Any]):
    """A list or a tuple, likewise."""

    def __init__(self, node: list[Any], path: Path) -> None:
        self._node, self._path = node, path

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return _seen(self._node[index], (*self._path, index % len(self)))

    def __len__(self) -> int:
        return len(self._node)

    def __repr__(self) -> str:
        return repr(self._node)


def _seen(node: Any, path: Path) -> Any:
    if isinstance(node, Domain):
        raise Later(path)
    if isinstance(node, dict):
        return ConfigView(node, path)
    if type(node) in (list, Thawed):
        return ListView(node, path) if domains(node) else freeze(node)
    return node


def _unseen(value: Any) -> Any:
    """A value that a function has returned, without our views in it."""
    if isinstance(value, ConfigView):
        return {key: _unseen(value[key]) for key in value}
    if isinstance(value, ListView):
        return list(map(_unseen, value))
    if isinstance(value, dict):
        return {key: _unseen(each) for key, each in value.items()}
    return type(value)(map(_unseen, value)) if type(value) in (list, tuple) else value


def _draw(domain: Domain, tree: dict[str, Any], path: Path, rng: np.random.Generator) -> Any:
    if not isinstance(domain, Function):
        return domain.sample(rng)
    try:
        return _unseen(domain.sample(rng, ConfigView(tree, ())))
    except Exception as error:
        known = (
            f"; the configuration has {', '.join(map(str, tree))}"
            if isinstance(error, LookupError | AttributeError)
            else ""
        )
        raise SpaceError(f"{key_of(path)}: {domain!r} failed: {type(error).__name__}: {error}{known}") from error


def _circle(waits: Mapping[Path, Path]) -> str:
    """The keys of a circle. Each path waits for a domain, at its path or below it."""
    at, way = next(iter(waits)), list[Path]()
    while at not in way:
        way.append(at)
        at = waits[at]
    return " -> ".join(key_of(path) for path in [*way[way.index(at) :], at])


def resolve(tree: dict[str, Any], rng: np.random.Generator, *, leave_grids: bool = False) -> dict[str, Any]:
    """Give each domain of a thawed tree a value, in place, and return the tree frozen.

    Parameters
    ----------
    tree : dict
        From `tree.checked` or `tree.thaw`.
    rng : numpy.random.Generator
        From which everything is drawn.
    leave_grids : bool
        Leave grids as they are, and functions that read one. Otherwise a grid is an error.

    Raises
    ------
    SpaceError
        A function failed (its own exception is the cause), functions wait for each other, or there is a grid where none
        can be.
    """
    pending, turns, is_going = domains(tree), dict[Path, int](), True
    waits: dict[Path, Path] = {}
    while is_going:
        is_going, waits = False, {}
        for path, domain in list(pending.items()):
            if isinstance(domain, Grid):
                if leave_grids:
                    continue
                raise SpaceError(f"{key_of(path)}: a grid_search cannot be gone through here; make it a choice")
            try:
                value = thaw(_draw(domain, tree, path, rng))
            except Later as later:
                waits[path] = later.path
                continue
            turns[path] = turns.get(path, 0) + 1
            if turns[path] > MAX_TURNS:
                raise SpaceError(f"{key_of(path)}: the function returns domains without end")
            del pending[path]
            put(tree, path, value)
            pending |= {(*path, *inner): leaf for inner, leaf in domains(value).items()}
            is_going = True
    if waits and not leave_grids:
        raise SpaceError(f"parameters wait for each other: {_circle(waits)}")
    return freeze(tree)
