"""What `%%remote` does: a cell becomes remote functions and actor classes, or a task with names that are futures."""
from __future__ import annotations

import argparse
import dataclasses
import enum
import inspect
import sys
import types
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from . import actor_cell, cell_events
from .capture import Captured, Shipper, capture
from .cell_failure import tell_failure
from .cell_registry import Cell, registry
from .cell_task import FUTURE_FLAGS, CellCode, execute, run_cell, show_source
from .cell_title import title_of
from .cells import Body, CellError, Definitions, read_cell

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

# Flags that one kind of cell has no use for.
ONLY_BODIES = ("inputs", "wait", "progress", "keep")


N_LOOKED_AT = 10_000  # tasks, for those of an earlier run of the cell


class RemoteCells:
    """Runs the `%%remote` cells of one notebook."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell
        self.shipper = Shipper()
        self.left_in_actors = actor_cell.LeftInActors()

    def run(self, text: str, head: list[str], options: argparse.Namespace) -> Any:
        """Run a cell.

        Parameters
        ----------
        text : str
            What stands below the ``%%remote`` line.
        head : list of str
            The lines above it, that line included.
        options : argparse.Namespace
            As `arguments.REMOTE` parses them.

        Returns
        -------
        ObjectRef or None
            The future of the cell's last expression.

        Raises
        ------
        CellError
            The cell cannot be run, or an option is wrong.
        """
        __tracebackhide__ = True
        run = registry.current
        cell, code = self._read(text, head, run)
        if isinstance(cell, Definitions) and options.on is None:
            return self.define(cell, code, options)
        if isinstance(cell, Definitions):
            cell = read_cell(text, n_lines_before=len(head), filename=code.filename, flags=code.flags, is_body=True)
        code = dataclasses.replace(code, changes=cell.changes, has_last_expression=cell.has_last_expression,
                                   keep=options.keep)
        return self.submit(cell, code, run, options)

    def start_actor(self, text: str, head: list[str], options: argparse.Namespace) -> None:
        """Run an `%%actor` cell: parameters as those of `run`, options as `arguments.ACTOR` parses them."""
        __tracebackhide__ = True
        cell, code = self._read(text, head, registry.current)
        actor_cell.start(cell, code, self.shell.user_ns, registry.current, options)

    def _read(self, text: str, head: list[str], run: Cell) -> tuple[Definitions | Body, CellCode]:
        filename = _filename(run)
        whole = "".join(f"{line}\n" for line in head) + text
        flags = self.shell.compile.flags & FUTURE_FLAGS
        show_source(filename, whole)  # before anything can fail: the error shows the line
        try:
            cell = read_cell(text, n_lines_before=len(head), filename=filename, flags=flags)
        except SyntaxError as error:
            raise CellError(str(error), shown_as=error) from None
        return cell, CellCode(text=whole, source=cell.source, filename=filename, flags=flags)

    # ---- definitions

    def define(self, cell: Definitions, code: CellCode, options: argparse.Namespace) -> None:
        """Run a cell of definitions here, then make what it has defined remote."""
        __tracebackhide__ = True
        if given := [name for name in ONLY_BODIES if getattr(options, name) not in (None, False)]:
            raise CellError(f"--{given[0]} is for cells that become a task, and this one only defines")
        if isinstance(options.returns, list):
            raise CellError("--returns in a cell of definitions is a number: how many values a function returns")
        n_defined = len(cell.functions) + len(cell.classes)
        if options.name and n_defined != 1:
            raise CellError(f"--name names one thing, and the cell defines {n_defined}")
        namespace = self.shell.user_ns
        before = {name: namespace.get(name) for name in (*cell.functions, *cell.classes)}
        execute(cell.source, namespace, code.filename, code.flags)
        for name, old in before.items():
            value = namespace.get(name)
            if value is not None and value is not old:  # a definition in a branch may not have been reached
                namespace[name] = _made_remote(name, value, options)

    # ---- bodies

    def submit(self, body: Body, code: CellCode, run: Cell, options: argparse.Namespace) -> Any:
        """Submit a cell as a task; bind what it assigns to futures."""
        __tracebackhide__ = True
        from ..session import current
        returns = _checked_returns(options.returns, body)
        writes = tuple(body.writes if returns is None else returns)
        name = options.name or title_of(body.source, writes) or run.label or "cell"
        registry.name_body(run.number, name)  # before it can print
        task_options = _placement(options) | _options(
            name=name, max_retries=options.retries, retry_exceptions=options.retry_exceptions or None)
        namespace = self.shell.user_ns
        session = current()
        cell_events.attach(session)
        actor = None if options.on is None else actor_cell.find(options.on, namespace, options)
        elsewhere = self.left_in_actors.names(actor, namespace) if actor is not None else frozenset()
        captured = capture(body, namespace, self.shipper, session.client, inputs=options.inputs,
                           own=self.shell.user_ns_hidden, elsewhere=elsewhere)
        code = dataclasses.replace(code, writes=writes, **_for_code(captured, writes))
        if actor is None:
            refs = _submit(code, captured.values, task_options)
        else:
            code = dataclasses.replace(code, lives_there=tuple(sorted(elsewhere - {"self"})))
            refs = actor_cell.submit(actor, code, captured.values, name)
            self.left_in_actors.add(actor, dict(zip(writes, refs, strict=False)))
        self._say_what_goes_on(run)
        namespace.update(zip(writes, refs, strict=False))
        for deleted in body.deletes:
            namespace.pop(deleted, None)
        self._import(body.import_statements)
        for changed in body.mutates:
            if changed not in writes and changed not in elsewhere:
                print(f"{changed} is changed in place by this cell. The change stays on the worker; to get it back, "
                      f"assign {changed}, or name it in --returns.")
        if options.progress:
            from .cell_progress import show_progress
            show_progress(session, refs[-1], run, name)
        if options.wait:
            session.client.get(refs[-1])
        elif not body.has_last_expression:  # otherwise the card of the result tells
            tell_failure(session, refs[-1], run, name)
        return refs[-1] if body.has_last_expression else None

    def _import(self, statements: Iterable[str]) -> None:
        """What a cell imports at its top is there in the notebook afterwards, as with any cell."""
        for statement in statements:
            try:
                exec(statement, self.shell.user_ns)
            except Exception as error:  # whatever a module does when it is imported; the task goes on
                print(f"{statement}: not possible in the notebook itself ({type(error).__name__}: {error})")

    def _say_what_goes_on(self, run: Cell) -> None:
        """Tasks of an earlier run of this cell may go on, and their futures are about to be replaced."""
        earlier = [registry.cell(number) for number in cell_events.n_unfinished(N_LOOKED_AT)]
        earlier = [cell for cell in earlier if cell.cell_id and cell.cell_id == run.cell_id and cell != run]
        if earlier:
            label = max(earlier, key=lambda cell: cell.number).label
            print(f"The earlier run of this cell, {label}, goes on; %cancel {label.strip('In []')} ends it.")


def _filename(run: Cell) -> str:
    """What code of the cell is compiled with: tracebacks name the cell as its author knows it."""
    if run.label.strip("In []"):
        return f"Cell {run.label.replace(' ', '')}"
    return f"Cell run {run.number}"


def _submit(code: CellCode, values: list[Any], options: dict[str, Any]) -> list[Any]:
    n_returns = len(code.writes) + 1
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        submitted = _remote(run_cell, {"num_returns": n_returns, **options}).remote(code, *values)
    for warning in caught:  # they would point at IPython's line that runs magics, and name our function
        text = str(warning.message).replace(repr(run_cell.__name__), repr(options["name"]))
        print(f"{warning.category.__name__}: {text}", file=sys.stderr)
    return submitted if n_returns > 1 else [submitted]


def _for_code(captured: Captured, writes: tuple[str, ...]) -> dict[str, Any]:
    kept = {name: value for name, value in captured.kept.items() if name in writes}
    return {"names": tuple(captured.names), "modules": captured.modules, "functions": frozenset(captured.functions),
            "awaited": captured.awaited, "kept": kept, "not_sent": captured.not_sent}


def _checked_returns(returns: list[str] | int | None, body: Body) -> list[str] | None:
    if isinstance(returns, int):
        raise CellError("--returns in a cell that becomes a task names variables: --returns a,b")
    known = {*body.writes, *body.reads, *body.builtins, *body.imports}
    if returns and not body.dynamic and (unknown := [name for name in returns if name not in known]):
        raise CellError(f"--returns names {unknown[0]!r}, which does not occur in the cell")
    return returns


# ---- options

def _options(**given: Any) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


def _remote(code: Any, options: dict[str, Any]) -> Any:
    from ..api import remote
    try:
        return remote(**options)(code)
    except (ValueError, TypeError) as error:  # an option that does not go with it
        raise CellError(str(error)) from None


def _placement(options: argparse.Namespace) -> dict[str, Any]:
    """What tasks and actors take alike."""
    if options.node is not None and options.spread:
        raise CellError("--node and --spread contradict each other: leave one of them out")
    strategy = _on_node(options.node) if options.node is not None else "SPREAD" if options.spread else None
    return _options(num_cpus=options.cpus, num_gpus=options.gpus, memory=options.memory, resources=options.resources,
                    scheduling_strategy=strategy)


def _on_node(wanted: str) -> Any:
    """All nodes of a session without a cluster are this machine, so the right name is already the place."""
    if not wanted:
        raise CellError("--node '': give the name, id or number of a node; cellmesh.nodes() lists them")
    from ..api import nodes
    from ..session import current
    if current().client.in_cluster():
        from ..placement import NodeAffinitySchedulingStrategy
        return NodeAffinitySchedulingStrategy(wanted, soft=False)
    there = {name for node in nodes() for name in (node["NodeName"], node["NodeID"])}
    if wanted not in there:
        raise CellError(f"--node {wanted}: there is no such node; the session has {', '.join(sorted(there))}")
    return None


# ---- what a definition becomes

def _made_remote(name: str, value: Any, options: argparse.Namespace) -> Any:
    """The remote twin of a function or class; the thing itself, and a line that says why, where there is none."""
    if why := _stays_local(value):
        if why != "remote already":
            print(f"{name} stays as it is: {why}.")
        return value
    if inspect.isclass(value):
        given = _options(name=options.name, max_restarts=options.retries)
    else:
        given = _options(name=options.name, max_retries=options.retries, num_returns=options.returns,
                         retry_exceptions=options.retry_exceptions or None)
    return _remote(value, given | _placement(options))


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
    return [name for name, member in vars(cls).items()
            if not name.startswith("_") and callable(getattr(member, "__func__", member))]
