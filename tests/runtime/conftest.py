"""A session for each test, with two CPUs, and flags to synchronise with tasks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import cloudpickle
import pytest
from support.flags import Counter, Flag

import cellmesh


@pytest.fixture(autouse=True)
def _code_travels(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a test module defines is sent by value, as from a notebook: workers cannot import test modules."""
    module = sys.modules[request.module.__name__]
    cloudpickle.register_pickle_by_value(module)
    yield
    cloudpickle.unregister_pickle_by_value(module)


@pytest.fixture
def cm() -> Iterator[ModuleType]:
    """cellmesh with a session of two CPUs, ended after the test."""
    cellmesh.init(num_cpus=2, object_store_memory=256 << 20)
    yield cellmesh
    cellmesh.shutdown()


@pytest.fixture
def one_cpu() -> Iterator[ModuleType]:
    """Likewise with one CPU."""
    cellmesh.init(num_cpus=1, object_store_memory=64 << 20)
    yield cellmesh
    cellmesh.shutdown()


@pytest.fixture
def flag(tmp_path: Path) -> Callable[[str], Flag]:
    """flag("started") is the same flag everywhere."""
    return lambda name: Flag(tmp_path / name)


@pytest.fixture
def counter(tmp_path: Path) -> Counter:
    """Counts what tasks do."""
    return Counter(tmp_path / "counter")
