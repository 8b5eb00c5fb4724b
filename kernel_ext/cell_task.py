"""The task that a `%%remote` cell becomes: this runs on the worker.

It imports nothing of the notebook's side. A worker that runs a cell loads this module and what the cell itself imports.
"""
from __future__ import annotations

import __future__
import ast
import asyncio
import copy
import inspect
import linecache
import sys
import types
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType
from typing import Any

HARMLESS = frozenset({int, float, complex, bool, str, bytes, bytearray, type(None), range})  # can always be pickled


# Compiler flags of `from __future__` imports, all together.
FUTURE_FLAGS = sum({getattr(__future__, name).compiler_flag for name in __future__.all_feature_names})


@dataclass(frozen=True)
class CellCode:
    """A cell on its way to a worker.

    Attributes
    ----------
    text : str
        The cell as the notebook shows it, for tracebacks.
    source : str
        Plain Python with the same line numbers.
    filename : str
        What the code is compiled with; the label by which its author knows the cell.
    flags : int
        Compiler flags in force in the notebook.
    names : tuple of str
        Names of the values that are sent as arguments of their own, in that order.
    modules : dict of str to str
        Modules by name: variable -> module.
    functions : frozenset of str
        Those of `names` that are functions of the notebook, sent without their globals.
    awaited : dict of str to ObjectRef
        Futures of names that the cell may do without: the cell waits for them, and goes on if they have failed.
    kept : dict of str to Any
        What the notebook holds for names that the cell may leave alone: a value, or a future that is fetched only then.
    changes : tuple of str
        Names whose values the cell changes in place. What comes from the store is read-only, so it gets copies.
    not_sent : dict of str to str
        Why a name is not there although the notebook has it.
    lives_there : tuple of str
        In an actor's process: names whose values earlier cells have left there.
    writes : tuple of str
        What to return.
    has_last_expression : bool
        Whether to return the value of the last expression, too.
    keep : bool
        Whether the worker keeps the frames if the cell fails.
    """

    text: str
    source: str
    filename: str
    flags: int = 0
    names: tuple[str, ...] = ()
    modules: dict[str, str] = field(default_factory=dict)
    functions: frozenset[str] = frozenset()
    awaited: dict[str, Any] = field(default_factory=dict)
    kept: dict[str, Any] = field(default_factory=dict)
    changes: tuple[str, ...] = ()
    not_sent: dict[str, str] = field(default_factory=dict)
    lives_there: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    has_last_expression: bool = False
    keep: bool = False


class Absent:
    """Stands for a result that is not there. Whoever asks for its value, here or in a task, gets the exception."""

    def __init__(self, error: type[Exception], message: str) -> None:
        self.error = error
        self.message = message

    def __reduce__(self) -> tuple[Any, ...]:
        return _raise, (self.error, self.message)  # it is raised where the value is unpickled

    def __repr__(self) -> str:
        return f"<absent: {self.message}>"


def _raise(error: type[Exception], message: str) -> None:
    raise error(message)


def run_cell(cell: CellCode, *values: Any) -> Any:
    """Run a cell and return what it assigns.

    Parameters
    ----------
    cell : CellCode
    *values
        Of `cell.names`.

    Returns
    -------
    tuple
        The values of `cell.writes` in their order, and that of the last expression (None without one). The latter
        alone if there are no writes. A name that the cell has not assigned is `Absent`, and so is what cannot leave the
        process.
    """
    not_sent = dict(cell.not_sent)
    return _run(cell, _namespace(cell, values, not_sent), not_sent)


# What the cells that were run in this process's actor have left behind: `%%remote --on`.
_left_here: dict[str, Any] = {}


def run_cell_in_actor(instance: object, cell: CellCode, *values: Any) -> Any:
    """As `run_cell`, in the process of an actor: `self` is its instance, and what the cell assigns stays there too."""
    not_sent = dict(cell.not_sent)
    for name in cell.lives_there:
        if name not in _left_here:
            not_sent[name] = "it lived in the actor's process, which has been started anew"
    namespace = _namespace(cell, values, not_sent, {**_left_here, "self": instance})
    before = dict(namespace)
    try:
        return _run(cell, namespace, not_sent)
    finally:
        _left_here.update((name, value) for name, value in namespace.items()
                          if not name.startswith("__") and (name not in before or before[name] is not value))


def _run(cell: CellCode, namespace: dict[str, Any], not_sent: Mapping[str, str]) -> Any:
    show_source(cell.filename, cell.text)
    try:
        last = execute(cell.source, namespace, cell.filename, cell.flags, wants_value=cell.has_last_expression)
    except Exception as error:
        if isinstance(error, NameError) and error.name in not_sent:
            error.add_note(f"The notebook has {error.name!r}, but {not_sent[error.name]}.")
        if cell.keep:
            from .. import surroundings
            surroundings.kept_error = error
        raise
    finally:
        _show_figures()
    last = _sendable("the last expression", last, cell)
    return (*(_result(name, namespace, cell, not_sent) for name in cell.writes), last) if cell.writes else last


def _show_figures() -> None:
    """Show and close what pyplot has open, as a notebook does at the end of a cell, if plots go to a notebook."""
    inline = sys.modules.get("matplotlib_inline.backend_inline")
    if inline is not None and inline.Gcf.get_all_fig_managers():
        inline.show(close=True)


def execute(source: str, namespace: dict[str, Any], filename: str, flags: int = 0, *, wants_value: bool = False) -> Any:
    """Run source in a namespace, top-level `await` included.

    Returns
    -------
    The value of the last statement, an expression, if it is wanted; otherwise None.
    """
    flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # the notebook has shown them
        tree = compile(source, filename, "exec", flags | ast.PyCF_ONLY_AST, dont_inherit=True)
        last = ast.Expression(tree.body.pop().value) if wants_value else None
        steps = [compile(tree, filename, "exec", flags, dont_inherit=True)]
        if last is not None:
            # A future import counts for the whole cell.
            steps.append(compile(last, filename, "eval", flags | steps[0].co_flags & FUTURE_FLAGS, dont_inherit=True))
    if any(step.co_flags & inspect.CO_COROUTINE for step in steps):
        if asyncio._get_running_loop() is not None:
            raise RuntimeError("`await` at the top of a cell is not possible in an async actor, whose own event loop "
                               "runs the cell: begin a task with asyncio.ensure_future(...), or call a method of the actor")
        return asyncio.run(_execute_async(steps, namespace))
    for step in steps:
        value = eval(step, namespace)
    return value


async def _execute_async(steps: list[types.CodeType], namespace: dict[str, Any]) -> Any:
    for step in steps:
        value = eval(step, namespace)
        if step.co_flags & inspect.CO_COROUTINE:
            value = await value
    return value


def show_source(filename: str, text: str) -> None:
    """Let tracebacks of this process show the cell's lines."""
    # A modification time of None keeps `linecache` from looking for a file.
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)


# ---- the namespace

def _namespace(cell: CellCode, values: tuple[Any, ...], not_sent: dict[str, str],
               there: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    # Functions and classes of a module named __main__ are pickled by value, which is what their author expects.
    namespace: dict[str, Any] = {"__name__": "__main__", "__doc__": None, **there}
    namespace.update(zip(cell.names, values, strict=True))
    for name, module in cell.modules.items():
        namespace[name] = import_module(module)
    for name, ref in cell.awaited.items():
        try:
            namespace[name] = _get(ref)
        except Exception as error:  # of another task: this one may not need the value at all
            not_sent[name] = f"the task that was to make it has failed ({type(error).__name__})"
    for name in cell.changes:
        if name in namespace and namespace[name] is not there.get(name):
            namespace[name] = _of_its_own(namespace[name])
    for name in cell.functions:
        namespace[name] = with_globals(namespace[name], namespace)
    return namespace


def with_globals(function: types.FunctionType, namespace: dict[str, Any]) -> types.FunctionType:
    """The same function, looking up its globals in another namespace."""
    new = types.FunctionType(function.__code__, namespace, function.__name__, function.__defaults__,
                             function.__closure__)
    new.__kwdefaults__ = function.__kwdefaults__
    new.__annotations__ = function.__annotations__
    new.__dict__.update(function.__dict__)
    new.__qualname__, new.__module__, new.__doc__ = function.__qualname__, function.__module__, function.__doc__
    return new


def _of_its_own(value: Any) -> Any:
    """A copy that may be written to, where the value may hold arrays that lie in the store."""
    parts = value.values() if type(value) is dict else value if type(value) in (list, tuple, set) else [value]
    if all(type(part) in HARMLESS for part in parts):
        return value
    try:
        return copy.deepcopy(value)
    except Exception:  # whatever the classes of the user raise: what cannot be copied is what it was
        return value


def _get(ref: Any) -> Any:
    from ..session import current
    return current().client.get(ref)


# ---- the results

def _result(name: str, namespace: Mapping[str, Any], cell: CellCode, not_sent: Mapping[str, str]) -> Any:
    if name in namespace:
        return _sendable(name, namespace[name], cell)
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


def _sendable(what: str, value: Any, cell: CellCode) -> Any:
    """The value, or what stands for it if it cannot be pickled: an open file must not cost the other results."""
    if type(value) in HARMLESS or _is_ref(value) or _is_plain_array(value):
        return value
    try:
        measure(value)
    except Exception as reason:  # whatever the classes of the user raise
        from ..serializability import inspect_serializability
        failures = inspect_serializability(value, what).failures
        culprit = str(failures[0]) if failures else f"{type(reason).__name__}: {reason}"
        return Absent(TypeError, f"{what} cannot leave the worker that ran {cell.filename}: {culprit}. The cell's "
                                 "other results are there; assign what can be sent.")
    return value


def _is_ref(value: Any) -> bool:
    from ..refs import ObjectRef
    return isinstance(value, ObjectRef)


def _is_plain_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(value) is numpy.ndarray and value.dtype.kind in "biufcMmSU"


def measure(value: Any, update: Callable[[Any], None] = lambda chunk: None) -> int:
    """How many bytes a value has when it is pickled; nothing is kept of them.

    Parameters
    ----------
    value : object
    update : callable
        Is shown every piece of the pickle, large buffers where they lie.

    Raises
    ------
    Exception
        Whatever pickling raises.
    """
    from ..objstore import serialization
    ref_type, size = serialization.ref_type(), 0

    class Sink:
        def write(self, chunk: Any) -> int:
            nonlocal size
            size += len(chunk)
            update(chunk)
            return len(chunk)

    class Pickler(serialization.Pickler):
        def reducer_override(self, obj: Any) -> Any:
            # Refs travel beside the pickle, and pickle must not touch them.
            return (str, (obj.hex(),)) if type(obj) is ref_type else super().reducer_override(obj)

    def aside(buffer: Any) -> bool:
        try:
            raw = buffer.raw()
        except BufferError:  # not contiguous: pickle copies it into the stream
            return True
        nonlocal size
        size += raw.nbytes
        update(raw)
        return False

    Pickler(Sink(), aside).dump(value)
    return size
