"""What dies and what is stopped on a Ray cluster. Runs where Ray is, see scripts/testing/kinds.py."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from engines.clusters import named
from support.flags import Flag
from support.waiting import wait_until

import cellmesh
from cellmesh.engines import pocket
from cellmesh.exceptions import TaskCancelledError, WorkerCrashedError

ENGINES = ["ray"]
PATIENCE_S = 60.0


def test_a_worker_that_dies_is_tried_as_often_as_asked(on_engine: ModuleType, tmp_path: Path) -> None:
    @on_engine.remote(max_retries=2)
    def die(folder: Path, n_deaths: int) -> int:
        n = len(os.listdir(folder))
        (folder / str(n)).touch()
        if n < n_deaths:
            os.kill(os.getpid(), signal.SIGKILL)
        return n

    (tmp_path / "twice").mkdir()
    assert on_engine.get(die.remote(tmp_path / "twice", 2), timeout=PATIENCE_S) == 2
    (tmp_path / "always").mkdir()
    with pytest.raises(WorkerCrashedError, match="ran the task 'die' ended, and the task has no retries left"):
        on_engine.get(die.remote(tmp_path / "always", 9), timeout=PATIENCE_S)
    assert len(os.listdir(tmp_path / "always")) == 3


def test_what_runs_is_interrupted(on_engine: ModuleType, tmp_path: Path) -> None:
    @on_engine.remote
    def run(begun: Flag, ended: Flag) -> None:
        begun.set()
        try:
            while True:
                time.sleep(0.01)
        finally:
            ended.set()

    @on_engine.remote
    def one() -> int:
        return 1

    begun, ended = Flag(tmp_path / "begun"), Flag(tmp_path / "ended")
    ref = run.remote(begun, ended)
    begun.wait()
    on_engine.cancel(ref)
    with pytest.raises(TaskCancelledError):
        on_engine.get(ref, timeout=PATIENCE_S)
    ended.wait()
    assert on_engine.get([one.remote() for _ in range(4)], timeout=PATIENCE_S) == [1] * 4


def test_the_process_that_stands_for_ray_dies(on_engine: ModuleType, tmp_path: Path) -> None:
    goes_on = Flag(tmp_path / "goes_on")

    @on_engine.remote
    def wait(n: int) -> int:
        goes_on.wait()
        return n

    refs = [wait.remote(n) for n in range(8)]
    (process,) = wait_until(lambda: named("cellmesh-engine"))
    process.kill()
    goes_on.set()
    assert on_engine.get(refs, timeout=PATIENCE_S) == list(range(8))


def until_packed(call: Callable[[], Any]) -> None:
    """Until calls of a function go together, as it is known to be quick. `call`: a call, that returns, last, whether it
    has come with others."""

    def some_do() -> bool:
        return any(is_packed for _, is_packed in cellmesh.get([call() for _ in range(40)], timeout=PATIENCE_S))

    wait_until(some_do, PATIENCE_S)


def test_after_the_death_of_a_worker_quick_calls_run_alone_and_none_too_often(
    on_engine: ModuleType, tmp_path: Path
) -> None:
    @on_engine.remote
    def quick(folder: Path, n: int) -> tuple[int, bool]:
        is_packed = pocket._batch is not None
        if n >= 0:
            with (folder / str(n)).open("a") as runs:
                runs.write(f"{is_packed}\n")
        if n == 7:
            os.kill(os.getpid(), signal.SIGKILL)
        return n, is_packed

    until_packed(lambda: quick.remote(tmp_path, -1))
    refs = [quick.remote(tmp_path, n) for n in range(100)]
    with pytest.raises(WorkerCrashedError):
        on_engine.get(refs[7], timeout=PATIENCE_S)
    others = on_engine.get(refs[:7] + refs[8:], timeout=PATIENCE_S)
    assert [n for n, _ in others] == [n for n in range(100) if n != 7]
    runs = {n: (tmp_path / str(n)).read_text().split() for n in range(100)}
    assert len(runs[7]) == 4, "max_retries + 1"
    assert runs[7][0] == "True"
    assert all(len(found) <= 2 and found[1:] in ([], ["False"]) for n, found in runs.items() if n != 7)


def test_one_of_several_that_takes_long_is_interrupted_and_no_other(on_engine: ModuleType, tmp_path: Path) -> None:
    begun, goes_on = Flag(tmp_path / "begun"), Flag(tmp_path / "goes_on")

    @on_engine.remote
    def quick(n: int, waits: bool) -> tuple[int, bool]:
        if waits:
            begun.set()
            goes_on.wait(600.0)
        return n, pocket._batch is not None

    until_packed(lambda: quick.remote(0, False))
    refs = [quick.remote(n, n == 50) for n in range(100)]
    begun.wait()
    on_engine.cancel(refs[50])
    with pytest.raises(TaskCancelledError):
        on_engine.get(refs[50], timeout=PATIENCE_S)
    others = on_engine.get(refs[:50] + refs[51:], timeout=PATIENCE_S)
    assert [n for n, _ in others] == [n for n in range(100) if n != 50]
    assert any(packed for _, packed in others)
