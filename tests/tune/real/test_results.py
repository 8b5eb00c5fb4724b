"""What an experiment has found: the best by each scope, curves, tables."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import cellmesh
from cellmesh import tune

VALUES = [[1.0, 9.0, 2.0, 2.0, 2.0, 2.0, 2.0], [4.0, 4.0, 4.0, 4.0, 5.0], [8.0, 1.0, math.nan], [math.inf]]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tune.Experiment:
    """Four trials whose best is another one by each scope."""

    def train(config: dict[str, Any]) -> None:
        for score in config["values"]:
            tune.report(score=score, n=len(config["values"]))

    cellmesh.init(num_cpus=2, object_store_memory=64 << 20)
    try:
        place = tmp_path_factory.mktemp("found")
        space = {"values": tune.grid_search(VALUES), "model": {"x": 1}}
        return tune.Tuner(train, space, metric="score", storage_path=str(place)).fit()
    finally:
        cellmesh.shutdown()


@pytest.mark.parametrize(
    ("mode", "scope", "best"),
    [
        ("max", "last", 1),
        ("min", "last", 0),
        ("max", "all", 0),
        ("min", "all", 0),
        ("max", "avg", 2),
        ("min", "avg", 0),
        ("max", "last-5-avg", 2),
        ("min", "last-5-avg", 0),
        ("max", "last-10-avg", 2),
    ],
)
def test_the_best_by_each_scope(found: tune.Experiment, mode: str, scope: str, best: int) -> None:
    assert found.get_best_result(mode=mode, scope=scope).number == best


def test_the_best(found: tune.Experiment) -> None:
    assert found.best.number == 1 and found.best.metrics["score"] == 5.0
    assert found.get_best_result(filter_nan_and_inf=False).number == 3
    assert found.get_best_result("n").number == 0
    for wrong in ({"mode": "maximum"}, {"scope": "first"}):
        with pytest.raises(ValueError, match="it is"):
            found.get_best_result(**wrong)
    with pytest.raises(tune.TuneError, match="no trial has a finite 'nope'; reported were"):
        found.get_best_result("nope")
    assert "4 ended, best score 5 (trial 1)" in repr(found)


def test_tables(found: tune.Experiment) -> None:
    table = found.to_pandas()
    assert list(table["trial"]) == [0, 1, 2, 3] and set(table["state"]) == {"TERMINATED"}
    assert list(table["config/model/x"]) == [1] * 4 and list(table["score"][:2]) == [2.0, 5.0]
    assert list(found.get_dataframe("score", "max")["score"][:3]) == [9.0, 5.0, 8.0]
    assert list(found.get_dataframe("score", "min")["training_iteration"][:3]) == [1, 1, 2]
    curves = found.curves()
    assert list(curves.columns) == [0, 1, 2, 3] and curves.shape == (7, 4)
    assert list(curves[1].dropna()) == VALUES[1] and list(curves.index) == list(range(1, 8))
    assert list(found[0].metrics_dataframe["score"]) == VALUES[0]


def test_it_is_read_from_its_folder_without_a_session(found: tune.Experiment) -> None:
    again = tune.attach(found.name, str(Path(found.path).parent))
    assert again.is_over and again.wait() is again and not cellmesh.is_initialized()
    assert [result.metrics for result in again][:2] == [result.metrics for result in found][:2]


def test_what_this_process_has_begun_elsewhere_is_found_by_its_name(session: None, tmp_path: Path) -> None:
    tune.Tuner(lambda config: tune.report(x=1), name="away", storage_path=str(tmp_path / "mine")).fit()
    assert tune.attach("away").path == str(tmp_path / "mine" / "away")
    assert [one["path"] for one in tune.experiments() if one["name"] == "away"] == [str(tmp_path / "mine" / "away")]
    assert tune.experiments(str(tmp_path)) == []
    tune.delete("away")
    with pytest.raises(tune.ExperimentNotFoundError):
        tune.attach("away")
