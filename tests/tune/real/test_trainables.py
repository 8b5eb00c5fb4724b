"""What a trial may be, what it may report, and what it goes on from, with real processes."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.flags import Counter
from support.waiting import wait_until

import cellmesh
from cellmesh import tune

pytestmark = [
    pytest.mark.usefixtures("session"),
    pytest.mark.may_keep("threads", "of the session, which this module shares"),
]


class Tensor:
    """As much of a scalar tensor as a report needs."""

    def __init__(self, value: float) -> None:
        self._value = value

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self

    def numpy(self) -> Any:
        return np.asarray(self._value)


class Counting(tune.Trainable):
    """Counts its steps; the count is its checkpoint."""

    def setup(self, config: dict[str, Any]) -> None:
        self.n = 0

    def step(self) -> dict[str, Any]:
        self.n += 1
        return {"n": self.n, "x": self.config["x"], "done": self.n == 4}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        return {"n": self.n}

    def load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.n = checkpoint["n"]


def test_a_function_reports() -> None:
    def train(config: dict[str, Any]) -> None:
        for i in range(3):
            tune.report({"eval": {"loss": 1 / (i + 1)}}, x=np.float32(config["x"]), t=Tensor(2.5), k=np.int64(i))

    found = tune.Tuner(train, {"x": tune.grid_search([1, 2])}, metric="eval/loss", mode="min").fit()
    assert [result.state for result in found] == ["TERMINATED", "TERMINATED"]
    assert found[1].metrics["x"] == 2.0 and found[1].metrics["t"] == 2.5 and found[1].metrics["k"] == 2
    assert found[0].curve() == ([1, 2, 3], [1.0, 1 / 2, 1 / 3])
    assert found[0].curve("k")[1] == [0, 1, 2]


def test_a_function_returns_or_yields() -> None:
    def returns(config: dict[str, Any]) -> dict[str, Any]:
        return {"a": {"b": config["x"]}}

    def yields(config: dict[str, Any]) -> Any:
        for i in range(3):
            yield {"a": {"b": i}}

    assert tune.Tuner(returns, {"x": 7}).fit()[0].metrics["a/b"] == 7
    assert tune.Tuner(yields).fit()[0].curve("a/b") == ([1, 2, 3], [0, 1, 2])


def test_a_class_steps_and_its_checkpoint_is_loaded() -> None:
    found = tune.Tuner(Counting, {"x": 1}, checkpoint_frequency=2, num_to_keep=None).fit()
    assert found[0].metrics["n"] == 4 and found[0].metrics["training_iteration"] == 4
    assert [(c.to_dict(), at) for c, at in found[0].checkpoints] == [({"n": 2}, 2), ({"n": 4}, 4)]


@pytest.mark.parametrize("kind", ["dict", "folder", "Checkpoint"])
def test_a_trial_that_failed_goes_on_from_its_checkpoint(kind: str, tmp_path: Path, counter: Counter) -> None:
    def train(config: dict[str, Any]) -> None:
        start = tune.get_checkpoint()
        i = 0
        if start is not None and kind == "dict":
            i = start.to_dict()["i"]
        elif start is not None:
            with start.as_directory() as folder:
                i = int((Path(folder) / "i").read_text())
        while i < 4:
            i += 1
            if i == 3 and counter.add() == 1:
                raise RuntimeError("once")
            saved: Any = {"i": i}
            if kind != "dict":
                place = tmp_path / f"at-{i}"
                place.mkdir(exist_ok=True)
                (place / "i").write_text(str(i))
                saved = tune.Checkpoint.from_directory(place) if kind == "Checkpoint" else str(place)
            tune.report(i=i, checkpoint=saved)

    found = tune.Tuner(train, max_failures=1).fit()
    assert found[0].state == "TERMINATED" and found[0].error == ""
    assert found[0].curve("i") == ([1, 2, 3, 4], [1, 2, 3, 4])
    assert len(found[0].checkpoints) == 1
    assert len(os.listdir(Path(found.path) / "checkpoints")) == 1


def test_the_latest_and_the_best_checkpoint_are_kept() -> None:
    def train(config: dict[str, Any]) -> None:
        for i, loss in enumerate([5.0, 1.0, 4.0, 3.0, math.nan]):
            tune.report(loss=loss, up=i, checkpoint={"i": i})

    best = tune.Tuner(train, metric="loss", mode="min", num_to_keep=1).fit()
    assert [c.to_dict()["i"] for c, _ in best[0].checkpoints] == [1, 4]
    other = tune.Tuner(
        train,
        metric="up",
        mode="max",
        num_to_keep=2,
        checkpoint_score_attribute="loss",
        checkpoint_score_order="min",
    ).fit()
    assert [c.to_dict()["i"] for c, _ in other[0].checkpoints] == [1, 3, 4]


def test_a_failure_is_told_with_the_users_line() -> None:
    def train(config: dict[str, Any]) -> None:
        tune.report(x=1)
        raise ValueError("no such luck")

    found = tune.Tuner(train, num_samples=2).fit()
    assert found.num_errors == 2 and found.num_terminated == 0
    assert found[0].error.startswith("ValueError: no such luck\n")
    assert "in train: raise ValueError" in found[0].error
    failed = found.ref(1)
    assert failed is not None


def test_the_configuration_that_a_scheduler_has_changed_is_the_one_that_is_told(tmp_path: Path) -> None:
    """What is best is found again by its configuration; also where JSON cannot keep some of that."""

    def train(config: dict[str, Any]) -> None:
        start = tune.get_checkpoint()
        for i in range(start.value if start else 0, 8):
            tune.report(score=config["lr"] * i, lr=config["lr"], kind=config["kind"].__name__, checkpoint=i + 1)

    scheduler = tune.PBT("training_iteration", perturbation_interval=2, hyperparam_mutations={"lr": tune.uniform(1, 2)})
    space = {"lr": tune.uniform(0, 1), "kind": int}
    found = tune.Tuner(
        train, space, metric="score", scheduler=scheduler, num_samples=4, seed=1, name="mine", max_concurrent=1
    ).fit()
    lines = [json.loads(line) for line in Path(found.path, "journal.jsonl").read_text().splitlines()]
    suggested = [line["config"]["lr"] for line in lines if line["type"] == "trial"]
    for results in (found, tune.attach("mine")):
        assert [result.config["lr"] for result in results] == [result.metrics["lr"] for result in results]
        assert [result.config["lr"] for result in results] != suggested, "some trial has gone on from another"
        assert list(results.to_pandas()["config/lr"]) == [result.metrics["lr"] for result in results]
        assert {result.metrics["kind"] for result in results} == {"int"}
    found.export("csv", tmp_path / "csv")
    for result in found:
        params = json.loads((tmp_path / f"csv/{result.number:05}/params.json").read_text())
        assert params["lr"] == result.config["lr"]


def test_of_lines_that_have_failed_the_users_is_told_not_a_librarys() -> None:
    def train(config: dict[str, Any]) -> None:
        json.loads(config["text"])

    assert "in train: json.loads(" in tune.Tuner(train, {"text": "{"}).fit()[0].error


def test_the_first_failure_ends_everything_where_that_is_asked_for(counter: Counter) -> None:
    def train(config: dict[str, Any]) -> None:
        counter.add()
        raise ValueError("no such luck")

    with pytest.raises(tune.TuneError, match="trial 0 has failed: ValueError: no such luck"):
        tune.Tuner(train, num_samples=50, fail_fast=True, max_concurrent=1).fit()
    assert counter.value == 1


def test_always_again_until_it_works(counter: Counter) -> None:
    def train(config: dict[str, Any]) -> dict[str, Any]:
        n = counter.add()
        assert n > 3, "not yet"
        return {"n": n}

    found = tune.Tuner(train, max_failures=-1).fit()
    assert found[0].metrics["n"] == 4 and found[0]._trial.n_failures == 3


def test_parameters_are_stored_once() -> None:
    def large_ones() -> int:
        return sum(row["size"] >= 50 << 20 for row in cellmesh.state.list_objects())

    large = np.zeros(50 << 20, np.uint8)

    def train(config: dict[str, Any], data: Any) -> dict[str, Any]:
        return {"size": data.nbytes}

    tuner = tune.Tuner(tune.with_parameters(train, data=large), num_samples=4)
    found = tuner.fit()
    assert [result.metrics["size"] for result in found] == [50 << 20] * 4
    assert large_ones() == 1
    del tuner
    wait_until(lambda: large_ones() == 0, what="the parameters are freed with the tuner")


def test_a_class_with_parameters_and_resources() -> None:
    class Mine(tune.Trainable):
        def setup(self, config: dict[str, Any], data: Any = None) -> None:
            self.sum = float(data.sum())

        def step(self) -> dict[str, Any]:
            return {"sum": self.sum, "cpus": tune.get_context().get_trial_resources()["num_cpus"], "done": True}

    trainable = tune.with_resources(tune.with_parameters(Mine, data=np.ones(100)), {"cpu": 2})
    found = tune.Tuner(trainable).fit()
    assert found[0].metrics["sum"] == 100 and found[0].metrics["cpus"] == 2
