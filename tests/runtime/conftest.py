"""A session for each test or for a file's tests, with two CPUs, and flags to synchronise with tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from support.flags import Counter, Flag
from support.shared.anew import has_failed
from support.shared.session import SharedSession
from support.waiting import Holdings

import cellmesh


def _two_cpus() -> None:
    cellmesh.init(num_cpus=2, object_store_memory=256 << 20)


def _shares(request: pytest.FixtureRequest) -> bool:
    mark = request.node.get_closest_marker("session")
    whose = "own" if mark is None else mark.args[0]
    assert whose in ("shared", "own"), f'pytest.mark.session("{whose}"): it is "shared" or "own"'
    return whose == "shared" and "cm" in request.fixturenames


@pytest.fixture(autouse=True)
def _code_travels(code_travels: None) -> None:
    """For all tests here."""


@pytest.fixture(scope="module")
def _session_of_the_file() -> Iterator[SharedSession]:
    shared = SharedSession(_two_cpus)
    yield shared
    shared.end()


@pytest.fixture
def add_begun_by_others(
    request: pytest.FixtureRequest, _session_of_the_file: SharedSession
) -> Callable[[Holdings], None]:
    """The session that a file's tests share is there before it is looked what each of them leaves."""
    if _shares(request):
        _session_of_the_file.begin()
    else:
        _session_of_the_file.end()
    return lambda holdings: _session_of_the_file.add_begun(holdings, request.node.nodeid)


@pytest.fixture
def cm(request: pytest.FixtureRequest, _session_of_the_file: SharedSession) -> Iterator[ModuleType]:
    """cellmesh with a session of two CPUs, ended after the test, or looked at where the file's tests share one."""
    if not _shares(request):
        _two_cpus()
        yield cellmesh
        cellmesh.shutdown()
        return
    yield cellmesh
    if has_failed(request.node):
        _session_of_the_file.end()  # its error holds what it had
    else:
        _session_of_the_file.check()


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
