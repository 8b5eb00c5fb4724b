"""A session on a machine with a CUDA device; elsewhere these tests say that nothing of GPUs is tested."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import cellmesh


@pytest.fixture(autouse=True)
def _code_travels(code_travels: None) -> None:
    """For all tests here."""


@pytest.fixture(scope="session")
def torch() -> Any:
    """torch, on a machine with a GPU."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("NOTHING OF GPUS IS TESTED: this machine has no CUDA device, nor torch")
    found: Any = importlib.import_module("torch")
    if not found.cuda.is_available():
        pytest.skip("NOTHING OF GPUS IS TESTED: torch sees no CUDA device on this machine")
    return found


@pytest.fixture(autouse=True)
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the trainings and searches of this test lie."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.fixture(scope="module")
def session(torch: Any) -> Iterator[None]:
    """Four CPUs, and the GPUs of the machine."""
    cellmesh.init(num_cpus=4, object_store_memory=1 << 30)
    yield
    cellmesh.shutdown()
