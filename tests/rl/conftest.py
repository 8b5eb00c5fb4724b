"""A session with two CPUs for the tests of a module, whose code travels by value."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import cloudpickle
import pytest

import cellmesh
from cellmesh.util import preload

pytest.importorskip("gymnasium", reason="no gymnasium: pip install 'cellmesh[rl]'")


@pytest.fixture(autouse=True)
def _code_travels(request: pytest.FixtureRequest) -> Iterator[None]:
    """What test modules define is sent by value: workers cannot import them."""
    modules = [
        sys.modules[request.module.__name__],
        *(sys.modules[m] for m in ("support.probe_envs",) if m in sys.modules),
    ]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    yield
    for module in modules:
        cloudpickle.unregister_pickle_by_value(module)


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    """Two CPUs, for all tests of a module that take it."""
    cellmesh.init(num_cpus=2, object_store_memory=256 << 20)
    yield
    cellmesh.shutdown()


@pytest.fixture(scope="module")
def session_with_torch(session: None) -> None:
    """That, whose workers have torch from their birth: each that learns would import it, for a second and a half."""
    preload("torch")
