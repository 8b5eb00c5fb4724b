"""What dies, and what is stopped, of tasks with a `runtime_env` on clusters. Runs where they are, see
scripts/testing/kinds.py."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from types import ModuleType

import pytest
from engines import conformance
from support.flags import Flag

from cellmesh.exceptions import TaskCancelledError, WorkerCrashedError

ENGINES = [name for name in conformance.HERE if name != "fake"]
PATIENCE_S = 60.0
THERE = {"env_vars": {"CM_THERE": "1"}}


def test_one_that_dies_is_tried_as_often_as_asked(on_engine: ModuleType, tmp_path: Path) -> None:
    @on_engine.remote(max_retries=1, runtime_env=THERE)
    def die(folder: Path, n_deaths: int) -> tuple[int, str]:
        n = len(os.listdir(folder))
        (folder / str(n)).touch()
        if n < n_deaths:
            os.kill(os.getpid(), signal.SIGKILL)
        return n, os.environ["CM_THERE"]

    for name, n_deaths in (("once", 1), ("always", 9)):
        (tmp_path / name).mkdir()
        ref = die.remote(tmp_path / name, n_deaths)
        if n_deaths == 1:
            assert on_engine.get(ref, timeout=PATIENCE_S) == (1, "1")
        else:
            with pytest.raises(WorkerCrashedError, match="'die' ended, and the task has no retries left"):
                on_engine.get(ref, timeout=PATIENCE_S)
            assert len(os.listdir(tmp_path / name)) == 2


def test_one_that_runs_is_interrupted(on_engine: ModuleType, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if request.node.callspec.params["on_engine"] == "dask":
        pytest.skip("Dask interrupts nothing that runs")

    @on_engine.remote(runtime_env=THERE)
    def run(begun: Flag, ended: Flag) -> None:
        begun.set()
        try:
            while True:
                time.sleep(0.01)
        finally:
            ended.set()

    @on_engine.remote(runtime_env=THERE)
    def one() -> int:
        return 1

    begun, ended = Flag(tmp_path / "begun"), Flag(tmp_path / "ended")
    ref = run.remote(begun, ended)
    begun.wait()
    on_engine.cancel(ref)
    ended.wait()
    with pytest.raises(TaskCancelledError):
        on_engine.get(ref, timeout=PATIENCE_S)
    assert on_engine.get([one.remote() for _ in range(10)], timeout=PATIENCE_S) == [1] * 10
