"""The task that a `%%remote` cell becomes. This module runs on the worker.

It imports nothing of the notebook's side. A worker that runs a cell loads this module, `task_variables`, and what the
cell itself imports.
"""

from __future__ import annotations
import __future__

import ast
import asyncio
import inspect
import linecache
import sys
import types
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .task_variables import namespace_of, result_of, sendable

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
    run : str
        Of all runs of cells this one.
    defines : tuple of str
        Functions and classes that the notebook defines as well.
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
    not_sent: dict[str, str] = field(default_factory=dict)
    lives_there: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    has_last_expression: bool = False
    keep: bool = False
    run: str = ""
    defines: tuple[str, ...] = ()


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
    _forget_figures()
    not_sent = dict(cell.not_sent)
    return run_in(cell, namespace_of(cell, values, not_sent), not_sent)


# What the cells that were run in this process's actor have left behind: `%%remote --on`.
_left_here: dict[str, Any] = {}


def run_cell_in_actor(instance: object, cell: CellCode, *values: Any) -> Any:
    """As `run_cell`, in the process of an actor: `self` is its instance, and what the cell assigns stays there too."""
    not_sent = dict(cell.not_sent)
    for name in cell.lives_there:
        if name not in _left_here:
            not_sent[name] = "it lived in the actor's process, which has been restarted"
    namespace = namespace_of(cell, values, not_sent, {**_left_here, "self": instance})
    before = dict(namespace)
    try:
        return run_in(cell, namespace, not_sent)
    finally:
        _left_here.update(
            (name, value)
            for name, value in namespace.items()
            if not name.startswith("__") and (name not in before or before[name] is not value)
        )


def run_in(
    cell: CellCode,
    namespace: dict[str, Any],
    not_sent: Mapping[str, str],
    show: Callable[[Any], None] | None = None,
) -> Any:
    """Run a cell in a namespace; see `run_cell`. `show`: shows the value of the last expression here."""
    show_source(cell.filename, cell.text)
    try:
        last = execute(cell.source, namespace, cell.filename, cell.flags, wants_value=cell.has_last_expression)
        if show is not None:
            show(last)
            last = None
    except SystemExit as error:  # as in the notebook it ends the cell, rather than a process
        code = "" if error.code is None else repr(error.code)
        raise RuntimeError(
            f"the cell has ended itself by sys.exit({code}). Its worker goes on; what the cell has assigned until "
            "then is not sent"
        ).with_traceback(error.__traceback__) from None
    except Exception as error:
        if isinstance(error, NameError) and error.name is not None and error.name in not_sent:
            error.add_note(f"The notebook has {error.name!r}, but {not_sent[error.name]}.")
        if cell.keep:
            from ...environment import driver_env

            driver_env.keep(error)
        raise
    finally:
        for name in cell.defines:
            track_class(cell, name, namespace)
        _show_figures()
    last = sendable("the last expression", last, cell)
    return (*(result_of(name, namespace, cell, not_sent) for name in cell.writes), last) if cell.writes else last


def track_class(cell: CellCode, name: str, namespace: Mapping[str, Any]) -> None:
    """Make a class that a cell defines the same in the notebook and in the task.

    Objects of it that come back are then of the notebook's class.
    """
    made = namespace.get(name)
    if isinstance(made, type):
        from cloudpickle.cloudpickle import _lookup_class_or_track

        _lookup_class_or_track(f"{cell.run} {name}", made)


def _forget_figures() -> None:
    """Figures that earlier tasks of this process have left open in pyplot are not this cell's."""
    inline = sys.modules.get("matplotlib_inline.backend_inline")
    if inline is not None:
        inline.Gcf.destroy_all()


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
            raise RuntimeError(
                "`await` at the top of a cell is not possible in an async actor, whose own event loop "
                "runs the cell: begin a task with asyncio.ensure_future(...), or call a method of the actor"
            )
        return asyncio.run(_execute_async(steps, namespace))
    value = None
    for step in steps:
        value = eval(step, namespace)
    return value


async def _execute_async(steps: list[types.CodeType], namespace: dict[str, Any]) -> Any:
    value = None
    for step in steps:
        value = eval(step, namespace)
        if step.co_flags & inspect.CO_COROUTINE:
            value = await value
    return value


RUNNERS = frozenset({execute.__code__, _execute_async.__code__})  # what calls the code of a cell


def show_source(filename: str, text: str) -> None:
    """Let tracebacks of this process show the cell's lines."""
    # A modification time of None keeps `linecache` from looking for a file.
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
