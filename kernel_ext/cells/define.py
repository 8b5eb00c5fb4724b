"""A `%%remote` cell that only defines: its functions become remote functions, its classes actor classes."""

from __future__ import annotations

import argparse
import dataclasses
import enum
import inspect
import types
from typing import TYPE_CHECKING, Any

from ...submit.flags import flag_of
from .analysis.read import CellError, Definitions
from .options import made_remote, options_for, refuse_what_nothing_takes
from .task import CellCode, execute

if TYPE_CHECKING:
    from ...submit.options import Kind

ONLY_BODIES = ("inputs", "wait", "progress")  # flags that definitions have no use for


def define(cell: Definitions, code: CellCode, options: argparse.Namespace, namespace: dict[str, Any]) -> None:
    """Run a cell of definitions in the notebook's namespace, then make what it has defined remote.

    Raises
    ------
    CellError
        An option does not go with what the cell defines.
    """
    __tracebackhide__ = True
    if given := [name for name in ONLY_BODIES if getattr(options, name) not in (None, False)]:
        raise CellError(f"{flag_of(given[0])} is for cells that become a task, and this one only defines")
    if isinstance(options.returns, list):
        raise CellError("--returns in a cell of definitions is a number: how many values a function returns")
    if options.num_returns is None:
        options.num_returns = options.returns
    kinds: dict[Kind, tuple[str, ...]] = {"task": cell.functions, "actor": cell.classes}
    refuse_what_nothing_takes(options, [kind for kind, defined in kinds.items() if defined])
    n_defined = len(cell.functions) + len(cell.classes)
    if options.name and n_defined != 1:
        raise CellError(f"--name names one thing, and the cell defines {n_defined}")
    before = {name: namespace.get(name) for name in (*cell.functions, *cell.classes)}
    execute(cell.source, namespace, code.filename, code.flags)
    for name, old in before.items():
        value = namespace.get(name)
        if value is not None and value is not old:  # a definition in a branch may not have been reached
            namespace[name] = _made_remote(name, value, options)


def _made_remote(name: str, value: Any, options: argparse.Namespace) -> Any:
    """The remote twin of a function or class; the thing itself, and a line that says why, where there is none."""
    if why := _stays_local(value):
        if why != "remote already":
            print(f"{name} stays as it is: {why}.")
        return value
    return made_remote(value, options_for(options, "actor" if inspect.isclass(value) else "task"))


def _stays_local(value: Any) -> str:
    """Why a definition is not made remote; "" if it is."""
    if hasattr(type(value), "__cellmesh_code__"):
        return "remote already"
    if inspect.isclass(value):
        if issubclass(value, BaseException):
            return "an exception class"
        if issubclass(value, enum.Enum | tuple | dict):
            return "a class of values"
        if getattr(value, "_is_protocol", False):
            return "a protocol"
        if dataclasses.is_dataclass(value) and not _public_methods(value):
            return "a record without methods"
        return ""
    if not isinstance(value, types.FunctionType):
        return f"its decorator has made a {type(value).__name__} of it"
    if inspect.iscoroutinefunction(value):
        return "an async function; async methods of an actor class run remotely"
    return ""


def _public_methods(cls: type) -> list[str]:
    return [
        name
        for name, member in vars(cls).items()
        if not name.startswith("_") and callable(getattr(member, "__func__", member))
    ]
