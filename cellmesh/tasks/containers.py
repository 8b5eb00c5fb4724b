"""Refs in containers, as `get`, `wait`, `cancel`, `as_completed` and `progress` take them: a ref, or lists, tuples,
dicts (their values) and sets of them, in each other too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..refs import ObjectRef
from ..submit.generator import ObjectRefGenerator

DEPTH_MAX = 50
_SETS = (set, frozenset)
_LISTS: tuple[type, ...] = (list, tuple, type({}.keys()), type({}.values()))
CONTAINERS: tuple[type, ...] = (dict, *_LISTS, *_SETS)


def refs_of(holder: Any, caller: str, *, ordered: bool = False, generators: bool = False) -> list[Any]:
    """The refs in a container, depth first; one that occurs twice twice.

    Parameters
    ----------
    holder : ObjectRef, list, tuple, dict, dict view or set
    caller : str
        For errors, the function that was given it.
    ordered : bool
        The order matters, so there must be no sets.
    generators : bool
        There may be ObjectRefGenerators among them.

    Raises
    ------
    TypeError
        Something there is no ref.
    """
    return list(_walk(holder, "", 0, caller, ordered, generators))


def _walk(holder: Any, path: str, depth: int, caller: str, ordered: bool, generators: bool) -> Iterator[Any]:
    if type(holder) is ObjectRef or (generators and isinstance(holder, ObjectRefGenerator)):
        yield holder
        return
    if not isinstance(holder, CONTAINERS):
        raise TypeError(_no_ref(holder, caller, path, ordered, generators))
    if ordered and isinstance(holder, _SETS):
        raise TypeError(
            f"{caller}() gives values in the order of their refs, and a set has none: {caller}(list(refs)), or "
            f"{caller}({{ref: ref for ref in refs}}) for a dict by ref"
        )
    if depth == DEPTH_MAX:
        raise TypeError(
            f"{caller}() takes containers in each other to a depth of {DEPTH_MAX}, and this one is deeper, or "
            "contains itself"
        )
    for key, item in holder.items() if isinstance(holder, dict) else enumerate(holder):
        if type(item) is ObjectRef:
            yield item
        else:
            yield from _walk(item, f"{path}[{key!r}]", depth + 1, caller, ordered, generators)


def every_ref(refs: Any, caller: str) -> list[ObjectRef]:
    """The refs of a container, or of any other iterable."""
    from ..submit.mapping import Results

    is_other = isinstance(refs, Iterable) and not isinstance(refs, (*CONTAINERS, ObjectRefGenerator, Results))
    return refs_of(list(refs) if is_other else refs, caller)


def filled(holder: Any, values: Iterator[Any]) -> Any:
    """The same container, with the next of the values in place of each ref. Dict views become lists."""
    if isinstance(holder, dict):
        return {key: filled(item, values) for key, item in holder.items()}
    if not isinstance(holder, _LISTS):
        return next(values)
    items = [filled(item, values) for item in holder]
    if not isinstance(holder, tuple):
        return items
    make = getattr(type(holder), "_make", tuple)  # of a named tuple
    return make(items)


def _no_ref(value: Any, caller: str, path: str, ordered: bool, generators: bool) -> str:
    if isinstance(value, ObjectRefGenerator) and not generators:
        hint = (
            ""
            if path
            else f": pass list(generator), which waits for all of them, or iterate over it without {caller}()"
        )
        return (
            f"{caller}() needs refs that are there already, and an ObjectRefGenerator hands them out one by one{hint}"
        )
    text = repr(value)
    shown = f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"
    containers = "lists, tuples and dicts" if ordered else "lists, tuples, dicts and sets"
    return (
        f"{caller}() takes an ObjectRef (what f.remote() and put() return), or {containers} of them, "
        f"{f'and refs{path} is' if path else 'not'} {shown}{_remedy(value)}"
    )


def _remedy(value: Any) -> str:
    """What to write in place of what gives refs or values itself."""
    from ..submit.actor import ActorHandle, ActorMethod
    from ..submit.mapping import Results
    from ..submit.remote_function import RemoteFunction

    if isinstance(value, RemoteFunction):
        return f": {value.__name__}.remote(...) returns one"
    if isinstance(value, ActorHandle | ActorMethod):
        return ": calls of its methods return refs, handle.method.remote(...)"
    if isinstance(value, Results):
        return ": a map gives values, list(results) all of them; refs are [f.remote(x) for x in inputs]"
    return getattr(type(value), "_cellmesh_remedy", "")  # of classes above this module
