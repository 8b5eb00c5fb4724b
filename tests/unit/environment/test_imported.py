"""What of its imports a program tells: those that its variables come from."""

from __future__ import annotations

import sys
import types
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from cellmesh.environment.imported import Imported


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A notebook's own module, in the place of pytest's."""
    main = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    return main


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch):
    """module("a.b") is there as if it had been imported from a folder of installed ones."""

    def module(name: str, folder: str = "/x/site-packages") -> types.ModuleType:
        made = types.ModuleType(name)
        made.__file__ = f"{folder}/{name.replace('.', '/')}.py"
        made.__spec__ = ModuleSpec(name, None, origin=made.__file__)
        monkeypatch.setitem(sys.modules, name, made)
        return made

    return module


def told(imported: Imported) -> dict[str, list[str]]:
    news = imported.news()
    return {} if news is None else {package.name: package.modules for package in news.packages}


def test_modules_functions_classes_and_classes_of_values(main: types.ModuleType, module) -> None:
    for name in ("by_name", "by_class", "by_class.part", "by_value", "by_nobody", "IPython"):
        module(name)
    main.m = sys.modules["by_name"]
    main.C = type("C", (), {"__module__": "by_class.part"})
    main.v = type("D", (), {"__module__": "by_value"})()
    main.In = type("E", (), {"__module__": "IPython"})()
    main.text, main.standard, main.odd = "by_nobody", Path, type("F", (), {"__module__": 3})()
    imported = Imported()
    assert told(imported) == {
        "by_name": ["by_name"],
        "by_class": ["by_class", "by_class.part"],
        "by_value": ["by_value"],
    }
    assert told(imported) == {}
    module("by_class.more")
    assert told(imported) == {"by_class": ["by_class", "by_class.part", "by_class.more"]}


def test_what_its_own_modules_import_and_not_they_themselves(main: types.ModuleType, module, tmp_path: Path) -> None:
    own = module("own", str(tmp_path))
    own.m, main.own = module("by_own"), own
    assert told(Imported()) == {"by_own": ["by_own"]}


@pytest.mark.parametrize("file", ["/x/site-packages/pytest/__main__.py", str(Path(sys.executable).with_name("pytest"))])
def test_a_program_that_runs_others_says_nothing_of_them(main: types.ModuleType, module, file: str) -> None:
    main.m, main.__file__ = module("by_name"), file
    assert told(Imported()) == {}


def test_it_costs_nothing_while_no_module_comes(main: types.ModuleType, module) -> None:
    imported = Imported()
    assert told(imported) == {}
    main.m = sys.modules["pytest"]  # nobody looks
    assert told(imported) == {}
    module("another")
    assert told(imported) == {}, "pytest is no part of a program"
