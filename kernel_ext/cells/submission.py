"""A `%%remote` cell that becomes a task: submits it, and binds the names that it assigns to futures at once.

What the cell imports and defines is in the notebook too, as after any cell.
"""

from __future__ import annotations

import argparse
import builtins
import dataclasses
import os
import sys
import warnings
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ...submit.flags import flag_of
from .actor import LeftThere, find_actor, submit_to_actor
from .analysis.definitions import Needs, made_here
from .analysis.read import Body, CellError, definition_nodes
from .analysis.title import title_of
from .capture import Shipper, capture
from .events import attach
from .failure import tell_failure
from .options import made_remote, options_for, refuse_what_nothing_takes
from .registry import Cell, n_unfinished, registry
from .task import CellCode, run_cell, track_class

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from .host import CellHost

OF_FUNCTIONS = ("max_in_flight", "rate_limit")  # flags that count the calls of a function
THIS_KERNEL = os.urandom(8).hex()


class Submission:
    """Submits the cells of one notebook as tasks.

    Attributes
    ----------
    shipper : Shipper
        What lies in the store already of the notebook's values.
    """

    def __init__(self, shell: InteractiveShell, host: CellHost) -> None:
        self.shell = shell
        self.shipper = Shipper()
        self._host = host
        self._left_in_actors = LeftThere()

    def submit(self, body: Body, code: CellCode, run: Cell, options: argparse.Namespace) -> Any:
        """Submit a cell as a task, and bind what it assigns to futures.

        Returns
        -------
        ObjectRef or None
            The future of the cell's last expression.

        Raises
        ------
        CellError
            An option is wrong, or what the cell needs cannot be sent.
        """
        __tracebackhide__ = True
        from ...session.current import current

        if given := [option for option in OF_FUNCTIONS if getattr(options, option) is not None]:
            raise CellError(f"{flag_of(given[0])} is for cells that define functions, and this one becomes one task")
        refuse_what_nothing_takes(options, ["task"])
        returns = _checked_returns(options, body)
        namespace = self.shell.user_ns
        here = _made_here(body, returns or (), namespace)
        futures = [defined for defined in body.definitions if defined not in here]
        writes = tuple([*body.writes, *futures] if returns is None else returns)
        name = options.name or title_of(body.source, writes) or run.label or "cell"
        registry.name_body(run.number, name)  # before it can print
        task_options = options_for(options, "task") | {"name": name}
        session = current()
        attach(session)
        actor = None if options.on is None else find_actor(options.on, namespace, options)
        there = actor._cellmesh_ref.hex() if actor is not None else ""
        in_actor = self._left_in_actors.names(there, namespace) | {"self"} if actor is not None else frozenset()
        captured = capture(
            body,
            namespace,
            self.shipper,
            session.client,
            inputs=options.inputs,
            own=self.shell.user_ns_hidden,
            in_actor=in_actor,
        )
        code = dataclasses.replace(
            code, writes=writes, run=f"{THIS_KERNEL} {run.number}", defines=tuple(here), **captured.for_code(writes)
        )
        if actor is None:
            refs = _submit(code, captured.values, task_options)
        else:
            code = dataclasses.replace(code, lives_there=tuple(sorted(in_actor - {"self"})))
            refs = submit_to_actor(actor, code, captured.values, name)
        self._say_what_goes_on(run)
        if hidden := sorted(set(writes) & set(dir(builtins)) - namespace.keys()):
            names = ", ".join(hidden)
            print(f"{names}: Python's own, and in this notebook now a future in its place; del {names} brings it back.")
        namespace.update(zip(writes, refs, strict=False))
        for deleted in body.deletes:
            namespace.pop(deleted, None)
        self._import(body.import_statements)
        self._define(code, here, body)
        if actor is not None:
            self._left_in_actors.add(there, (*writes, *here, *body.passing), namespace)
        for changed in body.mutates:
            if changed not in writes and changed not in in_actor:
                print(
                    f"{changed} is changed in place by this cell. The change stays on the worker; to get it back, "
                    f"assign {changed}, or name it in --returns."
                )
        if options.progress:
            from .progress import show_progress

            show_progress(session, refs[-1], run, name, self._host.recorder_of(session))
        if options.wait:
            session.client.get(refs[-1])
        elif not body.has_last_expression or not hasattr(self.shell, "kernel"):  # otherwise a card that is alive tells
            tell_failure(session, refs[-1], run, name, self._host)
        return refs[-1] if body.has_last_expression else None

    def _import(self, statements: Iterable[str]) -> None:
        """What a cell imports at its top is there in the notebook afterwards, as with any cell."""
        for statement in statements:
            try:
                exec(statement, self.shell.user_ns)
            except Exception as error:  # whatever a module does when it is imported; the task goes on
                print(f"{statement}: not possible in the notebook itself ({type(error).__name__}: {error})")

    def _define(self, code: CellCode, here: dict[str, Needs], body: Body) -> None:
        """What a cell defines at its top is there in the notebook afterwards, as with any cell."""
        namespace = self.shell.user_ns
        failed: dict[str, Exception] = {}
        for name, definition in definition_nodes(code.source, here, code.filename, code.flags):
            try:
                exec(compile(definition, code.filename, "exec", code.flags, dont_inherit=True), namespace)
                track_class(code, name, namespace)
            except Exception as error:  # whatever a decorator does; the task goes on
                failed[name] = error
        for name, error in failed.items():
            print(f"{name} is not defined in the notebook itself, only in the task ({type(error).__name__}: {error})")
        for name in here.keys() - failed.keys():
            if line := _what_it_lacks(name, here[name], body, namespace):
                print(line)

    def _say_what_goes_on(self, run: Cell) -> None:
        """Tasks of an earlier run of this cell may go on, and their futures are about to be replaced."""
        earlier = [registry.cell(number) for number in n_unfinished()]
        earlier = [cell for cell in earlier if cell.cell_id and cell.cell_id == run.cell_id and cell != run]
        if earlier:
            label = max(earlier, key=lambda cell: cell.number).label
            print(f"The earlier run of this cell, {label}, goes on; %cancel {label.strip('In []')} ends it.")


def _made_here(body: Body, returns: Collection[str], namespace: Mapping[str, Any]) -> dict[str, Needs]:
    """The definitions of a cell that the notebook makes, too: those that need no future's value to be made."""
    from ...refs import ObjectRef

    bound = {*body.writes, *body.imports, *body.definitions}
    futures = [name for name, value in namespace.items() if isinstance(value, ObjectRef) and name not in bound]
    wanted = {name: needs for name, needs in body.definitions.items() if name not in returns}
    return made_here(wanted, [*returns, *futures])


def _what_it_lacks(name: str, needs: Needs, body: Body, namespace: Mapping[str, Any]) -> str:
    """The line about a function of the notebook that needs what only the task has; "" if it has all."""
    from ...refs import ObjectRef

    needed = sorted(needs.later)
    if futures := [one for one in needed if isinstance(namespace.get(one), ObjectRef)]:
        are = "is a future" if len(futures) == 1 else "are futures"
        return (
            f"{name} needs {', '.join(futures)}, which {are} here: %fetch {' '.join(futures)} before you call it in "
            "the notebook."
        )
    if lacking := [one for one in needed if one in (*body.passing, *body.deletes) and one not in namespace]:
        return f"{name} needs {', '.join(lacking)}, which only the task has: it cannot be called in the notebook."
    return ""


def _submit(code: CellCode, values: list[Any], options: dict[str, Any]) -> list[Any]:
    n_returns = len(code.writes) + 1
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        submitted = made_remote(run_cell, {"num_returns": n_returns, **options}).remote(code, *values)
    for warning in caught:  # they would point at IPython's line that runs magics, and name our function
        text = str(warning.message).replace(repr(run_cell.__name__), repr(options["name"]))
        print(f"{warning.category.__name__}: {text}", file=sys.stderr)
    return submitted if n_returns > 1 else [submitted]


def _checked_returns(options: argparse.Namespace, body: Body) -> list[str] | None:
    returns: list[str] | int | None = options.returns
    if options.num_returns is not None or isinstance(returns, int):
        raise CellError(
            "--num-returns counts what a function returns; in a cell that becomes a task --returns names variables: "
            "--returns a,b"
        )
    check_returns(returns, body)
    return returns


def check_returns(returns: Collection[str] | None, body: Body) -> None:
    """Raises CellError if a cell is to return what does not occur in it."""
    known = {*body.writes, *body.reads, *body.builtins, *body.imports, *body.definitions, *body.passing}
    if returns and not body.dynamic and (unknown := [name for name in returns if name not in known]):
        raise CellError(f"--returns names {unknown[0]!r}, which does not occur in the cell")
