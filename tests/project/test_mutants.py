"""The lists of deliberate mistakes follow the code; whether tests catch them is found out at night."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from support.mutation import misfits

TESTS = Path(__file__).resolve().parents[1]
SOURCES = {"tune": "TUNE", "rl": "RL", "train": "CELLMESH", "objstore": "CORE", "cluster/simulated": "CORE"}


def listed(folder: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    path = TESTS / folder / "mutants.py"
    monkeypatch.syspath_prepend(str(path.parent))
    spec = importlib.util.spec_from_file_location(f"mutants_of_{path.parent.name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("folder", SOURCES)
def test_each_mutant_fits_the_sources(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = listed(folder, monkeypatch)
    assert module.MUTANTS and not misfits(module.MUTANTS, getattr(module, SOURCES[folder]))


def test_the_tests_that_are_to_catch_them_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    module = listed("tune", monkeypatch)
    assert all(module.tests_of(mutant) for mutant in module.MUTANTS)
