"""What in this process keeps a value of the store alive: variables, outputs, attributes, closures, the traceback that
was shown last, cards, and the inputs of calls that may be tried again.

Only looks: no code of the user's runs, so containers and objects are opened only where Python itself says what is in
them.
"""

from __future__ import annotations

import sys
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from types import FunctionType
from typing import Any

from .. import front_end
from ..objstore._core import private_pages
from ..refs import ObjectRef
from ..session.current import current_or_none

N_VISITED_MAX = 200_000  # things looked at; a table of a million cells is not searched to its end
DEPTH_MAX = 5

Named = tuple[str, Any]
_CONTAINERS, _VALUES = (list, tuple, set, frozenset, dict), type({}.values())


class Places:
    """Finds the object among whose bytes an address of this process lies.

    Parameters
    ----------
    objects : list of dict
        As `Client.objects` returns them.
    """

    def __init__(self, objects: list[dict[str, Any]]) -> None:
        self._objects = sorted((o["address"], o["size"], o["id"]) for o in objects if o["address"])
        self._private = sorted(private_pages())

    def at(self, address: int) -> str:
        """The object's id, "" if there is none."""
        if found := bisect(self._private, (address, sys.maxsize)):
            begin, size, shown = self._private[found - 1]
            address = address - begin + shown if address - begin < size else address
        start, size, name = (
            self._objects[found - 1] if (found := bisect(self._objects, (address, sys.maxsize))) else (0, 0, "")
        )
        return name if address - start < size else ""


def holders(places: Places, n_max: int = N_VISITED_MAX) -> dict[str, list[str]]:
    """By an object's id: who holds a ref to it, or an array, Arrow or pandas data fetched from it, in words."""
    names: dict[str, list[str]] = {}
    for name, value in walk(_roots(), _inside, DEPTH_MAX, n_max):
        for found in [value.hex()] if issubclass(type(value), ObjectRef) else map(places.at, _addresses(value)):
            if found and name not in names.setdefault(found, []):
                names[found].append(name)
    return names


def walk(
    roots: Iterable[Named], inside: Callable[[str, Any], Iterator[Named]], depth_max: int, n_max: int
) -> Iterator[Named]:
    """Each root and what is in it, depth first, `n_max` things at most; below one root nothing is opened twice.

    Parameters
    ----------
    roots : iterable of (name, value)
    inside : callable
        ``inside(name, value)`` yields what a value has in it, and what that is called.
    depth_max : int
        Things that deep below a root are not opened.
    n_max : int
        Things, over all roots.
    """
    n_visited = 0
    for root in roots:
        stack, seen = [(*root, 0)], set[int]()
        while stack and n_visited < n_max:
            name, value, depth = stack.pop()
            n_visited += 1
            yield name, value
            if depth < depth_max and id(value) not in seen:
                found = list(inside(name, value))
                if found:
                    seen.add(id(value))
                stack.extend((*item, depth + 1) for item in reversed(found))


def _roots() -> Iterator[Named]:
    main = vars(sys.modules["__main__"])
    outputs = main.get("Out")
    # The shell's own names, such as `_`, come last: a value is called by its first name.
    for name, value in sorted(main.items(), key=lambda item: item[0].startswith("_")):
        if value is not outputs or not isinstance(value, dict):
            yield name, value
    if isinstance(outputs, dict):
        yield from ((f"Out[{number}]", value) for number, value in list(outputs.items()))
    error, seen = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None), set[int]()
    while isinstance(error, BaseException) and id(error) not in seen:
        seen.add(id(error))
        yield from _in_frames(error, main)
        error = error.__cause__ or error.__context__
    yield from front_end.current.held()
    session = current_or_none()
    if session is not None and session.kept_calls is not None:
        yield from session.kept_calls.held()


def _in_frames(error: BaseException, main: dict[str, Any]) -> Iterator[Named]:
    """The error by its class: it may be cells ago that it was shown."""
    entry, whose = error.__traceback__, f"in the traceback of the last {type(error).__name__}"
    while entry is not None:
        code, variables = entry.tb_frame.f_code, entry.tb_frame.f_locals
        if variables is not main:
            yield from ((f"{name} of {code.co_name} {whose}", value) for name, value in list(variables.items()))
        entry = entry.tb_next


def in_containers(name: str, value: Any) -> Iterator[Named]:
    """What is in a list, tuple, set or dict. Exact types only: the iteration of others may do anything."""
    kind = type(value)
    if kind in _CONTAINERS:
        yield from ((name, item) for item in list(islice(value.values() if kind is dict else value, N_VISITED_MAX)))


def _inside(name: str, value: Any) -> Iterator[Named]:
    kind = type(value)
    yield from in_containers(name, list(islice(value, N_VISITED_MAX)) if kind is _VALUES else value)
    if kind.__dict__.get("_cellmesh_is_function"):  # a RemoteFunction
        yield from _inside(name, value.__cellmesh_code__)
    elif kind is FunctionType:
        for cell in value.__closure__ or ():
            try:
                yield f"the closure of {value.__name__}", cell.cell_contents
            except ValueError:  # empty: not assigned yet
                continue
    elif kind.__module__ == "__main__":  # an object of a class of the notebook's own
        try:
            attributes = object.__getattribute__(value, "__dict__")
        except AttributeError:  # it has slots
            return
        yield from ((f"{name}.{attribute}", item) for attribute, item in list(attributes.items()))


def _addresses(value: Any) -> Iterator[int]:
    """Where the bytes lie that an array, a memoryview, Arrow or pandas data shows."""
    kind = type(value)  # isinstance would ask the value, too
    numpy, pandas, arrow = (sys.modules.get(name) for name in ("numpy", "pandas", "pyarrow"))
    if numpy and issubclass(kind, memoryview):
        try:
            yield from _addresses(numpy.asarray(value))
        except ValueError:  # it has been released
            return
    elif numpy and issubclass(kind, numpy.ndarray):
        if value.nbytes:
            yield value.__array_interface__["data"][0]
    elif pandas and issubclass(kind, pandas.DataFrame | pandas.Series):
        for block in value._mgr.arrays:
            for part in (block, *(getattr(block, name, None) for name in ("_ndarray", "_data", "_pa_array"))):
                yield from _addresses(part)
    elif arrow and issubclass(kind, arrow.Table | arrow.RecordBatch):
        for column in value.columns:
            yield from _addresses(column)
    elif arrow and issubclass(kind, arrow.ChunkedArray | arrow.Array):
        for chunk in value.chunks if issubclass(kind, arrow.ChunkedArray) else (value,):
            yield from (buffer.address for buffer in chunk.buffers() if buffer is not None)
