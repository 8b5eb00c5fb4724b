"""Who outlives whom: detached experiments, sessions that end, controllers of two sessions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.waiting import processes, wait_until

import cellmesh
from cellmesh import tune

DRIVER = """
import sys
import cellmesh
from cellmesh import tune

def train(config):
    start = tune.get_checkpoint()
    i = start.to_dict() if start else 0
    while True:
        i += 1
        tune.report(i=i, checkpoint=i)

cellmesh.init(num_cpus=1, object_store_memory=64 << 20)
if "again" in sys.argv:  # the next run of this program
    search = tune.attach("mine")
    at = search[0].metrics["i"]
    while search[0].metrics["i"] <= at:
        pass
    curve = search[0].curve("i")[1]
    print(search.is_attended, curve == list(range(1, len(curve) + 1)))
    search.stop()
    search.wait(timeout=60)
    print(search[0].state, tune.attach("mine").is_attended, flush=True)
    cellmesh.shutdown()
    sys.exit()
search = tune.Tuner(train, name="mine", stop={"i": 3000} if "ends" in sys.argv else None).start(
    detached="detached" in sys.argv
)
while not len(search) or not search[0].metrics:
    search.refresh()
print("runs", flush=True)
sys.stdin.readline()
"""


def driver(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """A program that has begun an experiment, and waits."""
    script = folder / "driver.py"
    script.write_text(DRIVER)
    process = subprocess.Popen(
        [sys.executable, str(script), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    return process


def runs(process: subprocess.Popen[str]) -> subprocess.Popen[str]:
    """Its experiment runs."""
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "runs"
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_a_detached_experiment_outlives_its_driver(tmp_path: Path) -> None:
    end(runs(driver(tmp_path, "detached")))
    again = driver(tmp_path, "again")
    said, _ = again.communicate(timeout=60)
    assert said.splitlines() == ["True True", "TERMINATED False"]


def test_a_detached_experiment_takes_its_session_with_it_when_it_is_over(tmp_path: Path) -> None:
    before = processes()
    end(runs(driver(tmp_path, "detached", "ends")))
    wait_until(lambda: tune.attach("mine").is_over)
    wait_until(lambda: not processes() - before, what="nothing of the session is left")
    assert tune.attach("mine")[0].metrics["i"] == 3000


def test_another_is_gone_with_its_driver_and_goes_on_in_the_next_session(tmp_path: Path) -> None:
    process = runs(driver(tmp_path))
    try:
        cellmesh.init(num_cpus=1, object_store_memory=64 << 20)
        with pytest.raises(tune.ExperimentBusyError, match="'mine' runs"):
            tune.resume("mine")
        with pytest.raises(tune.ExperimentBusyError, match="'mine' runs"):
            tune.delete("mine")
        end(process)
        search = tune.resume("mine", stop={"i": 1})
        search.wait(timeout=60)
        assert search[0].state == "TERMINATED" and search[0].why == "i has reached 1"
    finally:
        end(process)
        cellmesh.shutdown()


def test_what_ends_with_its_session_goes_on_in_the_next(tmp_path: Path) -> None:
    def train(config: dict[str, int]) -> None:
        start = tune.get_checkpoint()
        for i in range(start.to_dict() if start else 0, 4):
            tune.report(i=i, checkpoint=i + 1)
            while i == 1 and not (tmp_path / "go").exists():
                (tmp_path / "waits").touch()

    for n in range(2):
        cellmesh.init(num_cpus=1, object_store_memory=64 << 20)
        try:
            search = (
                tune.resume("mine") if n else tune.Tuner(train, {"x": tune.grid_search([1, 2])}, name="mine").start()
            )
            if n:
                search.wait(timeout=60)
            else:
                wait_until((tmp_path / "waits").exists)
        finally:
            cellmesh.shutdown()
        if not n:
            assert not search.is_over and search[0].metrics["i"] == 1
            (tmp_path / "go").touch()
    assert [result.curve("i")[1] for result in search] == [[0, 1, 2, 3]] * 2
