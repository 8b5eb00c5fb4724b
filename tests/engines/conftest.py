"""A session on each engine, and the outcomes of the conformance suite."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, chdir
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from engines import conformance
from engines.clusters import Cluster, cluster_of

import cellmesh
from cellmesh.exceptions import EngineUnsupportedError

_seen: conformance.Outcomes = {}
collect_ignore_glob = [  # for nightly
    f"*test_on_{name}*.py" for name in conformance.LIBRARIES if name not in conformance.HERE
]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-coverage", action="store_true", help="write tests/engines/coverage.json anew")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "capability(name): of an engine, that a test of the conformance suite shows")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "on_engine" in metafunc.fixturenames:
        engines = getattr(metafunc.module, "ENGINES", conformance.HERE)
        metafunc.parametrize("on_engine", engines, indirect=True, scope="module")


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Any:
    """What comes of a test of the suite must be what is written."""
    mark = pyfuncitem.get_closest_marker("capability")
    if mark is None:
        return (yield)
    outcome = conformance.WORKS
    try:
        result = yield
    except EngineUnsupportedError:
        outcome, result = conformance.REFUSED, True
    engine, (capability,), test = pyfuncitem.callspec.params["on_engine"], mark.args, pyfuncitem.originalname
    if pyfuncitem.config.getoption("--record-coverage"):
        _seen.setdefault(engine, {}).setdefault(capability, {})[test] = outcome
        return result
    written = conformance.load().get(engine, {}).get(capability, {}).get(test)
    assert outcome == written, f"{outcome}, and coverage.json has {written}: pytest tests/engines --record-coverage"
    return result


def pytest_sessionfinish() -> None:
    if _seen:
        found = conformance.merged(conformance.load(), _seen)
        conformance.FILE.write_text(json.dumps(found, indent=2) + "\n")


@pytest.fixture(autouse=True)
def _code_travels(code_travels: None) -> None:
    """For all tests here."""


@pytest.fixture(scope="session")
def fake_address() -> str:
    """Of the engine that plays a cluster. As those below, a module may have another one in its place."""
    return "fake:"


@pytest.fixture(scope="session")
def ray_address() -> Iterator[str]:
    """The address of a Ray cluster of two nodes."""
    with cluster_of("ray_cluster.py") as cluster:
        yield f"ray:{cluster.address}"


@pytest.fixture(scope="session")
def dask_address() -> Iterator[str]:
    """The address of a Dask cluster of two workers."""
    with cluster_of("dask_cluster.py") as cluster:
        yield f"dask://{cluster.address}"


@pytest.fixture(scope="module")
def on_engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """cellmesh with a session that has nothing but an engine."""
    address = request.getfixturevalue(f"{request.param}_address")
    with chdir(tmp_path_factory.mktemp("away")):  # from where workers of Ray import first: not from these sources
        cellmesh.init(address=address, object_store_memory=256 << 20)
    cellmesh.get(cellmesh.put(np.zeros(1 << 17)))  # what a process opens with its first large value is not a test's
    yield cellmesh
    cellmesh.shutdown()


@pytest.fixture
def start() -> Iterator[Callable[..., ModuleType]]:
    """start(**arguments): the same with what a test asks for, on the fake engine."""

    def begin(**arguments: Any) -> ModuleType:
        cellmesh.init(address="fake:", object_store_memory=64 << 20, **arguments)
        return cellmesh

    yield begin
    cellmesh.shutdown()


@pytest.fixture
def on_dask() -> Iterator[Callable[..., Cluster]]:
    """on_dask(arguments of `LocalCluster`, init={...}): a session on a cluster of its own."""
    with ExitStack() as ends:

        def start(init: dict[str, Any] | None = None, **arguments: Any) -> Cluster:
            cluster = ends.enter_context(cluster_of("dask_cluster.py", **arguments))
            cellmesh.init(address=cluster, object_store_memory=256 << 20, **(init or {}))
            ends.callback(cellmesh.shutdown)
            return cluster

        yield start
