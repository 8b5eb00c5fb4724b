"""The experiments of a recording: what the journals say, of every metric, whether a panel looks or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cellmesh.kernel_ext.panel.trial_feed import TrialFeed
from cellmesh.kernel_ext.panel.trial_saving import N_SAVED_MIN, experiments_of

from cellmesh.observe.recording import TABLES, Recording, read_recording, table_of
from cellmesh.tune import journal
from cellmesh.tune.experiment import Experiment
from cellmesh.tune.records import AnyRecord, Became, Definition, Ended, Launched, Opened, Reported, Suggested

ORIGIN = 1000.0  # the session began then


def experiment(folder: Path, records: list[AnyRecord]) -> Experiment:
    folder.mkdir()
    writer = journal.Writer(folder)
    definition = Definition("train", {}, {}, None, None, 1, 0, {})
    plan = {"metric": "loss", "mode": "min"}
    for record in (Opened(at=1001.0, version=1, name=folder.name, plan=plan, definition=definition), *records):
        writer.write(record)
    writer.close()
    return Experiment(folder)


def a_trial(trial: int, n_results: int, **config: Any) -> list[AnyRecord]:
    return [
        Suggested(at=1002.0, trial=trial, config=config),
        Launched(at=1003.0, trial=trial, attempt=1),
        Became(at=1003.0, trial=trial, state="RUNNING"),
        *(
            Reported(
                at=1003.0 + step,
                trial=trial,
                attempt=1,
                result={"loss": 1 / step, "size": step * trial, "training_iteration": step},
            )
            for step in range(1, n_results + 1)
        ),
    ]


def failed(trial: int) -> list[AnyRecord]:
    return [
        Ended(at=1010.0, trial=trial, attempt=1, outcome="failed", error="ValueError: no", line="x = f(lr)"),
        Became(at=1010.0, trial=trial, state="ERROR", why="it has failed"),
    ]


def saved(*experiments: Experiment) -> Recording:
    """What is read from a file with these experiments."""
    feed = TrialFeed(lambda: ORIGIN)
    for each in experiments:
        feed.add(each)
    about, tables = experiments_of(feed.followed(), ORIGIN)
    of_tasks = {name: table_of(name, {key: [] for key in columns}) for name, columns in TABLES.items()}
    return read_recording(
        Recording({"functions": [], "cells": [], "workers": [], "counts": {}}, of_tasks | tables, about).pack()
    )


def rows(recording: Recording, table: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in recording.tables[table].to_pylist()]


def test_trials_are_saved_with_all_their_curves(tmp_path: Path) -> None:
    digits = experiment(
        tmp_path / "digits", [*a_trial(0, 2, lr=0.5, kind="a"), *a_trial(1, 1, lr=0.25, kind="b"), *failed(1)]
    )
    other = experiment(tmp_path / "other", [])
    recording = saved(digits, other)
    assert [each["label"]["name"] for each in recording.experiments] == ["digits", "other"]
    label, header = recording.experiments[0]["label"], recording.experiments[0]["trials"]
    assert label["counts"] == {"pending": 0, "running": 1, "paused": 0, "ended": 0, "failed": 1}
    assert header["metrics"] == ["loss", "size", "training_iteration"]
    assert header["parameters"] == [{"name": "lr", "words": []}, {"name": "kind", "words": ["a", "b"]}]
    assert header["texts"] == [[1, "it has failed", "ValueError: no\nx = f(lr)"]]
    trials = rows(recording, "trials")
    assert trials[1] == (0, 1, 4, 1, 2.0, 3.0, 10.0) and trials[0][:6] == (0, 0, 1, 2, 2.0, 3.0)
    assert rows(recording, "settings") == [(0, 0, 0, 0.5), (0, 1, 0, 0.25), (0, 0, 1, 0), (0, 1, 1, 1)]
    assert rows(recording, "results")[:4] == [(0, 0, 0, 0.5), (0, 1, 0, 1.0), (0, 0, 1, 0), (0, 1, 1, 1)]
    curves = rows(recording, "curves")
    assert curves[:3] == [(0, 0, 0, 4.0, 1.0, 1.0), (0, 0, 0, 5.0, 2.0, 0.5), (0, 1, 0, 4.0, 1.0, 1.0)]
    assert {row[2] for row in curves} == {0, 1, 2}


def test_an_experiment_whose_journal_is_gone_is_left_out(tmp_path: Path) -> None:
    gone, there = experiment(tmp_path / "gone", a_trial(0, 1)), experiment(tmp_path / "there", a_trial(0, 1))
    (tmp_path / "gone" / journal.FILE).unlink()
    recording = saved(gone, there)
    assert [each["label"]["name"] for each in recording.experiments] == ["there"]
    assert [row[:2] for row in rows(recording, "trials")] == [(0, 0)]


def test_many_curves_are_thinned_and_keep_their_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cellmesh.kernel_ext.panel.trial_saving.N_SAVED_POINTS", 10)
    records = [record for trial in range(4) for record in a_trial(trial, 9)]
    curves = rows(saved(experiment(tmp_path / "digits", records)), "curves")
    assert len(curves) == 4 * 3 * N_SAVED_MIN
    assert [row[4] for row in curves[:4]] == [1.0, 9.0, 1.0, 9.0]
