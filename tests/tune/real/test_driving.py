"""What the driver does with an experiment that runs: stop, pause, resume, wait, look, delete."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.flags import Counter, Flag
from support.waiting import wait_until

import cellmesh
from cellmesh import front_end, tune
from cellmesh.session.current import running
from cellmesh.tune import tuner
from cellmesh.tune.running import launching

pytestmark = [
    pytest.mark.usefixtures("session"),
    pytest.mark.may_keep("threads", "of the session, which this module shares"),
]
Flags = Callable[[str], Flag]


def endless(config: dict[str, Any]) -> None:
    """Reports for ever, each time with a checkpoint."""
    start = tune.get_checkpoint()
    i = start.to_dict() if start else 0
    while True:
        i += 1
        tune.report(i=i, checkpoint=i)


def states(search: tune.Experiment) -> list[str]:
    return [result.state for result in search]


def test_stop_of_one_and_of_all() -> None:
    search = tune.Tuner(endless, num_samples=2).start()
    wait_until(lambda: len(search) == 2 and all(r.metrics.get("i", 0) > 3 for r in search))
    search.stop(trial=0)
    wait_until(lambda: states(search) == ["TERMINATED", "RUNNING"])
    for act in (search.pause, search.resume):
        with pytest.raises(tune.TuneError, match=rf"trial 0 of .* has ended \(TERMINATED\).*nothing to {act.__name__}"):
            act(trial=0)
    search.stop(why="enough")
    search.wait()
    assert states(search) == ["TERMINATED", "TERMINATED"] and search.is_over
    for act in (search.pause, search.resume):
        with pytest.raises(tune.TuneError, match=f"is over, so there is nothing to {act.__name__}"):
            act()
    assert search[1].why == "enough" and search[1].metrics["i"] > 3 and search[1].checkpoint is not None
    search.stop()  # which is over
    with pytest.raises(IndexError, match="trials 0 to 1"):
        search.stop(trial=2)


@pytest.mark.parametrize(
    ("place", "verbose"),
    [("preload", 1), ("preload", 0), ("experiment_started", 1), ("experiment_started", 0), ("show_progress", 1)],
)
def test_an_interrupt_before_somebody_waits_for_a_new_experiment_stops_it(
    place: str, verbose: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def is_interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    owners = {"preload": launching, "experiment_started": type(front_end.current), "show_progress": tuner}
    monkeypatch.setattr(owners[place], place, is_interrupted)
    with pytest.raises(KeyboardInterrupt):
        tune.Tuner(endless, name="shown", verbose=verbose).fit()
    assert capsys.readouterr().err.count("shown has been stopped") == verbose
    assert tune.attach("shown").wait(20).is_over


def test_an_interrupt_is_silent_also_where_an_experiment_is_resumed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    search = tune.Tuner(endless, name="again").start()
    search.stop()
    search.wait()

    def is_interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(type(front_end.current), "experiment_started", is_interrupted)
    with pytest.raises(KeyboardInterrupt):
        tune.Tuner(endless, name="again", if_exists="resume", verbose=0).fit()
    assert not capsys.readouterr().err
    assert tune.attach("again").wait(20).is_over


def test_pause_and_resume_of_one_and_of_all() -> None:
    search = tune.Tuner(endless, num_samples=2).start()
    wait_until(lambda: len(search) == 2 and all(r.metrics.get("i", 0) > 3 for r in search))
    search.pause(trial=1)
    wait_until(lambda: search[1].state == "PAUSED")
    before = search[0].metrics["i"]
    wait_until(lambda: search[0].metrics["i"] > before)
    search.pause()
    wait_until(lambda: states(search) == ["PAUSED", "PAUSED"])
    at = search[1].metrics["i"]
    search.resume(trial=1)
    wait_until(lambda: search[1].metrics["i"] > at and search[0].state == "PAUSED")
    steps = list(search[1].curve("i")[1])
    assert steps == sorted(set(steps)), "it goes on from its checkpoint"
    search.resume()
    wait_until(lambda: search[0].state == "RUNNING")
    search.stop()
    search.wait()


def test_a_trial_that_is_held_in_a_report_leaves_its_cpu_to_others(flag: Flags) -> None:
    def train(config: dict[str, Any]) -> None:
        for i in range(3):
            tune.report(i=i)  # without a checkpoint: it is held while it is paused
            if i == 0:
                flag("paused").wait()

    search = tune.Tuner(train, resources={"cpu": 2}).start()
    wait_until(lambda: len(search) == 1 and search[0].metrics)
    search.pause()
    flag("paused").set()
    wait_until(lambda: search[0].metrics["i"] == 1)
    take = cellmesh.remote(num_cpus=2)(lambda: "ran")
    assert cellmesh.get(take.remote(), timeout=30) == "ran"
    search.resume()
    search.wait()
    assert search[0].metrics["i"] == 2 and search[0].curve("i")[1] == [0, 1, 2]


@pytest.mark.parametrize(
    "stop", [{"i": 3}, lambda trial, result: result["i"] >= 3, tune.MaximumIterationStopper(3), [{"i": 3}, {"i": 9}]]
)
def test_stop_by_a_criterion(stop: Any) -> None:
    found = tune.Tuner(endless, num_samples=3, stop=stop).fit()
    assert [result.metrics["i"] for result in found] == [3, 3, 3]


def test_the_time_budget_ends_it() -> None:
    found = tune.Tuner(endless, num_samples=-1, time_budget_s=0.3).fit()
    assert "time budget of 0.3 s" in found[0].why and found.is_over


def test_a_time_budget_counts_what_has_run_before() -> None:
    search = tune.Tuner(endless, num_samples=2, time_budget_s=0.3, name="budget").fit()
    attempts = [trial.attempt for trial in search.refresh().trials]
    assert "tune.resume('budget', time_budget_s=...) gives it more" in search[0].why
    again = tune.resume("budget").wait(60)
    assert [trial.attempt for trial in again.refresh().trials] == attempts, "nothing is left of it"
    with pytest.raises(ValueError, match="time_budget_s=0"):
        tune.resume("budget", time_budget_s=0)
    again = tune.resume("budget", time_budget_s=600)
    wait_until(lambda: [t.attempt for t in again.refresh().trials if t.n_results] == [n + 1 for n in attempts])
    again.stop()
    assert "600" not in again.wait(60)[0].why


def test_no_more_at_a_time_than_asked_for(counter: Counter, tmp_path: Path) -> None:
    def train(config: dict[str, Any]) -> dict[str, Any]:
        place = tmp_path / "running"
        place.mkdir()  # which raises if it is there
        tune.report(n=counter.add())
        place.rmdir()
        return {"n": 0}

    assert tune.Tuner(train, num_samples=5, max_concurrent=1).fit().num_terminated == 5
    assert tune.Tuner(train, num_samples=5, resources={"cpu": 2}).fit().num_terminated == 5


def test_tasks_inside_a_trial() -> None:
    def train(config: dict[str, Any]) -> dict[str, Any]:
        double = cellmesh.remote(lambda x: 2 * x)
        return {"sum": sum(cellmesh.get([double.remote(i) for i in range(10)]))}

    assert [r.metrics["sum"] for r in tune.Tuner(train, num_samples=3).fit()] == [90, 90, 90]


def test_two_experiments_at_once() -> None:
    searches = [tune.Tuner(endless, num_samples=2, stop={"i": 20}, name=name).start() for name in ("one", "two")]
    for search in searches:
        search.wait()
        assert [r.metrics["i"] for r in search] == [20, 20]
    assert {e["name"] for e in tune.experiments()} == {"one", "two"}
    assert all(e["is_over"] for e in tune.experiments())


def test_the_same_name_in_two_places(tmp_path: Path) -> None:
    searches = [
        tune.Tuner(endless, {"x": place}, name="same", storage_path=str(tmp_path / place)).start()
        for place in ("here", "there")
    ]
    wait_until(lambda: all(len(search) for search in searches))
    found = tune.attach("same", str(tmp_path / "there"))
    assert found[0].config == {"x": "there"}
    found.stop()
    found.wait()
    assert not searches[0].is_over
    searches[0].stop()
    searches[0].wait()


def test_a_callback_that_raises_is_told_once(flag: Flags) -> None:
    class Mine(tune.Callback):
        def on_trial_result(self, iteration: int, trials: Any, trial: Any, result: Any, **info: Any) -> None:
            raise RuntimeError(f"no {result['i']}")

        def on_experiment_end(self, trials: Any, **info: Any) -> None:
            flag("end").set(json.dumps([(t.trial_id, t.status, t.last_result["i"]) for t in trials]))

    search = tune.Tuner(endless, stop={"i": 5}, callbacks=[Mine()]).start()
    search.wait()
    told = [text for text in search.refresh().told if "Mine.on_trial_result" in text]
    assert len(told) == 1 and "RuntimeError: no 1" in told[0] and "test_driving.py" in told[0]
    assert json.loads(flag("end").wait()) == [["00000", "TERMINATED", 5]]


def test_a_name_that_exists(counter: Counter) -> None:
    def train(config: dict[str, Any]) -> dict[str, Any]:
        return {"n": counter.add()}

    tune.Tuner(train, name="mine").fit()
    with pytest.raises(tune.ExperimentExistsError, match=r"tune.attach\('mine'\)"):
        tune.Tuner(train, name="mine").fit()
    again = tune.Tuner(train, name="mine", if_exists="resume").fit()
    assert counter.value == 1 and again[0].metrics["n"] == 1
    other = tune.Tuner(train, name="mine", if_exists="replace").fit()
    assert counter.value == 2 and other[0].metrics["n"] == 2


def test_one_that_runs_is_not_deleted_replaced_or_resumed() -> None:
    search = tune.Tuner(endless, name="mine").start()
    for attempt in (
        lambda: tune.delete("mine"),
        lambda: tune.resume("mine"),
        lambda: tune.Tuner(endless, name="mine", if_exists="replace").start(),
        lambda: tune.Tuner(endless, name="mine", if_exists="resume").start(),
    ):
        with pytest.raises(tune.ExperimentBusyError, match="'mine' runs"):
            attempt()
    wait_until(lambda: len(search) == 1 and search[0].metrics)
    search.stop()
    search.wait()
    tune.delete("mine")
    assert tune.experiments() == [] and not Path(search.path).exists()
    with pytest.raises(tune.ExperimentNotFoundError, match="there are none"):
        tune.attach("mine")
    assert len(search) == 1 and repr(search) == "<Experiment mine: 1 ended, deleted>"


def test_of_those_who_begin_the_same_at_once_one_does(counter: Counter) -> None:
    def train(config: dict[str, Any]) -> dict[str, Any]:
        return {"n": counter.add()}

    def begin(_: int) -> tune.Experiment | tune.TuneError:
        try:
            return tune.Tuner(train, num_samples=3, name="mine").start()
        except (tune.ExperimentBusyError, tune.ExperimentExistsError) as error:
            return error

    with ThreadPoolExecutor(4) as pool:
        found = [one for one in pool.map(begin, range(4)) if isinstance(one, tune.Experiment)]
    assert len(found) == 1 and len(found[0].wait(timeout=60)) == 3 and counter.value == 3


def test_one_that_is_over_is_replaced_though_nobody_has_waited_for_it() -> None:
    search = tune.Tuner(endless, name="mine", stop={"i": 2}).start()
    wait_until(lambda: search.is_over)
    again = tune.Tuner(endless, name="mine", stop={"i": 3}, if_exists="replace").fit()
    assert again[0].metrics["i"] == 3


def test_the_controller_goes_though_nobody_waits() -> None:
    tune.Tuner(endless, name="mine", stop={"i": 2}).start()
    wait_until(lambda: tune.attach("mine").is_over)
    wait_until(lambda: not [a for a in cellmesh.state.list_actors() if a["state"] == "alive"])
    found = tune.attach("mine")
    assert found.wait()[0].metrics["i"] == 2


def test_it_runs_though_nobody_holds_it() -> None:
    tune.Tuner(endless, name="mine", stop={"i": 50}).start()
    wait_until(lambda: tune.attach("mine").is_over)
    assert tune.attach("mine")[0].metrics["i"] == 50


LOOK = """
import json, sys
import cellmesh
from cellmesh import front_end, tune
cellmesh.init(sys.argv[1])
search = tune.attach("mine")
print(json.dumps([search.is_attended, search[0].state]), flush=True)
search.stop(trial=0)
search.wait()
print(json.dumps([search.is_over, search[0].metrics["i"]]))
cellmesh.shutdown()
"""
READ = """
from cellmesh import tune
import cellmesh
search = tune.attach("mine")
print(search[0].state, search.is_over)
for what in (search.stop, search.wait):
    try:
        what()
    except tune.TuneError as error:
        print(error)
"""
ALONE = """
import sys
import cellmesh
from cellmesh import tune
cellmesh.init(num_cpus=1)
found = tune.Tuner(lambda config: {"x": 1}, metric="x", verbose=0).fit()
print(found.best.metrics["x"], [name for name in ("asyncio", "numpy") if name in sys.modules])
cellmesh.shutdown()
"""


def test_a_driver_does_not_import_what_its_controller_needs() -> None:
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, timeout=60)
    assert done.stdout == "1 []\n", done.stdout + done.stderr


def test_attach_from_another_process() -> None:
    search = tune.Tuner(endless, name="mine").start()
    wait_until(lambda: len(search) == 1 and search[0].metrics)
    read = subprocess.run([sys.executable, "-c", READ], capture_output=True, text=True, timeout=60)
    lines = read.stdout.splitlines()
    assert lines[:1] == ["RUNNING False"], read.stdout + read.stderr
    assert all("another session" in line for line in lines[1:3]) and len(lines) == 3, read.stdout
    address = f"{running().node.session_dir}/node.sock"
    joined = subprocess.run([sys.executable, "-c", LOOK, address], capture_output=True, text=True, timeout=60)
    assert joined.returncode == 0, joined.stderr
    first, last = map(json.loads, joined.stdout.splitlines())
    assert first == [True, "RUNNING"] and last[0] is True
    search.wait()
    assert search[0].metrics["i"] >= last[1]


def test_a_wait_ends_in_time() -> None:
    search = tune.Tuner(endless, name="mine").start()
    began = time.monotonic()
    with pytest.raises(cellmesh.exceptions.GetTimeoutError):
        search.wait(timeout=0.1)
    assert time.monotonic() - began < 20
    search.stop()
    search.wait(timeout=30)


class Newborn:
    """An actor has a process of its own."""

    def has(self, *names: str) -> bool:
        return all(name in sys.modules for name in names)


def test_processes_that_begin_later_have_the_modules_of_tune_and_of_the_searcher() -> None:
    tune.Tuner(lambda config: {"i": config["x"]}, {"x": tune.uniform(0, 1)}, metric="i", search_alg="tpe").fit()
    newborn = cellmesh.remote(num_cpus=0)(Newborn)
    names = ("cellmesh.tune.running.host", "cellmesh.tune.trainable", "optuna")
    wait_until(lambda: cellmesh.get(newborn.remote().has.remote(*names)))


def test_what_a_searcher_refuses_is_told_as_such() -> None:
    for space in ({}, {"x": (0, 2)}):
        with pytest.raises(tune.SpaceError, match="there is nothing to search") as raised:
            tune.Tuner(lambda config: {"i": 1}, space, metric="i", search_alg="tpe", name="mine").fit()
        assert "Host" not in str(raised.value)
    found = tune.Tuner(lambda config: {"i": 1}, {"x": tune.uniform(0, 2)}, metric="i", search_alg="tpe", name="mine")
    assert found.fit()[0].state == "TERMINATED", "its name is free"
