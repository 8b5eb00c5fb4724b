"""The median stopping rule, by hand; and who yields to whom while there are too few to compare with."""

from __future__ import annotations

from statistics import median

import numpy as np
import pytest
from tune.told import Told

from cellmesh.tune.schedulers import MedianStopping, Pause, Resume, Stop


def rule(**options: object) -> MedianStopping:
    return MedianStopping(time_attr="training_iteration", **{"grace_period": 0, **options})


def test_by_hand() -> None:
    told = Told(rule(min_samples_required=3), 4).all_run()
    for time, scores in enumerate(((1, 2, 3), (3, 2, 1), (8, 5, 5)), 1):
        for trial, score in enumerate(scores):
            assert told.reports(trial, time, score) == []
    # Running means at 2: 2, 2, 2; at 3: 4, 3, 3.
    assert told.reports(3, 2, 2.0) == []
    assert told.reports(3, 3, 2.9) == [Stop(3)]


def test_the_best_so_far_counts_not_the_last() -> None:
    told = Told(rule(min_samples_required=1), 2).all_run()
    for time in (1, 2, 3):
        told.reports(0, time, 5.0)
    told.reports(1, 1, 6.0)
    assert told.reports(1, 2, 0.0) == []


def test_means_begin_at_the_grace_period_and_nobody_is_stopped_before() -> None:
    told = Told(rule(min_samples_required=1, grace_period=2), 2).all_run()
    for time, score in ((1, 100.0), (2, 4.0), (3, 6.0)):
        told.reports(0, time, score)
    assert told.reports(1, 1, 0.0) == []
    assert told.reports(1, 2, 4.0) == []
    assert told.reports(1, 3, 4.9) == [Stop(1)]  # mean 5


@pytest.mark.parametrize("mode", ["min", "max"])
def test_nan_is_the_worst(mode: str) -> None:
    """A trial's own is worse than any mean, and a mean with one than any number."""
    sign = 1 if mode == "max" else -1
    told = Told(rule(min_samples_required=3), 5, mode).all_run()
    for trial, score in enumerate((-1e9, -1e8, float("nan"))):
        told.reports(trial, 1, sign * score)
    assert told.reports(3, 1, float("nan")) == [Stop(3)]
    assert told.reports(4, 1, sign * -1.1e9) == []  # half of the others are worse, having NaN


def test_who_has_ended_counts() -> None:
    told = Told(rule(min_samples_required=1), 2).all_run()
    told.reports(0, 1, 5.0)
    told.reports(0, 2, 5.0)
    told.ends(0)
    assert told.reports(1, 2, 4.0) == [Stop(1)]


def test_a_result_that_is_repeated_at_the_end_counts_once() -> None:
    told = Told(rule(min_samples_required=1), 2).all_run()
    told.reports(0, 1, 2.0)
    told.reports(0, 2, 6.0)
    told.scheduler.on_trial_end(0, {"score": 6.0, "training_iteration": 2}, False)
    assert told.reports(1, 2, 4.0) == []  # (2 + 6) / 2


def test_what_a_trial_reported_before_it_was_set_back_is_forgotten() -> None:
    told = Told(rule(min_samples_required=1), 2).all_run()
    for time, score in ((1, 2.0), (2, 100.0), (3, 100.0), (2, 4.0), (3, 6.0)):
        told.reports(0, time, score)
    assert told.reports(1, 3, 4.0) == []  # (2 + 4 + 6) / 3


def test_against_the_definition() -> None:
    """Random curves: stopped exactly where the best so far is below the median of the others' running means."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        n, grace = 8, int(rng.integers(0, 3))
        told = Told(rule(min_samples_required=2, grace_period=grace), n).all_run()
        curves: list[list[float]] = [[] for _ in range(n)]
        running = list(range(n))
        while running:
            trial = int(rng.choice(running))
            curves[trial].append(float(rng.normal()))
            time = len(curves[trial])
            decisions = told.reports(trial, time, curves[trial][-1])
            since = max(grace, 1) - 1
            means = [np.mean(c[since:time]) for i, c in enumerate(curves) if i != trial and len(c) >= time > since]
            is_worse = time >= grace and len(means) >= 2 and max(curves[trial]) < median(means)
            assert decisions == ([Stop(trial)] if is_worse else [])
            if is_worse or time == 12:
                running.remove(trial)
                if not is_worse:
                    told.ends(trial)


def test_with_too_few_to_compare_with_trials_yield_to_those_that_wait() -> None:
    told = Told(rule(min_samples_required=2), 4)
    told.no_more()
    told.scheduler.on_trial_begin(0)
    told.scheduler.on_trial_begin(1)
    assert told.reports(0, 1, 1.0) == [Pause(0)]  # for 2
    told.scheduler.on_trial_begin(2)
    assert told.reports(1, 1, 1.0) == [Pause(1)]  # for 3
    told.scheduler.on_trial_begin(3)
    assert told.reports(2, 1, 1.0) == [
        Resume(0),
        Resume(1),
    ]  # 0 and 1 are enough for 2, as are the others for each of them
    assert told.reports(3, 1, 1.0) == []


def test_nobody_yields_where_nobody_waits() -> None:
    told = Told(rule(), 4).all_run()
    assert [told.reports(trial, 1, 0.0) for trial in range(4)] == [[], [], [], []]


def test_a_trial_runs_for_its_slice_before_it_yields_again() -> None:
    told = Told(rule(min_samples_required=5, min_time_slice=2), 2)
    told.no_more()
    told.scheduler.on_trial_begin(0)
    assert told.reports(0, 1, 0.0) == [Pause(0)]
    told.scheduler.on_trial_begin(1)
    assert told.reports(1, 1, 0.0) == [Pause(1), Resume(0), Resume(1)]
    assert told.reports(0, 2, 0.0) == told.reports(0, 3, 0.0) == []
    assert told.reports(0, 4, 0.0) == [Pause(0), Resume(0)]  # behind trial 1


def test_softly_trials_are_set_aside_and_go_on_at_the_end() -> None:
    told = Told(rule(min_samples_required=1, hard_stop=False), 3).all_run()
    told.reports(0, 1, 5.0)
    told.reports(1, 1, 9.0)
    assert told.reports(2, 1, 1.0) == [Pause(2)]
    assert told.ends(0) == []
    assert told.ends(1) == [Resume(2)]
    assert told.reports(2, 2, -1.0) == []


def test_where_more_may_come_they_go_on_only_when_nothing_else_can() -> None:
    told = Told(rule(min_samples_required=1, hard_stop=False), 2)
    told.reports(0, 1, 5.0)
    assert told.reports(1, 1, 1.0)[0] == Pause(1)
    assert told.ends(0) == []
    assert told.starved() == [Resume(1)]
