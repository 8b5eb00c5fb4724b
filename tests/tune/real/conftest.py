"""A session with two CPUs for the tests of a module, and experiments in a folder of each test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.flags import Counter, Flag

import cellmesh


@pytest.fixture(autouse=True)
def _code_travels(code_travels: None) -> None:
    """For all tests here."""


@pytest.fixture(autouse=True)
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the experiments of this test lie."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("cellmesh.tune.experiment.elsewhere", {})
    return tmp_path / "cellmesh" / "tune"


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    """Two CPUs, for all tests of a module that take it."""
    cellmesh.init(num_cpus=2, object_store_memory=256 << 20)
    yield
    cellmesh.shutdown()


@pytest.fixture
def flag(tmp_path: Path) -> Callable[[str], Flag]:
    """flag("started") is the same flag everywhere."""
    return lambda name: Flag(tmp_path / name)


@pytest.fixture
def counter(tmp_path: Path) -> Counter:
    """Counts what trials do."""
    return Counter(tmp_path / "counter")
