"""Spaces and configurations as trees: dicts, lists and tuples, with domains and values as leaves. Pure.

A path leads from the root to a node, by keys and indices; people read it as `model/width`, or `layers/0`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from .domains import Choice, Domain, Grid, grid_search
from .errors import SpaceError

Path = tuple[Any, ...]


class Thawed(list[Any]):
    """A tuple while its parts are put in."""


def key_of(path: Path) -> str:
    return "/".join(map(str, path))


def children(node: Any) -> Iterator[tuple[Any, Any]]:
    """Keys or indices of a node, and what is there; nothing for a leaf."""
    if isinstance(node, Mapping):
        yield from node.items()
    elif type(node) in (list, tuple, Thawed):
        yield from enumerate(node)


def thaw(node: Any) -> Any:
    """A copy whose containers can be changed. What says {"grid_search": [...]}, as in JSON, is a grid."""
    if isinstance(node, Mapping):
        if len(node) == 1 and "grid_search" in node:
            return grid_search(node["grid_search"])
        return {key: thaw(value) for key, value in node.items()}
    if type(node) is list:
        return [thaw(value) for value in node]
    return Thawed(map(thaw, node)) if type(node) in (tuple, Thawed) else node


def freeze(node: Any) -> Any:
    """A copy in the types that the user gave."""
    if isinstance(node, dict):
        return {key: freeze(value) for key, value in node.items()}
    if type(node) is list:
        return [freeze(value) for value in node]
    return tuple(map(freeze, node)) if type(node) is Thawed else node


def put(tree: Any, path: Path, value: Any) -> None:
    """Put a value at a path of a thawed tree."""
    for key in path[:-1]:
        tree = tree[key]
    tree[path[-1]] = value


def leaves(node: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Domains and values by their paths, in order; what is inside options of domains is not looked at."""
    inner = () if isinstance(node, Domain) else tuple(children(node))
    if not inner:
        yield path, node
    for key, value in inner:
        yield from leaves(value, (*path, key))


def domains(node: Any) -> dict[Path, Domain]:
    """The domains of a thawed tree by their paths, in order."""
    return {path: leaf for path, leaf in leaves(node) if isinstance(leaf, Domain)}


def sorted_grids(found: Mapping[Path, Domain]) -> list[tuple[Path, Grid]]:
    """Grids in the order of their paths: indices and other numbers by size, everything else as text."""

    def order(path: Path) -> list[tuple[Any, ...]]:
        return [(0, part) if isinstance(part, (int, float)) else (1, str(part)) for part in path]

    return sorted(((path, d) for path, d in found.items() if isinstance(d, Grid)), key=lambda item: order(item[0]))


def checked_dict(space: Any) -> Mapping[str, Any]:
    """The space; `SpaceError` if it is no dict."""
    if not isinstance(space, Mapping):
        raise SpaceError(f"a search space is a dict of parameters, not {type(space).__name__}")
    return space


def checked(space: Any) -> dict[str, Any]:
    """The space, thawed, once everything in it is allowed.

    Raises
    ------
    SpaceError
        It is no dict, a function stands where a value is expected, or a grid where it cannot be counted.
    """
    tree = thaw(checked_dict(space))
    for path, leaf in leaves(tree):
        if isinstance(leaf, Domain):
            _check_options(leaf, path)
        elif inspect.isroutine(leaf) or isinstance(leaf, functools.partial):
            raise SpaceError(
                f"{key_of(path)}: a function is no value. Write sample_from(...) around it if it computes the value, "
                "choice([...]) if it is the value"
            )
    return tree


def _check_options(domain: Domain, path: Path, inside_choice: bool = False) -> None:
    if isinstance(domain, Grid) and inside_choice:
        raise SpaceError(
            f"{key_of(path)}: a grid_search inside an option of choice cannot be counted. Make the choice a "
            "grid_search, or the grid a choice"
        )
    options = domain.options if isinstance(domain, Choice) else domain.values if isinstance(domain, Grid) else ()
    for option in options:
        for inner, leaf in leaves(thaw(option), path):
            if isinstance(leaf, Domain):
                _check_options(leaf, inner, inside_choice or isinstance(domain, Choice))
