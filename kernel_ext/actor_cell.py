"""Cells and actors: `%%actor` starts one, `%%remote --on` runs a cell in the process of one."""
from __future__ import annotations

import argparse
import keyword
from collections.abc import Mapping
from inspect import Parameter
from typing import TYPE_CHECKING, Any

from .cell_failure import tell_failure
from .cell_registry import Cell
from .cell_task import CellCode, execute, run_cell_in_actor
from .cells import Body, CellError, Definitions

if TYPE_CHECKING:
    from ..actor import ActorHandle

# Flags that mean nothing for a cell that runs where an actor is already.
NOT_ON_ACTORS = ("cpus", "gpus", "memory", "resources", "retries", "retry_exceptions", "node", "spread")


# ---- %%actor

def start(cell: Definitions | Body, code: CellCode, namespace: dict[str, Any], run: Cell,
          options: argparse.Namespace) -> None:
    """Run a cell of definitions, start an actor of its last class, and bind the handle.

    Raises
    ------
    CellError
        The cell has no class, or an option is wrong.
    """
    __tracebackhide__ = True
    from ..actor import ActorHandle, find_actor
    from ..session import current
    variable = options.variable
    if variable is None or not variable.isidentifier() or keyword.iskeyword(variable):
        raise CellError("%%actor needs a variable for the actor's handle: %%actor counter")
    if not isinstance(cell, Definitions) or not cell.classes:
        raise CellError("%%actor is for a cell that defines a class (and imports and functions that it needs)")
    if options.detached and not options.name:
        options.name = variable  # by which it is found when the kernel has been restarted
    execute(code.source, namespace, code.filename, code.flags)
    class_name = cell.classes[-1]
    actor_class = namespace[class_name] = _actor_class(namespace[class_name], options)
    args, kwargs = _arguments(options.args or "", namespace)
    old = namespace.get(variable)
    if options.name and isinstance(old, ActorHandle):
        _end_named(old, options.name)
    elif options.detached and (left := find_actor(current(), options.name, None)) is not None:
        namespace[variable] = left
        print(f"{variable} is the detached actor {options.name!r} that was made before, as it is. For a new one: "
              f"cellmesh.kill({variable}), then this cell again.")
        return
    try:
        handle = namespace[variable] = actor_class.remote(*args, **kwargs)
    except (TypeError, ValueError) as error:  # arguments that the constructor does not take, a name that is taken
        raise CellError(str(error)) from None
    print(f"{variable} is an actor of class {class_name}." + (
        f" It survives the kernel: this cell, or cellmesh.get_actor({options.name!r}), finds it again. cellmesh.kill({variable}) ends it."
        if options.detached else ""))
    from ..actor import call_in_actor
    # The constructor's error would be told only by the first call.
    tell_failure(current(), call_in_actor(handle, _nothing, name=class_name, hidden=True), run, class_name)


def _nothing(instance: object) -> None:
    pass


def _actor_class(cls: Any, options: argparse.Namespace) -> Any:
    from ..api import remote
    given = {"num_cpus": options.cpus, "num_gpus": options.gpus, "memory": options.memory,
             "resources": options.resources, "name": options.name, "max_restarts": options.restarts,
             "max_concurrency": options.concurrency, "lifetime": "detached" if options.detached else None}
    given = {name: value for name, value in given.items() if value is not None}
    try:
        if hasattr(type(cls), "__cellmesh_code__"):
            return cls.options(**given)
        return remote(**given)(cls) if given else remote(cls)
    except (ValueError, TypeError) as error:
        raise CellError(str(error)) from None


def _arguments(text: str, namespace: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    try:
        code = compile(f"(lambda *args, **kwargs: (args, kwargs))({text})", "--args", "eval")
    except SyntaxError as error:
        raise CellError(f"--args {text!r}: {error.msg}; write what stands between the parentheses of a call") from None
    return eval(code, namespace)


def _end_named(handle: ActorHandle, name: str) -> None:
    """End the actor that this cell has started before: its name is wanted again."""
    from ..actor import find_actor
    from ..api import kill
    from ..session import current
    ref = handle._cellmesh_ref
    if ref.client is current().client and find_actor(current(), name, None) == handle:
        kill(handle)


# ---- %%remote --on

def find(wanted: str, namespace: Mapping[str, Any], options: argparse.Namespace) -> ActorHandle:
    """The actor that `--on` means: a variable that holds a handle, or the name of a living actor.

    Raises
    ------
    CellError
        There is none, or another option does not go with it.
    """
    from ..actor import ActorHandle, find_actor
    from ..session import current
    if given := [name for name in NOT_ON_ACTORS if getattr(options, name) not in (None, False)]:
        raise CellError(f"--{given[0].replace('_', '-')} does not go with --on: the cell runs where the actor is")
    held = namespace.get(wanted)
    if isinstance(held, ActorHandle):
        if held._cellmesh_ref.client is not current().client:
            raise CellError(f"--on {wanted}: this actor ended with its session")
        return held
    named = find_actor(current(), wanted, None)
    if named is None:
        raise CellError(f"--on {wanted}: there is no variable of this name that holds an actor's handle, and no living "
                        "actor of this name")
    return named


def submit(actor: ActorHandle, code: CellCode, values: list[Any], name: str) -> list[Any]:
    """Have the actor run the cell, after the calls that it has been sent before."""
    from ..actor import call_in_actor
    from ..session import current
    n_returns = len(code.writes) + 1
    refs = call_in_actor(actor, run_cell_in_actor, code, *values, name=name, num_returns=n_returns)
    results = refs if n_returns > 1 else [refs]
    if (kept := current().kept_calls) is not None:
        parameters = tuple((name, int(Parameter.POSITIONAL_ONLY), False) for name in code.names)
        kept.keep(parameters, tuple(values), {}, tuple(results))
    return results


class LeftInActors:
    """Remembers which futures of the notebook stand for objects that live on in an actor's process.

    The next cell that runs there uses the very objects, instead of copies of them.
    """

    def __init__(self) -> None:
        self._left: dict[str, tuple[str, str]] = {}  # by variable: the future, the actor

    def add(self, actor: ActorHandle, futures: Mapping[str, Any]) -> None:
        """A cell has been sent to this actor; it will leave these variables there."""
        self._left |= {name: (ref.hex(), actor._cellmesh_ref.hex()) for name, ref in futures.items()}

    def names(self, actor: ActorHandle, namespace: Mapping[str, Any]) -> frozenset[str]:
        """The names that need not be sent to this actor, `self` among them."""
        from ..refs import ObjectRef
        there = actor._cellmesh_ref.hex()
        known = {name: namespace.get(name) for name, (_, owner) in self._left.items() if owner == there}
        return frozenset({"self"} | {name for name, value in known.items()
                                     if isinstance(value, ObjectRef) and value.hex() == self._left[name][0]})
