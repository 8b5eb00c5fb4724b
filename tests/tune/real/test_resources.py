"""What trials take: by their configurations, and in several bundles."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest
from support.flags import Flag
from support.waiting import wait_until

import cellmesh
from cellmesh import tune
from cellmesh.tune.yielding import as_batch_work
from cellmesh.util import get_current_placement_group, placement_group_table

pytestmark = pytest.mark.usefixtures("session")


@cellmesh.remote
def in_a_group() -> bool:
    return get_current_placement_group() is not None


def with_parts(config: dict[str, Any]) -> dict[str, Any]:
    parts = cellmesh.get([in_a_group.remote() for _ in range(2)])
    return {"score": config["x"], "parts": sum(parts), "cpus": tune.get_context().get_trial_resources()["num_cpus"]}


def test_a_trial_of_several_bundles_has_them_for_its_tasks() -> None:
    for bundles in ([{"cpu": 1}, {"cpu": 1}], [{}, {"cpu": 1}, {"cpu": 1}]):
        found = tune.Tuner(
            with_parts,
            {"x": tune.grid_search([1, 2, 3])},
            metric="score",
            resources=tune.PlacementGroupFactory(bundles),
        ).fit()
        assert not found.errors and [result.metrics["parts"] for result in found] == [2, 2, 2]
        assert found.best.metrics["cpus"] == len(bundles[0])
        assert found.refresh().capacity == 1, "both CPUs are taken by one trial"
        wait_until(lambda: not placement_group_table(), what="no group outlives its trial")
    wait_until(lambda: cellmesh.available_resources()["CPU"] == 2, what="the CPUs are free again")


def test_what_a_trial_takes_follows_from_its_configuration() -> None:
    def train(config: dict[str, Any]) -> dict[str, Any]:
        return {"score": tune.get_context().get_trial_resources()["num_cpus"]}

    found = tune.Tuner(
        train,
        {"cpus": tune.grid_search([1, 0, 2, 64])},
        metric="score",
        resources=lambda config: {"cpu": config["cpus"]},
    ).fit()
    assert [result.metrics.get("score") for result in found] == [1, 0, 2, None]
    assert [(error.number, "CPU 64" in error.error) for error in found if error.error] == [(3, True)]


def test_resources_that_fail_end_the_experiment() -> None:
    tuner = tune.Tuner(lambda config: {}, {"x": 1}, resources=lambda config: {"cpu": config["y"]})
    with pytest.raises(tune.TuneError, match=r"resources failed for the configuration \{'x': 1\}: KeyError: 'y'"):
        tuner.fit()


@pytest.mark.parametrize("resources", [{"gpu": 1}, tune.PlacementGroupFactory([{"cpu": 2}, {"cpu": 1}])])
def test_what_no_machine_has_is_an_error(resources: Any) -> None:
    with pytest.raises(tune.TuneError, match="no machine has what a trial takes"):
        tune.Tuner(lambda config: {}, resources=resources).fit()


def test_a_function_of_the_configuration_is_given_again_to_go_on() -> None:
    def takes(config: dict[str, Any]) -> dict[str, float]:
        return {"cpu": config["x"]}

    def train(config: dict[str, Any]) -> dict[str, Any]:
        return {"score": config["x"]}

    space = {"x": tune.grid_search([1, 2])}
    tune.Tuner(train, space, metric="score", name="takes", resources=takes).fit()
    with pytest.raises(tune.TuneError, match="resources="):
        tune.resume("takes")
    assert len(tune.resume("takes", resources=takes).wait(60)) == 2
    assert len(tune.resume("takes", tune.with_resources(train, takes)).wait(60)) == 2


def kill_controller() -> None:
    (pid,) = [row["pid"] for row in cellmesh.state.list_actors() if row["state"] == "alive"]
    os.kill(pid, signal.SIGKILL)


def test_no_group_outlives_a_controller_that_dies(flag: Callable[[str], Flag]) -> None:
    started = flag("started")

    def train(config: dict[str, Any]) -> None:
        started.set()
        while True:
            tune.report(i=1)

    search = tune.Tuner(train, resources=tune.PlacementGroupFactory([{"cpu": 1}, {"cpu": 1}])).start()
    started.wait()
    assert len(placement_group_table()) == 1
    kill_controller()
    with pytest.raises(tune.TuneError):
        search.wait(60)
    wait_until(lambda: not placement_group_table(), what="the group is gone")
    wait_until(lambda: cellmesh.available_resources()["CPU"] == 2, what="the CPUs are free again")


def test_a_trial_ends_quietly_when_its_controller_has_died(flag: Callable[[str], Flag]) -> None:
    started, go, ended = flag("started"), flag("go"), flag("ended")

    def train(config: dict[str, Any]) -> None:
        started.set()
        go.wait()
        try:
            tune.report(i=1)
        except tune.StopTrial:
            ended.set()
            raise

    search = tune.Tuner(train, name="left-alone").start()
    started.wait()
    kill_controller()
    with pytest.raises(tune.TuneError):
        search.wait(60)
    go.set()
    ended.wait()
    wait_until(lambda: not cellmesh.state.list_tasks(filters=[("state", "=", "running")]), what="the trial is over")
    assert search.name not in [row["name"] for row in cellmesh.error_info()]


def test_trials_beyond_the_cpus_let_others_go_first() -> None:
    def train(config: dict[str, Any]) -> dict[str, Any]:
        return {"is_batch": os.sched_getscheduler(0) == os.SCHED_BATCH}

    little = {"cpu": 1 / len(os.sched_getaffinity(0)) / 2}
    crowded = tune.Tuner(train, num_samples=2, resources=little).fit()
    alone = tune.Tuner(train, num_samples=2, resources=little, max_concurrent=1).fit()
    assert [found.metrics["is_batch"] for found in (*crowded, *alone)] == [True, True, False, False]


@pytest.mark.parametrize(("before", "within"), [(os.SCHED_OTHER, os.SCHED_BATCH), (os.SCHED_IDLE, os.SCHED_IDLE)])
def test_the_policy_of_the_thread_is_put_back(before: int, within: int) -> None:
    seen: list[int] = []

    def run() -> None:  # in a thread, with which its policy ends
        os.sched_setscheduler(0, before, os.sched_param(0))
        with pytest.raises(KeyError), as_batch_work():
            seen.append(os.sched_getscheduler(0))
            raise KeyError
        seen.append(os.sched_getscheduler(0))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [within, before]


def test_a_system_that_refuses_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    with as_batch_work():
        assert os.sched_getscheduler(0) == os.SCHED_OTHER
