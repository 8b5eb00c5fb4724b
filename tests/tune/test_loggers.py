"""What trials report, as others read it: while an experiment runs, and from its journal afterwards."""

from __future__ import annotations

import csv
import json
import math
import multiprocessing
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

import cellmesh as cm
from cellmesh import tune
from cellmesh.tune.loggers import CSVLogger, JSONLogger, TensorBoardLogger, make
from cellmesh.tune.loggers.replay import Replay

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # which workers cannot import


@pytest.fixture(autouse=True)
def session() -> Iterator[None]:
    cm.init(num_cpus=2)
    yield
    cm.shutdown()


def train(config: dict[str, Any]) -> None:
    for step in range(3):
        more = {"late": 1.0} if step == 2 else {}
        tune.report({"loss": config["x"] / (step + 1), "eval": {"best": math.nan}, "word": "a,b", **more})
    if config["x"] == 2:
        raise ValueError("two")


def run(folder: Path, **options: Any) -> tune.Experiment:
    space = {"x": tune.grid_search([1, 2]), "f": tune.choice([len]), "deep": {"y": 0.5}}
    return tune.Tuner(train, space, name="logged", storage_path=str(folder), metric="loss", mode="min", **options).fit()


def rows(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_nothing_is_written_unasked(tmp_path: Path) -> None:
    run(tmp_path)
    assert sorted(path.name for path in (tmp_path / "logged").iterdir()) == ["code.pkl", "journal.jsonl"]


def test_exports_say_what_was_reported(tmp_path: Path) -> None:
    search = run(tmp_path)
    search.export("json", tmp_path / "json")
    search.export("csv", str(tmp_path / "csv"))
    lines = [json.loads(line) for line in (tmp_path / "json/00000/result.json").read_text().splitlines()]
    assert [line["loss"] for line in lines] == [1.0, 0.5, 1 / 3]
    assert [line["training_iteration"] for line in lines] == [1, 2, 3]
    assert math.isnan(lines[0]["eval/best"]) and lines[2]["late"] == 1.0 and "late" not in lines[0]
    assert json.loads((tmp_path / "json/00000/params.json").read_text())["deep"] == {"y": 0.5}
    table = rows(tmp_path / "csv/00001/progress.csv")
    assert [row["loss"] for row in table] == ["2.0", "1.0", str(2 / 3)]
    assert [row["late"] for row in table] == ["", "", "1.0"], "a column that came later"
    assert [row["word"] for row in table] == ["a,b"] * 3
    assert "ValueError: two" in (tmp_path / "csv/00001/error.txt").read_text()
    assert not (tmp_path / "csv/00000/error.txt").exists()


def test_callbacks_write_the_same_as_exports(tmp_path: Path) -> None:
    search = run(tmp_path, callbacks=[JSONLogger(), CSVLogger(tmp_path / "tables")])
    search.export("json", tmp_path / "json")
    search.export("csv", tmp_path / "csv")
    for trial in ("00000", "00001"):
        written = tmp_path / "logged" / "logs" / trial / "result.json"
        assert written.read_text() == (tmp_path / "json" / trial / "result.json").read_text()
        assert rows(tmp_path / "tables" / trial / "progress.csv") == rows(tmp_path / "csv" / trial / "progress.csv")


def test_a_result_without_the_metric_is_written_too(tmp_path: Path) -> None:
    def warms_up(config: dict[str, Any]) -> None:
        tune.report(warm=1)
        tune.report(loss=2)

    logger = JSONLogger(tmp_path / "json")
    tune.Tuner(warms_up, metric="loss", mode="min", storage_path=str(tmp_path), callbacks=[logger]).fit()
    lines = [json.loads(line) for line in (tmp_path / "json/00000/result.json").read_text().splitlines()]
    assert [line.get("warm") for line in lines] == [1, None] and [line.get("loss") for line in lines] == [None, 2]


def test_an_experiment_that_was_cut_off_can_be_exported(tmp_path: Path) -> None:
    run(tmp_path)
    journal = tmp_path / "logged/journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    reports = [i for i, line in enumerate(lines) if b'"report"' in line]
    journal.write_bytes(b"".join(lines[: reports[2] + 1]))
    tune.attach("logged", str(tmp_path)).export("csv", tmp_path / "csv")
    assert sum(len(rows(path)) for path in (tmp_path / "csv").glob("*/progress.csv")) == 3


@pytest.fixture
def by_fork() -> Iterator[None]:
    """tensorboardX has a queue for processes, over which in Python 3.14, that forks no more, one of its own watches."""
    multiprocessing.set_start_method("fork", force=True)
    yield
    multiprocessing.set_start_method(None, force=True)


@pytest.mark.usefixtures("by_fork")
def test_event_files_are_what_tensorboard_reads(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    plugin = pytest.importorskip("tensorboard.plugins.hparams.plugin_data_pb2")
    run(tmp_path).export("tensorboard", tmp_path / "events")
    events = accumulator.EventAccumulator(str(tmp_path / "events/00000"))
    events.Reload()
    assert {"loss", "late", "time_total_s"} <= set(events.Tags()["scalars"]) and "eval/best" not in events.Tags()
    found = [(event.step, event.value) for event in events.Scalars("loss")]
    assert found == [(1, 1.0), (2, 0.5), (3, pytest.approx(1 / 3))]
    content = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    hyperparameters = plugin.HParamsPluginData.FromString(content).session_start_info.hparams
    assert hyperparameters["x"].number_value == 1 and hyperparameters["deep/y"].number_value == 0.5
    assert "len" in hyperparameters["f"].string_value


@pytest.mark.usefixtures("by_fork")
def test_what_tensorboard_shows_of_a_configuration_that_pbt_changes(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    plugin = pytest.importorskip("tensorboard.plugins.hparams.plugin_data_pb2")

    def learns(config: dict[str, Any]) -> None:
        start = tune.get_checkpoint()
        for step in range(start.value if start else 0, 6):
            tune.report(score=config["lr"], ran_with=config["lr"], checkpoint=step + 1)

    search = tune.Tuner(
        learns,
        {"lr": tune.grid_search([0.1, 1.0]), "word": "same", "fixed": 3},
        metric="score",
        scheduler=tune.PBT("training_iteration", perturbation_interval=2, hyperparam_mutations={"lr": [0.5, 2.0]}),
        seed=3,
        resources={"cpu": 2},
        name="pbt",
        storage_path=str(tmp_path),
        callbacks=[TensorBoardLogger(tmp_path / "live")],
    ).fit()
    search.export("tensorboard", tmp_path / "after")
    n_changed = 0
    for trial in search:
        read = []
        for folder in ("live", "after"):
            events = accumulator.EventAccumulator(str(tmp_path / folder / f"{trial.number:05}"))
            events.Reload()
            read.append({name: [(e.step, e.value) for e in events.Scalars(name)] for name in events.Tags()["scalars"]})
            content = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
            hyperparameters = plugin.HParamsPluginData.FromString(content).session_start_info.hparams
            assert hyperparameters["lr"].number_value == trial.config["lr"], "those that it has run with last"
        assert read[0] == read[1]
        ran_with, course = read[0]["ran_with"], read[0].get("config/lr", [])
        assert not {"config/fixed", "config/word"} & read[0].keys()
        if len({value for _, value in ran_with}) > 1:
            n_changed += 1
            assert set(course) <= set(ran_with) and course[0] == ran_with[0] and course[-1] == ran_with[-1]
            assert {value for _, value in course} == {value for _, value in ran_with}
        else:
            assert not course
    assert n_changed, "no trial has gone on from another one"


def test_a_missing_package_is_named() -> None:
    code = """
import sys
sys.modules["tensorboardX"] = None
from cellmesh.tune.loggers import make
try:
    make("tensorboard", "events")
except ModuleNotFoundError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "pip install 'cellmesh[tune]'" in done.stdout, done.stderr


def test_an_unknown_format(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there are csv, json, tensorboard"):
        make("xml", tmp_path)
    assert isinstance(make("tensorboard", tmp_path), TensorBoardLogger)


def test_a_replay_calls_in_order(tmp_path: Path) -> None:
    run(tmp_path, max_concurrent=1)
    heard: list[str] = []

    class Listens:
        def on_trial_start(self, trial: Any, **info: Any) -> None:
            heard.append(f"start {trial.trial_id}")

        def on_trial_result(self, trial: Any, result: Any, **info: Any) -> None:
            heard.append(f"{trial.trial_id} {result['training_iteration']}")

        def on_trial_error(self, trial: Any, **info: Any) -> None:
            heard.append(f"error {trial.error}")

        def on_experiment_end(self, trials: Any, **info: Any) -> None:
            heard.append(f"end of {len(trials)}")

    replay = Replay(tmp_path / "logged", [Listens()])
    replay.advance()
    replay.advance()  # nothing is heard twice
    assert heard == [
        *("start 00000", "00000 1", "00000 2", "00000 3"),
        *("start 00001", "00001 1", "00001 2", "00001 3", "error ValueError: two", "end of 2"),
    ]
