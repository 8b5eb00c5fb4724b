"""A pytest plugin: joblib's test_parallel on our backend, which takes the place and the name of loky, joblib's own for
processes.
"""

from __future__ import annotations

import joblib
import pytest

import cellmesh
from cellmesh.util.joblib import CellmeshBackend

N_CPUS = 4  # the most jobs that tests wait for at a time


def take_place() -> None:
    """Also in the workers, for what runs a Parallel there. Tests compare the class with what is registered."""
    joblib.register_parallel_backend("loky", CellmeshBackend)
    joblib._parallel_backends.LokyBackend = CellmeshBackend


def pytest_configure() -> None:
    """Before the tests are collected, some of which make a backend then."""
    take_place()
    cellmesh.init(num_cpus=N_CPUS, runtime_env={"worker_process_setup_hook": take_place})


def pytest_unconfigure() -> None:
    cellmesh.shutdown()


def concerns_us(item: pytest.Item) -> bool:
    """Whether a test runs on a backend of that name, or on the default one; most tests run on each of joblib's."""
    callspec = getattr(item, "callspec", None)
    backends = [value for name, value in callspec.params.items() if "backend" in name] if callspec else []
    return not backends or any(
        value in (None, "loky") or type(value).__name__ == "CellmeshBackend" for value in backends
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    others = [item for item in items if not concerns_us(item)]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if concerns_us(item)]
