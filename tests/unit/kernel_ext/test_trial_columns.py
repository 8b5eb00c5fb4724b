"""What a front end is told of an experiment's trials: by replaying the messages as the panel does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cellmesh.kernel_ext import panel_messages as pm
from cellmesh.kernel_ext.panel.trial_columns import STATES, TrialColumns, label_of
from cellmesh.kernel_ext.panel.trial_feed import TrialFeed
from support.waiting import wait_until

from cellmesh.tune import journal
from cellmesh.tune.control.trial import State
from cellmesh.tune.experiment import Experiment, living
from cellmesh.tune.records import AnyRecord, Became, Closed, Definition, Ended, Launched, Opened, Reported, Suggested
from cellmesh.tune.view import ExperimentView

DEFINITION = Definition("train", {}, {}, None, None, 1, 0, {})
ORIGIN = 1000.0  # the session began then


def opened() -> Opened:
    return Opened(at=1001.0, version=1, name="digits", plan={"metric": "loss", "mode": "min"}, definition=DEFINITION)


def begun(trial: int, at: float = 1002.0, **config: Any) -> list[AnyRecord]:
    return [
        Suggested(at=at, trial=trial, config=config),
        Launched(at=at + 1, trial=trial, attempt=1),
        Became(at=at + 1, trial=trial, state="RUNNING"),
    ]


def report(trial: int, step: int, **result: float) -> Reported:
    return Reported(
        at=1003.0 + step, trial=trial, attempt=1, result={**result, "training_iteration": step, "timestamp": 1}
    )


def over(trial: int, state: str = "TERMINATED", error: str = "", line: str = "") -> list[AnyRecord]:
    outcome: Any = "failed" if error else "done"
    return [
        Ended(at=1010.0, trial=trial, attempt=1, outcome=outcome, error=error, line=line),
        Became(at=1010.0, trial=trial, state=state, why="it has failed" if error else ""),
    ]


class Replica:
    """What a panel knows."""

    def __init__(self) -> None:
        self.trials: dict[int, dict[str, Any]] = {}
        self.header = pm.Trials()
        self.n_messages = 0

    def apply(self, data: dict[str, Any], buffers: list[Any]) -> None:
        header, arrays = pm.decode_trials(json.loads(json.dumps(data)), [bytes(buffer) for buffer in buffers])
        if header.n == 0:
            self.trials.clear()
        else:
            assert header.n == self.header.n + 1
        self.header, self.n_messages = header, self.n_messages + 1
        n = header.changed
        texts = {text.trial: (text.why, text.error) for text in header.texts}
        metrics = arrays.metrics.reshape(len(header.metrics), n)
        parameters = arrays.parameters.reshape(len(header.parameters), n)
        ends = np.cumsum(arrays.lengths)
        for i, number in enumerate(arrays.trial.tolist()):
            points = slice(int(ends[i] - arrays.lengths[i]), int(ends[i]))
            self.trials[number] = {
                "state": pm.TRIAL_STATES[arrays.state[i]],
                "iteration": int(arrays.iteration[i]),
                "times": arrays.times.reshape(3, n)[:, i].tolist(),
                "metrics": dict(zip(header.metrics, metrics[:, i].tolist(), strict=True)),
                "parameters": {
                    parameter.name: parameter.words[int(value)] if parameter.words else value
                    for parameter, value in zip(header.parameters, parameters[:, i].tolist(), strict=True)
                    if value == value
                },
                "curve": [tuple(point) for point in np.stack([column[points] for column in arrays[-3:]], 1).tolist()],
                "text": texts.get(number),
            }


def tell(columns: TrialColumns, view: ExperimentView, replica: Replica, n_bytes: int = 1 << 30) -> Replica:
    """All that there is to tell."""
    while (message := columns.next(view, lambda at: at - ORIGIN, n_bytes)) is not None:
        replica.apply(*pm.encode_trials(*message))
    return replica


@pytest.fixture
def view() -> ExperimentView:
    made = ExperimentView()
    made.add([opened(), *begun(0, lr=0.1, opt="adam"), report(0, 1, loss=3.0, acc=0.1), report(0, 2, loss=2.0)])
    return made


def test_states_are_those_of_tune() -> None:
    assert tuple(state.value for state in State) == STATES and len(STATES) == len(pm.TRIAL_STATES)


def test_a_trial_is_told_whole(view: ExperimentView) -> None:
    replica = tell(TrialColumns("p"), view, Replica())
    assert replica.header.metric == "loss" and replica.header.metrics == ["loss", "acc", "training_iteration"]
    (trial,) = replica.trials.values()
    assert trial["state"] == "running" and trial["iteration"] == 2
    assert trial["times"][:2] == [2.0, 3.0] and np.isnan(trial["times"][2])
    assert trial["metrics"]["loss"] == 2.0 and np.isnan(trial["metrics"]["acc"]), "the latest result had none"
    assert trial["parameters"] == {"lr": 0.1, "opt": "adam"}
    assert trial["curve"] == [(4.0, 1.0, 3.0), (5.0, 2.0, 2.0)] and trial["text"] is None


def test_only_what_has_changed_is_told_again(view: ExperimentView) -> None:
    columns, replica = TrialColumns("p"), Replica()
    tell(columns, view, replica)
    assert columns.next(view, lambda at: at, 1000) is None
    view.add([*begun(1, lr=0.2, opt="sgd"), report(1, 1, loss=1.0)])
    tell(columns, view, replica)
    assert replica.header.n == 1 and replica.header.changed == 1 and set(replica.trials) == {0, 1}
    assert replica.trials[1]["parameters"] == {"lr": 0.2, "opt": "sgd"}
    view.add(over(1, "ERROR", "ValueError: no", "x = f(lr)"))
    tell(columns, view, replica)
    assert replica.trials[1]["state"] == "failed" and replica.trials[1]["times"][2] == 10.0
    assert replica.trials[1]["text"] == ("it has failed", "ValueError: no\nx = f(lr)")


def test_a_parameter_of_numbers_and_words_is_one_of_words(view: ExperimentView) -> None:
    columns, replica = TrialColumns("p"), Replica()
    tell(columns, view, replica)
    view.add(begun(1, lr="auto", opt=None))
    tell(columns, view, replica)
    assert replica.trials[0]["parameters"] == {"lr": "0.1", "opt": "adam"}
    assert replica.trials[1]["parameters"] == {"lr": "auto", "opt": "None"}


def test_messages_are_as_small_as_asked_for(view: ExperimentView) -> None:
    for number in range(1, 200):
        view.add(
            [*begun(number, lr=0.1, opt="adam"), *[report(number, step, loss=1.0 / step) for step in range(1, 30)]]
        )
    replica = Replica()
    columns = TrialColumns("p")
    message = columns.next(view, lambda at: at, 20_000)
    assert message is not None
    data, buffers = pm.encode_trials(*message)
    assert 10_000 < sum(map(len, buffers)) <= 21_000 and data["behind"] > 100
    replica.apply(data, buffers)
    tell(columns, view, replica, 20_000)
    assert len(replica.trials) == 200 and replica.n_messages > 3 and replica.header.behind == 0


def test_a_long_curve_is_thinned_and_keeps_its_ends(view: ExperimentView) -> None:
    view.add([report(0, step, loss=float(step)) for step in range(3, 5001)])
    curve = tell(TrialColumns("p"), view, Replica()).trials[0]["curve"]
    assert len(curve) == pm.N_POINTS_MAX and curve[0][1] == 1 and curve[-1][1:] == (5000.0, 5000.0)


def test_another_metric_may_be_drawn_and_what_is_not_finite_is_left_out(view: ExperimentView) -> None:
    view.add([report(0, 3, acc=float("inf")), report(0, 4, acc=0.5)])
    replica = tell(TrialColumns("p", "acc"), view, Replica())
    assert replica.header.metric == "acc"
    assert [(x, round(y, 3)) for _, x, y in replica.trials[0]["curve"]] == [(1.0, 0.1), (4.0, 0.5)]


def test_the_label_counts_and_knows_the_best(view: ExperimentView) -> None:
    view.add([*begun(1), report(1, 1, loss=1.5), *over(1), *begun(2), *over(2, "ERROR", "boom")])
    label = label_of(view, "p", lambda at: at - ORIGIN)
    assert (label.name, label.metric, label.mode, label.began, label.ended) == ("digits", "loss", "min", 1.0, None)
    assert (label.counts.running, label.counts.ended, label.counts.failed) == (1, 1, 1)
    assert (label.best, label.best_value) == (1, 1.5)
    view.add([Closed(at=1020.0, why="all trials have ended")])
    assert label_of(view, "p", lambda at: at - ORIGIN).ended == 20.0


class Front:
    """A front end that only listens."""

    def __init__(self) -> None:
        self.labels: list[dict[str, Any]] = []
        self.replica = Replica()

    def __call__(self, data: dict[str, Any], buffers: list[memoryview]) -> None:
        if data["type"] == "experiments":
            self.labels = data["experiments"]
        else:
            self.replica.apply(data, list(buffers))


@pytest.fixture
def feed() -> Iterator[TrialFeed]:
    made = TrialFeed(lambda: ORIGIN)
    yield made
    made.stop()
    wait_until(lambda: made._thread is None, 10.0, "the thread has not ended")


def test_a_journal_is_followed_while_somebody_looks(tmp_path: Path, feed: TrialFeed) -> None:
    folder = tmp_path / "digits"
    folder.mkdir()
    writer = journal.Writer(folder)
    for record in (opened(), *begun(0, lr=0.1)):
        writer.write(record)
    experiment = Experiment(folder)
    assert experiment in living()
    front = Front()
    assert feed._thread is None, "nobody looks"
    feed.subscribe("a", front)
    feed.watch("a", str(folder), "")
    wait_until(lambda: front.replica.trials, 10.0, "no trial was told")
    assert front.labels[0]["counts"]["running"] == 1 and front.labels[0]["path"] == str(folder)
    for record in (report(0, 1, loss=1.0), *over(0), Closed(at=1020.0)):
        writer.write(record)
    writer.close()
    wait_until(lambda: front.labels[0]["ended"] == 20.0, 10.0, "its end was not told")
    assert front.replica.trials[0]["state"] == "ended"
    wait_until(lambda: feed._thread is None, 10.0, "it is read although it is over")
    feed.watch("a", str(folder), "training_iteration")  # what is over can still be looked at
    wait_until(lambda: front.replica.header.metric == "training_iteration", 10.0, "nothing was told")


def test_a_deleted_experiment_is_forgotten(tmp_path: Path, feed: TrialFeed) -> None:
    folder = tmp_path / "digits"
    folder.mkdir()
    writer = journal.Writer(folder)
    writer.write(opened())
    writer.close()
    experiment = Experiment(folder)
    front = Front()
    feed.subscribe("a", front)
    wait_until(lambda: front.labels, 10.0, "it was not told")
    (folder / journal.FILE).unlink()
    wait_until(lambda: not front.labels, 10.0, "it is still told")
    feed.look_for_new()
    assert feed._followed == {} and experiment.name == "digits"
