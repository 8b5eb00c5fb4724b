"""`compat.ray.tune` where its programs (`corpus/tune`) do not go."""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

import cellmesh as cm
from cellmesh.compat import ray
from cellmesh.compat.ray import tune
from cellmesh.compat.ray.tune import configs
from cellmesh.compat.ray.tune.trainables import resources_of
from cellmesh.compat.ray.tune.watching import Callback
from cellmesh.tune.resources import options_of

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # which workers cannot import


@pytest.fixture
def store(tmp_path: Path) -> Iterator[str]:
    cm.init(num_cpus=2)
    yield str(tmp_path)
    cm.shutdown()


def steps(config: dict[str, Any]) -> None:
    for step in range(config.get("n", 3)):
        tune.report({"step": step, "x": config["x"]})


def run_config(store: str, **options: Any) -> tune.RunConfig:
    return tune.RunConfig(storage_path=store, **options)


def test_a_name_that_is_taken_sets_the_earlier_experiment_aside(store: str) -> None:
    for x in (1, 2, 3):
        grid = tune.Tuner(steps, param_space={"x": x}, run_config=run_config(store, name="mine")).fit()
    assert sorted(path.name for path in Path(store).iterdir()) == ["mine", "mine-1", "mine-2"]
    assert grid[0].config == {"x": 3}
    assert tune.ExperimentAnalysis(Path(store) / "mine-1").trials[0].config == {"x": 1}


def test_restored_with_what_a_journal_cannot_keep(store: str) -> None:
    def stop(trial_id: str, result: dict[str, Any]) -> bool:
        return result["step"] >= 1

    tune.Tuner(steps, param_space={"x": 1}, run_config=run_config(store, name="it", stop=stop)).fit()
    path = os.path.join(store, "it")
    with pytest.raises(tune.TuneError, match=r"stop"):
        tune.Tuner.restore(path, steps).fit()
    assert tune.Tuner.restore(path, steps, stop=stop).fit()[0].metrics["step"] == 1
    with pytest.raises(TypeError, match="'colour'"):
        tune.Tuner.restore(path, steps, colour="red")
    with pytest.raises(ValueError, match="either goes on or begins again"):
        tune.Tuner.restore(path, steps, resume_errored=True, restart_errored=True)
    with pytest.raises(tune.TuneError, match="resume_unfinished=False"):
        tune.Tuner.restore(path, steps, resume_unfinished=False)


def test_run_resumes(store: str) -> None:
    mark = Path(store) / "mark"

    def fragile(config: dict[str, Any]) -> None:
        if not mark.exists():
            raise OSError("broken")
        tune.report({"y": config["x"]})

    options: dict[str, Any] = {"name": "it", "storage_path": store, "config": {"x": 3}}
    with pytest.raises(ValueError, match="no checkpoint exists"):
        tune.run(fragile, resume=True, **options)
    with pytest.raises(tune.TuneError, match="did not complete") as failed:
        tune.run(fragile, resume="AUTO", **options)
    assert isinstance(failed.value.__cause__, OSError)
    mark.touch()
    found = tune.run(fragile, resume="AUTO+RESTART_ERRORED", **options)
    assert found.trials[0].last_result["y"] == 3
    with pytest.raises(tune.TuneError, match="resume='SOON'"):
        tune.run(fragile, resume="SOON", **options)


def test_what_trials_raised_is_an_object_of_its_own_class(store: str) -> None:
    class Odd(Exception):
        pass

    def raises(config: dict[str, Any]) -> None:
        raise Odd("odd")

    grid = tune.Tuner(raises, run_config=run_config(store, name="odd")).fit()
    assert isinstance(grid[0].error, Odd) and isinstance(grid[0].error, ray.exceptions.RayTaskError)
    later = tune.Tuner.restore(os.path.join(store, "odd"), raises).get_results()
    assert isinstance(later[0].error, tune.TuneError) and "odd" in str(later[0].error)
    with pytest.raises(Odd):
        tune.Tuner(raises, run_config=run_config(store, failure_config=tune.FailureConfig(fail_fast="raise"))).fit()


def test_an_interrupt_ends_the_experiment_and_its_results_are_there(store: str) -> None:
    class Interrupts(Callback):
        def on_trial_result(self, iteration: int, trials: Any, trial: Any, result: Any, **info: Any) -> None:
            if iteration == 3:
                raise KeyboardInterrupt

    grid = tune.Tuner(
        steps, param_space={"x": 1, "n": 10**9}, run_config=run_config(store, callbacks=[Interrupts()])
    ).fit()
    assert grid[0].metrics["step"] >= 2 and grid[0].error is None and grid.num_terminated == 1


def test_callbacks_hear_in_the_drivers_process(store: str) -> None:
    heard: list[tuple[str, int]] = []

    class Listens(Callback):
        def on_checkpoint(self, iteration: int, trials: Any, trial: Any, checkpoint: Any, **info: Any) -> None:
            heard.append(("checkpoint", os.getpid()))

        def on_step_begin(self, iteration: int, trials: Any, **info: Any) -> None:
            assert threading.current_thread() is threading.main_thread()

        def on_trial_recover(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
            heard.append(("recover", trial.trial_id == "00000"))

    def saves(config: dict[str, Any]) -> None:
        at = tune.get_checkpoint()
        tune.report({"x": 1}, checkpoint={"x": 1})
        if at is None:
            raise ValueError("once")

    tune.run(saves, storage_path=store, callbacks=[Listens()], max_failures=1)
    assert heard == [("checkpoint", os.getpid()), ("recover", True), ("checkpoint", os.getpid())]


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: tune.RunConfig(storage_filesystem="s3"), "storage_filesystem='s3': experiments lie in a folder"),
        (lambda: configs.storage_of("s3://bucket/x"), "s3://bucket/x.*experiments lie in a folder"),
        (lambda: tune.register_env("pong", "Pong-v5"), "register_env.'pong', 'Pong-v5'.: a function of env_config"),
        (lambda: tune.run([steps]), "run_experiments"),
        (lambda: tune.run(steps, export_formats=["onnx"]), "export_formats.*into a checkpoint"),
        (lambda: tune.run(steps, colour=3), "'colour'"),
        (lambda: tune.Tuner(), "provide a trainable"),
        (lambda: tune.Tuner("nobody"), "Unknown trainable: nobody"),
        (lambda: tune.create_scheduler("pb2"), "pbt"),
        (lambda: tune.create_searcher("hyperopt"), "tpe"),
    ],
)
def test_what_is_refused_says_what_to_do(make: Any, words: str) -> None:
    with pytest.raises((tune.TuneError, ValueError, TypeError, NotImplementedError), match=words):
        make()


def test_modules_are_found_as_in_ray() -> None:
    for name in (
        *("schedulers.async_hyperband", "schedulers.hyperband", "schedulers.median_stopping_rule", "schedulers.pbt"),
        *("schedulers.trial_scheduler", "search.basic_variant", "search.concurrency_limiter", "search.optuna"),
        *("search.repeater", "search.sample", "search.searcher", "stopper", "logger", "registry"),
    ):
        importlib.import_module(f"cellmesh.compat.ray.tune.{name}")
    assert ray.tune is tune and tune.schedulers.ASHAScheduler is tune.schedulers.async_hyperband.ASHAScheduler
    with pytest.raises(AttributeError, match=r"HyperBandScheduler or ASHAScheduler"):
        tune.schedulers.HyperBandForBOHB  # noqa: B018 (reading the attribute is what raises)
    for name in tune.__all__:
        assert getattr(tune, name).__doc__


def test_a_trainable_by_hand(tmp_path: Path) -> None:
    class Counter(tune.Trainable):
        def setup(self, config: dict[str, Any]) -> None:
            self.n = config.get("n", 0)

        def step(self) -> dict[str, Any]:
            self.n += 1
            return {"n": self.n}

        def save_checkpoint(self, folder: str) -> None:
            (Path(folder) / "n").write_text(str(self.n))

        def load_checkpoint(self, folder: str) -> None:
            self.n = int((Path(folder) / "n").read_text())

        def reset_config(self, new_config: dict[str, Any]) -> bool:
            self.setup(new_config)
            return True

    counter = Counter({"n": 5})
    assert counter.train() == {"n": 6, "training_iteration": 1, "done": False}
    saved = counter.save(str(tmp_path / "at"))
    counter.train()
    counter.restore(saved)
    assert counter.n == 6 and counter.trial_id == "default" and not counter.is_actor()
    assert counter.reset({"n": 1}) and counter.train()["n"] == 2 and counter.get_config() == {"n": 1}
    assert counter.logdir is None
    counter.stop()


def test_results_nest_and_flatten() -> None:
    flat = {"a/b": 1, "a/c/d": 2, "e": 3}
    assert configs.nested(flat) == {"a": {"b": 1, "c": {"d": 2}}, "e": 3}
    assert configs.flattened(configs.nested(flat)) == flat
    assert configs.nested({"a": 1, "a/b": 2}) == {"a": 1, "a/b": 2}


def test_resources_follow_from_the_configuration_and_may_be_several_bundles(store: str) -> None:
    def trains(config: dict[str, Any]) -> None:
        factory = tune.get_context().get_trial_resources()
        inside = ray.get([ray.remote(ray.util.get_current_placement_group).remote() for _ in range(2)])
        tune.report({"bundles": len(factory.bundles), "cpus": factory.head_cpus, "inside": sum(map(bool, inside))})

    def takes(config: dict[str, Any]) -> Any:
        return tune.PlacementGroupFactory([{"CPU": 1}] * config["n"])

    grid = tune.Tuner(
        tune.with_resources(trains, takes),
        param_space={"n": tune.grid_search([1, 2])},
        run_config=run_config(store),
    ).fit()
    assert [(r.metrics["bundles"], r.metrics["cpus"], r.metrics["inside"]) for r in grid] == [(1, 1, 0), (2, 1, 2)]


def test_custom_resources_may_stand_beside_the_others_or_below_them() -> None:
    for resources in ({"cpu": 2, "hdd": 80}, {"cpu": 2, "custom_resources": {"hdd": 80}}):
        assert options_of(resources_of(resources)) == {"num_cpus": 2, "resources": {"hdd": 80}}


def test_a_class_says_what_each_configuration_takes(store: str) -> None:
    class Takes(tune.Trainable):
        @classmethod
        def default_resource_request(cls, config: dict[str, Any]) -> Any:
            return tune.PlacementGroupFactory([{"CPU": config["n"]}])

        def step(self) -> dict[str, Any]:
            return {"cpus": self.trial_resources.head_cpus, "done": True}

    grid = tune.Tuner(Takes, param_space={"n": tune.grid_search([1, 2])}, run_config=run_config(store)).fit()
    assert [result.metrics["cpus"] for result in grid] == [1, 2]
