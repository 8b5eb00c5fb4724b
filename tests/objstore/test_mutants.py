"""The lists of mutants follow the code: each is found where it says, so that the nightly run begins."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

LISTS = [Path(__file__).with_name("mutants.py"), Path(__file__).parents[1] / "cluster" / "simulated" / "mutants.py"]


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.parent.name)
def test_every_mutant_fits_the_code(path, monkeypatch):
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_mutants", path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setattr(sys, "path", sys.path[:])  # which such a list changes
    spec.loader.exec_module(module)
    assert len(module.MUTANTS) > 20
    assert [
        mutant.name
        for mutant in module.MUTANTS
        for file, old, _ in mutant.replacements
        if (module.CORE / file).read_text().count(old) != 1
    ] == []
