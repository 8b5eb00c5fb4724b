"""Runs of learning as front ends and recordings are told of them: what has changed, while somebody looks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from cellmesh.kernel_ext.panel import learning_feed
from cellmesh.kernel_ext.panel.learning_feed import LearningFeed
from cellmesh.kernel_ext.panel.learning_saving import runs_of
from cellmesh.kernel_ext.panel_messages import decode_learning
from support.waiting import wait_until

from cellmesh.observe.learning import ITERATION, N_POINTS_MAX, LearningRun

ORIGIN = 1000.0  # the session began then


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of the runs, which a second passes with every look at it."""
    now = [ORIGIN]

    def time() -> float:
        now[0] += 1.0
        return now[0]

    monkeypatch.setattr("cellmesh.observe.learning.time.time", time)
    return now


@pytest.fixture
def feed() -> Iterator[LearningFeed]:
    made = LearningFeed(lambda: ORIGIN)
    yield made
    made.stop()
    wait_until(lambda: made._thread is None, 10.0, "the thread has not ended")


class Front:
    """A front end that keeps what it is told, as the panel does."""

    def __init__(self) -> None:
        self.labels: list[dict[str, Any]] = []
        self.columns: dict[int, dict[str, np.ndarray]] = {}
        self.n_points_told = 0
        self.n = -1

    def __call__(self, data: dict[str, Any], buffers: list[memoryview]) -> None:
        if data["type"] == "learning":
            self.labels = data["runs"]
            return
        header, (values,) = decode_learning(data, list(buffers))
        assert header.n in (0, self.n + 1), "in order"
        if header.n == 0:
            self.columns.clear()
        self.n = header.n
        table = values.reshape(1 + len(header.metrics), header.points)
        known = self.columns.get(header.run, {})
        self.columns[header.run] = {
            name: np.concatenate([known.get(name, np.full(header.first, np.nan))[: header.first], column])
            for name, column in zip(["at", *header.metrics], table, strict=True)
        }
        self.n_points_told += header.points

    def equals(self, number: int, run: LearningRun) -> bool:
        view = run.look()
        wanted = {"at": view.at - ORIGIN, **view.columns}
        found = self.columns.get(number, {})
        return list(found) == list(wanted) and all(
            np.array_equal(found[name], column, equal_nan=True) for name, column in wanted.items()
        )


def a_run(feed: LearningFeed, n_results: int, title: str = "ES on Counting") -> LearningRun:
    run = LearningRun(title, "seed=0")
    run.begin(("loss", 0.5))
    feed.changed(run)
    add(feed, run, n_results)
    return run


def add(feed: LearningFeed, run: LearningRun, n_results: int) -> None:
    for _ in range(n_results):
        i = run.look().n_results + 1
        run.add({ITERATION: i, "loss": np.nan if i == 1 else 1 / i} | ({"entropy": 0.5} if i > 2 else {}))
        feed.changed(run)


def test_runs_are_told_while_somebody_looks(feed: LearningFeed) -> None:
    run = a_run(feed, 3)
    assert feed._thread is None, "nobody looks"
    front = Front()
    feed.subscribe("a", front)
    wait_until(lambda: front.labels, 10.0, "no run was told")
    (label,) = front.labels
    assert (label["title"], label["settings"], label["state"]) == ("ES on Counting", "seed=0", "running")
    assert (label["goal"], label["goal_value"], label["results"], label["ended"]) == ("loss", 0.5, 3, None)
    assert 1.0 <= label["began"] <= 3.0, "in seconds of the session"
    wait_until(lambda: feed._thread is None, 10.0, "it looks although nothing changes")
    assert not front.columns, "points are told to who looks at them"
    feed.watch("a", True)
    wait_until(lambda: front.equals(0, run), 10.0, "no points were told")
    add(feed, run, 2)
    run.end("diverged", "the loss is NaN\n")
    feed.changed(run)
    wait_until(lambda: front.labels[0]["state"] == "diverged", 10.0, "its end was not told")
    assert front.labels[0]["why"] == "the loss is NaN\ufffd" and front.labels[0]["ended"] > label["began"]
    wait_until(lambda: front.equals(0, run), 10.0, "further points were not told")
    assert front.n_points_told == 3 + 3, "only those that are new, and the last one, which may have changed"
    feed.watch("a", False)
    add(feed, run, 1)
    wait_until(lambda: front.labels[0]["results"] == 6 and feed._thread is None, 10.0, "the list was not told")
    assert not front.equals(0, run)


def test_all_points_are_told_again_once_neighbours_have_become_one(feed: LearningFeed) -> None:
    run, front = a_run(feed, N_POINTS_MAX - 1), Front()
    feed.subscribe("a", front)
    feed.watch("a", True)
    wait_until(lambda: front.equals(0, run), 10.0, "no points were told")
    for _ in range(4):
        add(feed, run, 1)
        wait_until(lambda: front.equals(0, run), 10.0, "what was added was not told")
    assert len(front.columns[0]["at"]) == N_POINTS_MAX // 2 + 2
    assert front.n_points_told == (N_POINTS_MAX - 1) + 2 + (N_POINTS_MAX // 2 + 1) + 1 + 2


def test_another_session_has_other_times(feed: LearningFeed) -> None:
    run, front, origin = a_run(feed, 2), Front(), [ORIGIN]
    feed._origin = lambda: origin[0]
    feed.subscribe("a", front)
    feed.watch("a", True)
    wait_until(lambda: front.equals(0, run), 10.0, "no points were told")
    began, at = front.labels[0]["began"], front.columns[0]["at"].copy()
    origin[0] += 100.0
    feed.restart()
    wait_until(lambda: front.labels[0]["began"] == began - 100.0, 10.0, "the list was not told anew")
    wait_until(lambda: np.array_equal(front.columns[0]["at"], at - 100.0), 10.0, "points were not told anew")
    feed.subscribe("a", again := Front())  # a page that asks for a new snapshot goes on looking
    wait_until(lambda: np.array_equal(again.columns.get(0, {}).get("at", []), at - 100.0), 10.0, "nothing was told")


def test_the_oldest_runs_give_way(feed: LearningFeed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning_feed, "N_RUNS_MAX", 2)
    runs = [a_run(feed, 1, f"run {i}") for i in range(3)]
    assert feed.runs() == {1: runs[1], 2: runs[2]}
    feed.subscribe("a", front := Front())
    wait_until(lambda: [label["run"] for label in front.labels] == [1, 2], 10.0, "the list was not told")


def test_a_front_end_that_reads_slowly_is_told_later(feed: LearningFeed, monkeypatch: pytest.MonkeyPatch) -> None:
    runs, front = [a_run(feed, 2), a_run(feed, 3)], Front()
    allowances = iter([1, 0, 0])
    monkeypatch.setattr(learning_feed.Subscriber, "allowance", lambda subscriber: next(allowances, 1))
    feed.subscribe("a", front)
    feed.watch("a", True)
    wait_until(lambda: all(front.equals(i, run) for i, run in enumerate(runs)), 10.0, "not all was told")
    assert next(allowances, None) is None


def test_a_recording_has_all_points(feed: LearningFeed) -> None:
    run = a_run(feed, 3)
    begun = LearningRun("PPO on CartPole-v1")
    feed.changed(begun)
    about, tables = runs_of(feed.runs(), ORIGIN)
    assert [each["label"]["title"] for each in about] == ["ES on Counting", "PPO on CartPole-v1"]
    assert about[0]["points"]["metrics"] == [ITERATION, "loss", "entropy"]
    assert [each["points"]["points"] for each in about] == [3, 0]
    assert tables["points"].to_pydict() == {"run": [0, 0, 0], "at": (run.look().at - ORIGIN).tolist()}
    rows = [tuple(row.values()) for row in tables["metrics"].to_pylist()]
    assert rows == [
        *[(0, i, 0, float(i + 1)) for i in range(3)],
        (0, 1, 1, 0.5),
        (0, 2, 1, pytest.approx(1 / 3)),
        (0, 2, 2, 0.5),
    ]
