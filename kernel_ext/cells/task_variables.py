"""The variables of a cell's task: those with which it begins and those that it returns. This runs on the worker."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ...objstore.function_pickles import with_globals

if TYPE_CHECKING:
    from .task import CellCode

HARMLESS = frozenset({int, float, complex, bool, str, bytes, bytearray, type(None), range})  # can always be pickled


class Absent:
    """Stands for a result that is not there. Reading its value raises the exception, also in a task."""

    def __init__(self, error: type[Exception], message: str) -> None:
        self.error = error
        self.message = message

    def __reduce__(self) -> tuple[Any, ...]:
        return _raise, (self.error, self.message)  # it is raised where the value is unpickled

    def __repr__(self) -> str:
        return f"<absent: {self.message}>"


def _raise(error: type[Exception], message: str) -> None:
    raise error(message)


def namespace_of(
    cell: CellCode, values: tuple[Any, ...], not_sent: dict[str, str], there: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, Any]:
    """The variables with which a cell begins; why some are missing is added to `not_sent`."""
    # Functions and classes of a module named __main__ are pickled by value, which is what their author expects.
    namespace: dict[str, Any] = {"__name__": "__main__", "__doc__": None, **there}
    bring(cell, values, not_sent, namespace)
    return namespace


def bring(cell: CellCode, values: tuple[Any, ...], not_sent: dict[str, str], namespace: dict[str, Any]) -> None:
    """Put what a cell takes along into the namespace where it will run; why some is missing is added to `not_sent`."""
    namespace.update(zip(cell.names, values, strict=True))
    for name, module in cell.modules.items():
        namespace[name] = import_module(module)
    for name, ref in cell.awaited.items():
        try:
            namespace[name] = _get(ref)
        except Exception as error:  # another task's failure: this one may not need the value at all
            not_sent[name] = f"the task that was to make it has failed ({type(error).__name__})"
    for name in cell.functions:
        namespace[name] = with_globals(namespace[name], namespace)


def _get(ref: Any) -> Any:
    from ...session.current import current

    return current().client.get(ref)


def result_of(name: str, namespace: Mapping[str, Any], cell: CellCode, not_sent: Mapping[str, str]) -> Any:
    """What the cell returns for a name: its value, or an `Absent` that says why there is none."""
    if name in namespace:
        return sendable(name, namespace[name], cell)
    why = not_sent.get(name, "")
    if name in cell.kept:
        kept = cell.kept[name]
        if not _is_ref(kept):
            return kept
        try:
            return _get(kept)
        except Exception as error:  # of the task that made the earlier value
            why = f"the task that was to make its earlier value has failed ({type(error).__name__}: {error})"
    return Absent(NameError, f"{cell.filename} has not assigned {name!r}" + (f", and {why}" if why else ""))


def sendable(what: str, value: Any, cell: CellCode) -> Any:
    """The value, or what stands for it if it cannot be pickled: an open file must not cost the other results."""
    if type(value) in HARMLESS or _is_ref(value) or _is_plain_array(value):
        return value
    from ...objstore import serialization

    try:
        serialization.measure(value)
    except Exception as reason:  # whatever the classes of the user raise
        from ...errors.serializability import inspect_serializability

        failures = inspect_serializability(value, what).failures
        culprit = str(failures[0]) if failures else f"{type(reason).__name__}: {reason}"
        return Absent(
            TypeError,
            f"{what} cannot leave the worker that ran {cell.filename}: {culprit}. The cell's "
            "other results are there; assign what can be sent.",
        )
    return value


def _is_ref(value: Any) -> bool:
    from ...refs import ObjectRef

    return isinstance(value, ObjectRef)


def _is_plain_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(value) is numpy.ndarray and value.dtype.kind in "biufcMmSU"
