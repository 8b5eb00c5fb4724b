"""`%%actor` starts an actor of a cell's class; `%%remote --on` runs a cell in the process of an actor."""

from __future__ import annotations

import argparse
import keyword
from collections.abc import Iterable, Mapping
from inspect import Parameter
from types import FunctionType
from typing import TYPE_CHECKING, Any

from ...submit.flags import flag_of
from .analysis.read import Body, CellError, Definitions
from .failure import tell_failure
from .options import options_given
from .registry import Cell
from .task import CellCode, execute, run_cell_in_actor

if TYPE_CHECKING:
    from ...submit.actor import ActorHandle
    from .host import CellHost


# ---- %%actor


def start_actor(
    cell: Definitions | Body,
    code: CellCode,
    namespace: dict[str, Any],
    run: Cell,
    options: argparse.Namespace,
    host: CellHost,
) -> None:
    """Run a cell of definitions, start an actor of its last class, and bind the handle.

    Raises
    ------
    CellError
        The cell has no class, or an option is wrong.
    """
    __tracebackhide__ = True
    from ...session.current import current
    from ...submit.actor import ActorHandle
    from ...submit.actor import find_actor as find_by_name

    variable = options.variable
    if variable is None or not variable.isidentifier() or keyword.iskeyword(variable):
        raise CellError("%%actor needs a variable for the actor's handle: %%actor counter")
    if not isinstance(cell, Definitions) or not cell.classes:
        raise CellError("%%actor is for a cell that defines a class (and imports and functions that it needs)")
    is_detached = options.lifetime == "detached"
    if is_detached and not options.name:
        options.name = variable  # finds it after a restart of the kernel
    execute(code.source, namespace, code.filename, code.flags)
    class_name = cell.classes[-1]
    actor_class = namespace[class_name] = _actor_class(namespace[class_name], options)
    args, kwargs = _arguments(options.args or "", namespace)
    old = namespace.get(variable)
    if options.name and isinstance(old, ActorHandle):
        _end_named(old, options.name)
    elif is_detached and (left := find_by_name(current(), options.name, None)) is not None:
        namespace[variable] = left
        print(
            f"{variable} is the detached actor {options.name!r} that was made before, as it is. For a new one: "
            f"cellmesh.kill({variable}), then this cell again."
        )
        return
    try:
        handle = namespace[variable] = actor_class.remote(*args, **kwargs)
    except (TypeError, ValueError) as error:  # arguments that the constructor does not take, a name that is taken
        raise CellError(str(error)) from None
    print(
        f"{variable} is an actor of class {class_name}."
        + (
            f" It survives the kernel: this cell, or cellmesh.get_actor({options.name!r}), finds it again. "
            f"cellmesh.kill({variable}) ends it."
            if is_detached
            else ""
        )
    )
    # Without this, only the first call would tell the constructor's error. (A call from here would keep an actor alive
    # that has no handle any more.)
    constructed = current().client.constructor(handle._cellmesh_ref)
    if constructed is not None:
        tell_failure(current(), constructed, run, class_name, host)


def _actor_class(cls: Any, options: argparse.Namespace) -> Any:
    from ...api import remote

    given = options_given(options, "actor")
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
    from ...api import kill
    from ...session.current import current
    from ...submit.actor import find_actor as find_by_name

    ref = handle._cellmesh_ref
    if ref.client is current().client and find_by_name(current(), name, None) == handle:
        kill(handle)


# ---- %%remote --on


def find_actor(wanted: str, namespace: Mapping[str, Any], options: argparse.Namespace) -> ActorHandle:
    """The actor that `--on` means: a variable that holds a handle, or the name of a living actor.

    Raises
    ------
    CellError
        There is none, or another option does not go with it.
    """
    from ...session.current import current
    from ...submit.actor import ActorHandle
    from ...submit.actor import find_actor as find_by_name

    given = [option for option in options_given(options, "task") if option != "name"] + ["node"] * (
        options.node is not None
    )
    if given:
        raise CellError(f"{flag_of(given[0])} does not go with --on: the cell runs where the actor is")
    held = namespace.get(wanted)
    if isinstance(held, ActorHandle):
        if held._cellmesh_ref.client is not current().client:
            raise CellError(f"--on {wanted}: this actor ended with its session")
        return held
    named = find_by_name(current(), wanted, None)
    if named is None:
        raise CellError(
            f"--on {wanted}: there is no variable of this name that holds an actor's handle, and no living "
            "actor of this name"
        )
    return named


def submit_to_actor(actor: ActorHandle, code: CellCode, values: list[Any], name: str) -> list[Any]:
    """Have the actor run the cell, after the calls that it has been sent before."""
    from ...session.current import current
    from ...submit.actor import call_in_actor

    n_returns = len(code.writes) + 1
    refs = call_in_actor(actor, run_cell_in_actor, code, *values, name=name, num_returns=n_returns)
    results = refs if n_returns > 1 else [refs]
    if (kept := current().kept_calls) is not None:
        parameters = tuple((name, int(Parameter.POSITIONAL_ONLY), False) for name in code.names)
        kept.keep(parameters, tuple(values), {}, tuple(results))
    return results


class LeftThere:
    """Remembers which names of the notebook stand for objects in other processes: in an actor's, or in those of ranks.

    The notebook has futures of these objects, its own twins of what the cell has defined, and nothing for the variables
    of loops.

    The next cell that runs there uses the very objects, instead of copies of them.
    """

    def __init__(self) -> None:
        self._left: dict[str, tuple[object, str]] = {}  # by variable: what the notebook held then, where it is

    def add(self, there: str, names: Iterable[str], namespace: Mapping[str, Any]) -> None:
        """A cell has been sent there; it will leave these variables there."""
        self._left |= {name: (_identity(name, namespace), there) for name in names}

    def names(self, there: str, namespace: Mapping[str, Any]) -> frozenset[str]:
        """The names that need not be sent there."""
        return frozenset(
            name for name, (held, place) in self._left.items() if place == there and held == _identity(name, namespace)
        )


def _identity(name: str, namespace: Mapping[str, Any]) -> object:
    """Identifies what a variable holds, without keeping the value of a future; None: there is no variable."""
    from ...groups.ref_group import RefGroup
    from ...refs import ObjectRef

    held = namespace.get(name)
    if isinstance(held, ObjectRef):
        return held.hex()
    if isinstance(held, RefGroup):
        return tuple(ref.hex() for ref in held)
    return held if isinstance(held, type | FunctionType) or held is None else id(held)
