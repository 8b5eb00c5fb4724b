"""The stubs of the extension modules say what the C tables say: names, parameters, defaults, fields of records.

Part of `make lint`, whose line names the stub's file and what differs in it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from cellmesh.kernel_ext.graph import _fold
from cellmesh.objstore import _core

ROOT = Path(__file__).resolve().parents[2]
STUBS = {_core: ROOT / "objstore/_core.pyi", _fold: ROOT / "kernel_ext/graph/_fold.pyi"}
# Attributes that are in no table: one is found by the type's __getattribute__, one is set on each instance.
NO_MEMBERS = {("ObjectRef", "client"), ("StoreError", "code")}
ALIASES = {"Ref": "ObjectRef"}  # the name in the module, and the type's own
Function = ast.FunctionDef


def parameters(arguments: ast.arguments) -> list[str]:
    """Each parameter as text, with its kind and default: 'task /', 'n=1', '* name="x"'."""
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + [*arguments.defaults]
    found = []
    for i, (each, default) in enumerate(zip(positional, defaults, strict=True)):
        kind = " /" if i < len(arguments.posonlyargs) else ""
        found.append(f"{each.arg}{'' if default is None else f'={ast.unparse(default)}'}{kind}")
    for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found.append(f"* {each.arg}{'' if default is None else f'={ast.unparse(default)}'}")
    return found


def of_stub(function: Function, is_method: bool) -> list[str]:
    found = parameters(function.args)
    return found[1:] if is_method else found


def of_text(signature: str) -> list[str]:
    """The parameters of a `__text_signature__`."""
    text = re.sub(r"\$self(, /)?(, )?", "", signature)
    (function,) = ast.parse(f"def f{text}: ...").body
    assert isinstance(function, Function)
    return parameters(function.args)


def functions(body: list[ast.stmt]) -> dict[str, list[Function]]:
    """By name, all overloads."""
    found: dict[str, list[Function]] = {}
    for statement in body:
        if isinstance(statement, Function):
            found.setdefault(statement.name, []).append(statement)
    return found


def annotated(body: list[ast.stmt]) -> list[str]:
    return [each.target.id for each in body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)]


def compared(name: str, stubs: list[Function], signature: str | None, is_method: bool) -> Iterator[str]:
    if signature is None:
        yield f"{name} has no text signature in C"
        return
    is_so = of_text(signature)
    for stub in stubs:
        if (said := of_stub(stub, is_method)) != is_so:
            yield f"{name}({', '.join(is_so)}) in C, ({', '.join(said)}) in the stub"


def of_type(name: str, kind: type, stub: ast.ClassDef) -> Iterator[str]:
    """What differs between a type and its stub."""
    if issubclass(kind, tuple):
        fields = list(kind.__match_args__)
        if annotated(stub.body) != fields:
            yield f"the fields of {name} are {', '.join(fields)} in C, {', '.join(annotated(stub.body))} in the stub"
        return
    told = functions(stub.body)
    for special in [special for special in told if special.startswith("__")]:
        del told[special]
    members = {key: value for key, value in vars(kind).items() if not key.startswith("__")}
    methods = {key: value for key, value in members.items() if type(value).__name__ == "method_descriptor"}
    methods.pop("_repr_mimebundle_", None)
    yield from (f"{name}.{key} has no stub" for key in methods.keys() - told.keys())
    properties = {
        key for statement in told.values() for key in (f.name for f in statement if f.decorator_list)
    } & members.keys() - methods.keys()
    yield from (f"{name}.{key} is in the stub and not in C" for key in told.keys() - methods.keys() - properties)
    for key in methods.keys() & told.keys():
        yield from compared(f"{name}.{key}", told[key], methods[key].__text_signature__, True)
    data = {*annotated(stub.body), *properties}
    yield from (f"{name}.{key} has no stub" for key in members.keys() - methods.keys() - data - {"_repr_mimebundle_"})
    yield from (
        f"{name}.{key} is in the stub and not in C" for key in data - members.keys() if (name, key) not in NO_MEMBERS
    )


def differences(module: ModuleType, text: str) -> list[str]:
    """A line for each thing in which the module and its stub differ."""
    body = ast.parse(text).body
    classes = {each.name: each for each in body if isinstance(each, ast.ClassDef)}
    told = functions(body)
    names = {ALIASES.get(key, key): value for key, value in vars(module).items() if not key.startswith("__")}
    types = {key: value for key, value in names.items() if isinstance(value, type)}
    calls = {key: value for key, value in names.items() if type(value).__name__ == "builtin_function_or_method"}
    found = [f"{key} has no stub" for key in (types.keys() - classes.keys()) | (calls.keys() - told.keys())]
    data = names.keys() - types.keys() - calls.keys()
    found += [f"{key} has no stub" for key in data - set(annotated(body))]
    stubs = classes.keys() | told.keys() | set(annotated(body))
    found += [f"{key} is in the stub and not in C" for key in stubs - names.keys()]
    for key in types.keys() & classes.keys():
        found += of_type(key, types[key], classes[key])
    for key in calls.keys() & told.keys():
        found += compared(key, told[key], calls[key].__text_signature__, False)
    return sorted(found)


@pytest.mark.parametrize("module", STUBS, ids=lambda module: module.__name__)
def test_stubs_say_what_the_c_tables_say(module: ModuleType) -> None:
    stub = STUBS[module]
    found = [f"{stub.relative_to(ROOT)}: {line}" for line in differences(module, stub.read_text())]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    "old, new, told",
    [
        ("    def collect_cycles(self) -> bool: ...\n", "", "Client.collect_cycles has no stub"),
        ("def ref_of(self", "def ref_from(self", "Client.ref_from is in the stub and not in C"),
        ("def ref_of(self", "def ref_from(self", "Client.ref_of has no stub"),
        ("kill_actor(self, ref: ", "kill_actor(self, handle: ", "Client.kill_actor(ref /, no_restart /) in C"),
        ("num_returns: int = 1", "num_returns: int = 2", "num_returns=2"),
        ("class RunTimes(NamedTuple):", "class RunDates(NamedTuple):", "RunTimes has no stub"),
        ("    waited_s: float", "    wait_s: float", "the fields of RunTimes are pid, waited_s, ran_s, ended_s in C"),
        ("PUT_BIT: int\n", "", "PUT_BIT has no stub"),
        ("def set_process_name(name", "def name_process(name", "set_process_name has no stub"),
    ],
)
def test_what_differs_is_named(old: str, new: str, told: str) -> None:
    text = STUBS[_core].read_text()
    assert old in text
    assert any(told in line for line in differences(_core, text.replace(old, new, 1))), told


def test_a_method_that_c_calls_otherwise_is_named() -> None:
    renamed = ModuleType("_core")
    vars(renamed).update(vars(_core))
    members = {"ref_from" if key == "ref_of" else key: value for key, value in vars(_core.Client).items()}
    vars(renamed)["Client"] = type("Client", (), members)
    assert differences(renamed, STUBS[_core].read_text()) == [
        "Client.ref_from has no stub",
        "Client.ref_of is in the stub and not in C",
    ]


def test_a_record_is_read_by_name_and_as_a_tuple() -> None:
    times = _core.TaskTimes((1, 2, 3, True))
    timeout_ms, *_ = times
    assert times.timeout_ms == timeout_ms == 1 and times.retries_timeout is True
    with pytest.raises(TypeError, match="4-sequence"):
        _core.TaskTimes((1, 2))


def test_the_fields_of_an_event_are_those_that_history_names() -> None:
    from cellmesh.observe.history import RECORD, Event

    names: list[Any] = [name for name, _ in _core.EVENT_DTYPE]
    assert list(Event._fields) == names and RECORD.size == 32
