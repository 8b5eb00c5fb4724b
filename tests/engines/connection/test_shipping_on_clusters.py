"""Workers of real clusters that have no cellmesh, or another one. Runs where they are, see scripts/testing/kinds.py."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, chdir
from pathlib import Path
from typing import Any

import pytest
from engines import conformance
from engines.clusters import Cluster, cluster_of

import cellmesh
from cellmesh.exceptions import EngineVersionError

ENGINES = [name for name in conformance.HERE if name != "fake"]
BEGINS = {"ray": "ray:", "dask": "dask://"}
PATIENCE_S = 60.0

Start = Callable[..., Cluster]


@cellmesh.remote
def where() -> str:
    """Where cellmesh is, by a task of that one's."""
    return cellmesh.get(cellmesh.remote(lambda: str(cellmesh.__file__)).remote())


@pytest.fixture(params=ENGINES)
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Start]:
    """start(path, engine_options=None, **more): a session on a cluster that finds modules there alone."""
    with ExitStack() as ends:

        def begin(path: str, engine_options: dict[str, Any] | None = None, **more: Any) -> Cluster:
            ends.enter_context(chdir(tmp_path))
            cluster = ends.enter_context(cluster_of(f"{request.param}_cluster.py", path, **more))
            cellmesh.init(
                address=BEGINS[request.param] + cluster.address,
                object_store_memory=256 << 20,
                engine_options=engine_options,
            )
            ends.callback(cellmesh.shutdown)
            return cluster

        yield begin


@pytest.fixture
def old(tmp_path: Path) -> str:
    """A folder with another version of cellmesh."""
    (tmp_path / "old/cellmesh/objstore").mkdir(parents=True)
    (tmp_path / "old/cellmesh/__init__.py").write_text('__version__ = "0.0.1"\n')
    (tmp_path / "old/cellmesh/objstore/_core.py").write_text("")
    return str(tmp_path / "old")


def test_workers_without_cellmesh_are_sent_it(start: Start) -> None:
    start("")
    assert cellmesh.get(where.remote(), timeout=PATIENCE_S) != cellmesh.__file__

    @cellmesh.remote
    class Threaded:  # which lives in a process beside the worker
        def where(self) -> str:
            return str(cellmesh.__file__)

    actor = Threaded.options(max_concurrency=2).remote()
    assert cellmesh.get(actor.where.remote(), timeout=PATIENCE_S) != cellmesh.__file__

    @cellmesh.remote(runtime_env={"env_vars": {"CM_THERE": "1"}})
    def in_environment() -> tuple[str, str]:
        return os.environ["CM_THERE"], str(cellmesh.__file__)

    value, path = cellmesh.get(in_environment.remote(), timeout=PATIENCE_S)
    assert (value, path == cellmesh.__file__) == ("1", False)


def test_workers_with_another_version_are_sent_this_one(start: Start, old: str) -> None:
    start(old)
    assert not cellmesh.get(where.remote(), timeout=PATIENCE_S).startswith(old)


def test_what_is_not_to_be_sent_is_an_error_that_says_how(start: Start, old: str) -> None:
    with pytest.raises(
        EngineVersionError, match=r'has no cellmesh: install it there, .* or leave engine_options=\{"sh'
    ):
        start("", {"ship": False})
    with pytest.raises(EngineVersionError, match=r"has cellmesh 0\.0\.1, and this program has cellmesh"):
        start(old, {"ship": False})


def test_the_same_version_is_sent_where_that_is_asked_for(start: Start) -> None:
    start(os.environ["PYTHONPATH"], {"ship": True})
    assert cellmesh.get(where.remote(), timeout=PATIENCE_S) != cellmesh.__file__


@pytest.mark.skipif("dask" not in ENGINES, reason="Ray gives each worker of a job what the job has")
@pytest.mark.parametrize("start", ["dask"], indirect=True)
def test_workers_that_come_later_have_it(start: Start, tmp_path: Path) -> None:
    cluster = start("", n_workers=1)
    cluster.do("scale", n=2)
    (tmp_path / "pids").mkdir()

    @cellmesh.remote
    def meet(folder: Path) -> int:
        (folder / str(os.getpid())).touch()
        while len(os.listdir(folder)) < 2:
            time.sleep(0.01)
        return os.getpid()

    pids = cellmesh.get([meet.remote(tmp_path / "pids") for _ in range(2)], timeout=PATIENCE_S)
    assert len({*pids}) == 2
