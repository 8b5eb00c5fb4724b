"""Tune as it was in 2018, on `compat.ray`: functions with a reporter, dicts of experiments, classes with `_train`."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from support.waiting import wait_until

import cellmesh as cm
from cellmesh.compat.ray import tune
from cellmesh.compat.ray.tune import legacy
from cellmesh.compat.ray.tune.legacy import TrainingResult

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # which workers cannot import

# The program that introduced Tune, with a bound that all trials reach, or some.
PROGRAM = """
from ray.tune import register_trainable, grid_search, run_experiments

def my_func(config, reporter):
    import time, numpy as np
    i = 0
    while True:
        reporter(timesteps_total=i, mean_accuracy=(i ** config['alpha']))
        i += config['beta']
        time.sleep(PAUSE)

register_trainable('my_func', my_func)

trials = run_experiments({
    'my_experiment': {
        'run': 'my_func',
        'resources': {'cpu': 1, 'gpu': 0},
        'stop': {'mean_accuracy': BOUND},
        'config': {
            'alpha': grid_search([0.2, 0.4, 0.6]),
            'beta': grid_search([1, 2]),
        },
    }
})
for trial in trials:
    print(trial.config['alpha'], trial.config['beta'], trial.last_result['timesteps_total'], trial.status)
"""


def begin(folder: Path, bound: float, pause: float) -> subprocess.Popen[str]:
    program = folder / "program.py"
    text = PROGRAM.replace("BOUND", str(bound)).replace("PAUSE", str(pause))
    program.write_text("import ray\nray.init(num_cpus=8)\n" + text)
    command = [sys.executable, "-m", "cellmesh.compat.ray", str(program)]
    environment = {**os.environ, "XDG_STATE_HOME": str(folder)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


@pytest.mark.timeout(90)
def test_the_program_as_printed(tmp_path: Path) -> None:
    program = begin(tmp_path, bound=2.0, pause=0.0)
    out, err = program.communicate(timeout=80)
    assert program.returncode == 0, err
    steps = {(0.2, 1): 32, (0.2, 2): 32, (0.4, 1): 6, (0.4, 2): 6, (0.6, 1): 4, (0.6, 2): 4}
    assert sorted(out.splitlines()) == [f"{alpha} {beta} {n} TERMINATED" for (alpha, beta), n in sorted(steps.items())]
    assert sorted(path.name for path in tmp_path.glob("cellmesh/tune/*/*")) == ["code.pkl", "journal.jsonl"]


@pytest.mark.timeout(150)
@pytest.mark.parametrize(
    ("bound", "pause", "ends"),
    [
        pytest.param(20.0, 0.002, ("148", "148"), id="20"),  # 20 ** 5 steps for the first
        pytest.param(100, 0.01, ("2155", "2156"), id="as printed", marks=pytest.mark.slow),
    ],
)
def test_what_never_ends_is_ended_by_the_button_and_kept(
    bound: float, pause: float, ends: tuple[str, str], tmp_path: Path
) -> None:
    program = begin(tmp_path, bound, pause)
    journal = tmp_path / "cellmesh/tune/my_experiment/journal.jsonl"

    def ended() -> int:
        return journal.read_bytes().count(b'"TERMINATED"') if journal.exists() else 0

    wait_until(lambda: ended() >= 2 or program.poll() is not None, deadline=120)
    program.send_signal(signal.SIGINT)
    out, err = program.communicate(timeout=60)
    assert program.returncode == 0, err
    found = {tuple(line.split()[:2]): line.split()[2:] for line in out.splitlines()}
    assert found["0.6", "1"] == [ends[0], "TERMINATED"] and found["0.6", "2"] == [ends[1], "TERMINATED"]
    assert len(found) == 6 and int(found["0.2", "1"][0]) > 0 and found["0.2", "1"][1] == "TERMINATED"


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    cm.init(num_cpus=2)
    yield
    cm.shutdown()


class Counts(tune.Trainable):
    def _setup(self) -> None:
        self.n, self.is_stopped = self.config["start"], False

    def _train(self) -> Any:
        self.n += 1
        if self.n == 4 and not os.path.exists(self.config["mark"]):
            Path(self.config["mark"]).touch()
            raise RuntimeError("once")
        return TrainingResult(timesteps_this_iter=10, mean_loss=1.0 / self.n, done=self.n == 6)

    def _save(self, checkpoint_dir: str) -> str:
        path = Path(checkpoint_dir) / "n.txt"
        path.write_text(str(self.n))
        return str(path)

    def _restore(self, path: str) -> None:
        self.n = int(Path(path).read_text())


def test_a_class_of_then_saves_and_goes_on(session: None, tmp_path: Path) -> None:
    [trial] = tune.run_experiments(
        {
            "counts": {
                "run": Counts,
                "config": {"start": 0, "mark": str(tmp_path / "mark")},
                "checkpoint_freq": 1,
                "max_failures": 1,
                "trial_resources": {"cpu": 1},
            }
        }
    )
    assert trial.status == "TERMINATED" and trial.last_result["training_iteration"] == 6
    assert trial.last_result["mean_loss"] == 1 / 6 and trial.last_result["neg_mean_loss"] == -1 / 6
    assert (tmp_path / "mark").exists()


def test_timesteps_are_added_up_and_repeat_repeats(session: None) -> None:
    def train(config: dict[str, Any], reporter: Any) -> None:
        for step in range(3):
            reporter(timesteps_this_iter=config["size"], mean_accuracy=step)

    def size(spec: Any) -> int:
        return spec.config.half * 2

    trials = tune.run_experiments({"sizes": {"run": train, "repeat": 2, "config": {"half": 5, "size": size}}})
    assert [trial.last_result["timesteps_total"] for trial in trials] == [30, 30]


def test_schedulers_of_then(session: None) -> None:
    from cellmesh.compat.ray.tune.async_hyperband import AsyncHyperBandScheduler

    def train(config: dict[str, Any], reporter: Any) -> None:
        for step in range(1, 9):
            reporter(reward=config["slope"] * step)

    scheduler = AsyncHyperBandScheduler(reward_attr="reward", max_t=8, reduction_factor=2)
    trials = tune.run_experiments(
        {
            "race": {
                "run": train,
                "config": {"slope": tune.grid_search([4, 1, 2, 3])},
                "max_concurrent_trials": 1,
            }
        },
        scheduler=scheduler,
    )
    assert trials[0].last_result["training_iteration"] == 8 and trials[1].last_result["training_iteration"] == 1


@pytest.mark.parametrize(
    "module, name",
    [
        ("hyperband", "HyperBandScheduler"),
        ("async_hyperband", "AsyncHyperBandScheduler"),
        ("median_stopping_rule", "MedianStoppingRule"),
        ("pbt", "PopulationBasedTraining"),
        ("result", "TrainingResult"),
    ],
)
def test_modules_of_then(module: str, name: str) -> None:
    home = importlib.import_module(f"cellmesh.compat.ray.tune.{module}")
    assert getattr(home, name) is getattr(legacy, name)


def test_options_of_schedulers_of_then() -> None:
    made = legacy.HyperBandScheduler(time_attr="timesteps_total", reward_attr="mean_accuracy", max_t=27)
    assert made.wanted == ("mean_accuracy", "max") and made.time_attr == "timesteps_total"
    made = legacy.PopulationBasedTraining(time_attr="training_iteration", hyperparam_mutations={"lr": [1, 2]})
    assert made.wanted == ("episode_reward_mean", "max")


def test_what_means_nothing_any_more_is_refused_by_name() -> None:
    with pytest.raises(tune.TuneError, match="'upload_dir'"):
        tune.run_experiments({"x": {"run": Counts, "upload_dir": "s3://bucket"}})
    with pytest.raises(tune.TuneError, match="needs 'run'"):
        tune.run_experiments({"x": {"config": {}}})
    with pytest.raises(tune.TuneError, match=r"config.lr .*lambda spec: random.random\(\)"):
        tune.run_experiments({"x": {"run": Counts, "config": {"lr": {"eval": "random.random()"}}}})
    with pytest.raises(tune.TuneError, match="another bundle of a PlacementGroupFactory"):
        tune.run_experiments({"x": {"run": Counts, "resources": {"cpu": 1, "extra_cpu": 2}}})
    with pytest.raises(TypeError, match="'colour'"):
        tune.run_experiments({"x": {"run": Counts, "colour": "red"}})


def test_results_of_then() -> None:
    result = TrainingResult(timesteps_total=3, mean_loss=0.5)
    assert result.done is None and result._replace(done=True).done and "episodes_total" in result._asdict()
    assert legacy.metrics_of(result, 0) == {"timesteps_total": 3, "mean_loss": 0.5, "neg_mean_loss": -0.5}
    assert legacy.takes_reporter(lambda config, reporter: None)
    assert not legacy.takes_reporter(lambda config, extra=1: None) and not legacy.takes_reporter(print)
