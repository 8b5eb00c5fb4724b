"""scripts/check_types.py: errors are named, and public signatures have types and docstrings."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def checker() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts"))
        return importlib.import_module("check_types")


def test_an_error_is_named_with_its_place_in_the_repository(checker: ModuleType) -> None:
    found = checker.Finding("scheduler/a.py", 3, "reportCallIssue", 'No parameter named "apart"\n  more')
    assert str(found) == 'scheduler/a.py:3: No parameter named "apart" (reportCallIssue)'
    tree = Path("/tree")
    assert checker.path_in_repository(tree / "cellmesh/scheduler/a.py", tree) == "scheduler/a.py"
    assert checker.path_in_repository(tree / "cellmesh/util/a.py", tree) == "cellmesh/util/a.py"


def test_a_public_name_without_a_type_is_named(checker: ModuleType) -> None:
    said = {"severity": "error", "message": "Type is missing type annotation\n  Inferred type is int"}
    symbol = {"isExported": True, "isTypeKnown": True, "isTypeAmbiguous": False, "diagnostics": [said]}
    guessed = {**symbol, "isTypeAmbiguous": True}
    unknown = {**symbol, "isTypeKnown": False}
    symbols = [
        {**symbol, "name": "cellmesh.known"},
        {**guessed, "name": "cellmesh.util.guessed"},
        {**unknown, "name": "cellmesh.unknown"},
        {**unknown, "name": "cellmesh.scheduler.not_public"},
        {**unknown, "name": "cellmesh.because_of_another", "diagnostics": []},
    ]
    text = "Type is missing type annotation Inferred type is int"
    assert checker.incomplete(symbols) == [f"cellmesh.util.guessed: {text}", f"cellmesh.unknown: {text}"]


def undocumented(package: Any, names: list[str]) -> list[str]:
    """Public names without a docstring, and methods of public classes without one."""
    found = []
    for name in names:
        value = getattr(package, name)
        if callable(value) and not inspect.getdoc(value):
            found.append(f"{name} has no docstring")
        if inspect.isclass(value) and value.__module__.startswith("cellmesh."):
            found += [
                f"{name}.{member} has no docstring"
                for member, each in vars(value).items()
                if not member.startswith("_") and inspect.isfunction(each) and not inspect.getdoc(each)
            ]
    return found


@pytest.mark.parametrize(
    "name", ["cellmesh", "cellmesh.util", "cellmesh.exceptions", "cellmesh.recording", "cellmesh.state"]
)
def test_every_public_name_is_documented(name: str) -> None:
    module = importlib.import_module(name)
    public = getattr(module, "__all__", None) or [
        each
        for each, value in vars(module).items()
        if not each.startswith("_") and getattr(value, "__module__", "") == name
    ]
    assert public
    assert not undocumented(module, [*public])


def test_a_public_name_without_a_docstring_is_named() -> None:
    class Known:
        """Known."""

        def method(self) -> None: ...

    Known.__module__ = "cellmesh.known"
    package = SimpleNamespace(Known=Known, f=lambda: None)
    assert undocumented(package, ["Known", "f"]) == ["Known.method has no docstring", "f has no docstring"]
