"""A session for the tests of a module; what test modules define travels to tasks by value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.flags import Flag

import cellmesh


@pytest.fixture(autouse=True)
def _code_travels(code_travels: None) -> None:
    """For all tests here."""


@pytest.fixture(autouse=True)
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the trainings of this test lie."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "cellmesh" / "tune"


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    """Four CPUs, whatever the machine has: ranks mostly wait for each other."""
    cellmesh.init(num_cpus=4, object_store_memory=256 << 20)
    yield
    cellmesh.shutdown()


@pytest.fixture
def flag(tmp_path: Path) -> Callable[[str], Flag]:
    """flag("started") is the same flag everywhere."""
    return lambda name: Flag(tmp_path / name)
