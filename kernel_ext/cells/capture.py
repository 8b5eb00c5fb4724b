"""The inputs of a cell: names of the notebook become arguments of the cell's task.

Futures become dependencies. Modules go by name. Functions of the notebook go without their globals; the cell takes
along, by name, what they read, so that they see the cell's variables on the worker as they would in the notebook.
Values go by value. Large values go through the store, once, until they change.

A checksum of the whole pickled value decides whether it has changed. A checksum of a sample would now and then send
yesterday's array. The whole costs less than the copy that it saves: it reads memory at some 4 GB/s and writes none.
"""

from __future__ import annotations

import sys
import types
import zlib
from collections.abc import Container, Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from ...errors.serializability import global_names, pickling_error
from ...exceptions import ObjectStoreFullError
from ...objstore.function_pickles import with_globals
from ...text import in_bytes
from .analysis.read import Body, CellError
from .task_variables import HARMLESS

LARGE_BYTES = 100_000  # beyond it a value is put into the store instead of into the task's arguments


@dataclass(frozen=True)
class Shipped:
    """A value of the notebook that lies in the store. `checksum` None: it cannot change."""

    identity: int
    checksum: int | None
    ref: Any


class Unpicklable(Exception):
    """A value cannot be sent to another process."""

    def __init__(self, value: Any, reason: Exception) -> None:
        super().__init__(str(reason))
        self.value = value
        self.reason = reason


class Shipper:
    """Puts large values into the store and remembers which, by the variable that holds them."""

    def __init__(self) -> None:
        self._shipped: dict[str, Shipped] = {}

    def remember(self, name: str, value: Any, ref: Any) -> None:
        """The notebook's variable now holds what was fetched from `ref`: sending it again would be a waste."""
        if _cannot_change(value):
            self._shipped[name] = Shipped(id(value), None, ref)

    def forget_rebound(self, namespace: Mapping[str, Any]) -> None:
        """Let go of what no variable holds any more, so that the store can free it."""
        self._shipped = {n: s for n, s in self._shipped.items() if n in namespace and id(namespace[n]) == s.identity}

    def ship(self, name: str, value: Any, client: Any) -> Any:
        """The argument for a value: itself, or the ref of its copy in the store.

        Raises
        ------
        Unpicklable
        ObjectStoreFullError
        """
        if type(value) in HARMLESS and sys.getsizeof(value) <= LARGE_BYTES:
            return value
        known = self._shipped.get(name)
        if known is not None and (known.identity != id(value) or known.ref.client is not client):
            known = None
        if known is not None and known.checksum is None:
            return known.ref
        from ...objstore import serialization

        checksum = 0

        def update(chunk: Any) -> None:
            nonlocal checksum
            checksum = zlib.crc32(chunk, checksum)

        try:
            size = serialization.measure(value, update)
        except Exception as reason:  # whatever the classes of the user raise
            raise Unpicklable(value, reason) from reason
        if size <= LARGE_BYTES:
            return value
        if known is None or known.checksum != checksum:
            try:
                ref = client.put_argument(value)
            except ObjectStoreFullError as error:
                from ...errors.store import named

                raise named(error, f"the variable {name!r} ({in_bytes(size)}), which the cell takes along,") from None
            known = self._shipped[name] = Shipped(id(value), checksum, ref)
        return known.ref


def _cannot_change(value: Any) -> bool:
    """Whether a value is a large array that lies in the store, where nothing can write to it."""
    numpy = sys.modules.get("numpy")
    is_array = numpy is not None and type(value) is numpy.ndarray
    return is_array and not value.flags.writeable and value.nbytes > LARGE_BYTES


@dataclass
class Captured:
    """What a cell takes along, as `task.CellCode` wants it."""

    names: list[str] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    modules: dict[str, str] = field(default_factory=dict)
    functions: set[str] = field(default_factory=set)
    awaited: dict[str, Any] = field(default_factory=dict)
    kept: dict[str, Any] = field(default_factory=dict)
    not_sent: dict[str, str] = field(default_factory=dict)

    def for_code(self, writes: Container[str]) -> dict[str, Any]:
        """The fields of a `task.CellCode` that returns `writes`."""
        return {
            "names": tuple(self.names),
            "modules": self.modules,
            "functions": frozenset(self.functions),
            "awaited": self.awaited,
            "kept": {name: value for name, value in self.kept.items() if name in writes},
            "not_sent": self.not_sent,
        }


def capture(
    body: Body,
    namespace: dict[str, Any],
    shipper: Shipper,
    client: Any,
    *,
    inputs: Iterable[str] | None = None,
    own: Mapping[str, Any] | None = None,
    in_actor: frozenset[str] = frozenset(),
) -> Captured:
    """Collect what a cell takes along.

    Parameters
    ----------
    body : Body
    namespace : dict
        The notebook's.
    shipper : Shipper
    client : Client
        Of the session.
    inputs : iterable of str, optional
        Exactly these names, in place of what the analysis found.
    own : mapping, optional
        What IPython itself has put into the namespace (`In`, `get_ipython`, its `open`): no variables of the user.
    in_actor : frozenset of str
        Names that are there already where the cell will run.

    Raises
    ------
    CellError
        A value cannot be pickled: the message names the variable and the member. Or a name is not there, and the cell
        certainly fails without it.
    ObjectStoreFullError
        The store has no room for a value.
    """
    own = own or {}

    def is_there(name: str) -> bool:
        return name in namespace and name not in in_actor and not (name in own and own[name] is namespace[name])

    if inputs is not None:
        required, optional = list(inputs), []
        if missing := [name for name in required if name not in namespace]:
            raise CellError(f"--inputs names {missing[0]!r}, which the notebook does not have")
    else:
        if "get_ipython" in body.reads and not is_there("get_ipython"):
            raise CellError(
                "get_ipython() is the notebook's own shell, and there is none on workers. Use it in a cell of its own."
            )
        _check_needed(body, namespace.keys() | in_actor)
        required = [name for name in (*body.reads, *body.builtins) if name not in body.weak_reads and is_there(name)]
        optional = [name for name in body.reads if name in body.weak_reads and is_there(name)]
    captured = Captured()
    # A function of the notebook brings the names it reads, and those of functions among them.
    pending = [*((name, False) for name in required), *((name, True) for name in optional)]
    seen = {name for name, _ in pending}
    for name, is_optional in pending:
        value = namespace[name]
        if _is_notebook_function(value, namespace):
            captured.functions.add(name)
            for global_name in global_names(value):
                if global_name not in seen and is_there(global_name):
                    seen.add(global_name)
                    pending.append((global_name, is_optional or global_name in body.writes))
            value = with_globals(value, {"__name__": "__main__"})
        _add(captured, name, value, shipper, client, is_optional=is_optional)
    if inputs is None:
        for name in sorted(body.keeps):
            if is_there(name) and name not in seen:
                _keep(captured, name, namespace[name], shipper, client)
    return captured


def _check_needed(body: Body, there: Set[str]) -> None:
    missing = [name for name in body.needed if name not in there]
    if missing:
        name = missing[0]
        message = (
            f"name {name!r} is not defined: the cell reads it in line {body.needed[name]}, and neither the cell "
            "nor the notebook has assigned it"
        )
        raise CellError(message, shown_as=NameError(message, name=name))


def _add(captured: Captured, name: str, value: Any, shipper: Shipper, client: Any, *, is_optional: bool) -> None:
    if _is_ref(value):
        if value.client is not client:
            if not is_optional:
                raise CellError(f"{name!r} is a future of a session that has ended: run the cell that makes it again")
            captured.not_sent[name] = "it is a future of a session that has ended"
        elif is_optional:
            captured.awaited[name] = value
        else:
            captured.names.append(name)
            captured.values.append(value)
        return
    if isinstance(value, types.ModuleType) and sys.modules.get(value.__name__) is value:
        captured.modules[name] = value.__name__
        return
    try:
        argument = shipper.ship(name, value, client)
    except Unpicklable as error:
        if not is_optional:
            raise CellError(f"the cell reads {name!r}, and {pickling_error(error.value, error.reason, name)}") from None
        captured.functions.discard(name)
        captured.not_sent[name] = f"a {type(value).__name__} cannot be sent to a worker"
        return
    captured.names.append(name)
    captured.values.append(argument)


def _keep(captured: Captured, name: str, value: Any, shipper: Shipper, client: Any) -> None:
    if _is_ref(value):
        if value.client is client:
            captured.kept[name] = value
        else:
            captured.not_sent[name] = "what the notebook had there is a future of a session that has ended"
        return
    try:
        captured.kept[name] = shipper.ship(name, value, client)
    except Unpicklable:  # the cell may well assign the name
        captured.not_sent[name] = f"what the notebook had there, a {type(value).__name__}, cannot be sent to a worker"


def _is_notebook_function(value: Any, namespace: dict[str, Any]) -> bool:
    return type(value) is types.FunctionType and value.__globals__ is namespace


def _is_ref(value: Any) -> bool:
    from ...refs import ObjectRef

    return isinstance(value, ObjectRef)
