"""A machine of a Ray cluster is lost. Runs where Ray is, see scripts/testing/kinds.py. In a file of its own, as the
session here is no module's."""

from __future__ import annotations

from pathlib import Path

import pytest
from engines.clusters import cluster_of, named
from support.flags import Flag
from support.waiting import wait_until

import cellmesh

PATIENCE_S = 60.0


def test_a_machine_of_ray_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # from where workers of Ray import first
    with cluster_of("ray_cluster.py") as cluster:
        cellmesh.init(address=f"ray:{cluster.address}", object_store_memory=256 << 20)
        try:
            check_that_its_tasks_run_elsewhere(tmp_path)
        finally:
            cellmesh.shutdown()


def check_that_its_tasks_run_elsewhere(folder: Path) -> None:
    @cellmesh.remote(num_cpus=2)
    def wait(n: int, begun: Flag, goes_on: Flag) -> int:
        begun.set()
        goes_on.wait()
        return n

    begun = [Flag(folder / f"begun {n}") for n in range(2)]
    goes_on = Flag(folder / "goes_on")
    refs = [wait.remote(n, begun[n], goes_on) for n in range(2)]
    for flag in begun:
        flag.wait()
    *_, second = named("raylet")
    second.kill()
    goes_on.set()
    assert cellmesh.get(refs, timeout=PATIENCE_S) == [0, 1]
    wait_until(lambda: cellmesh.nodes()[1]["Resources"]["CPU"] == 2, deadline=PATIENCE_S)
