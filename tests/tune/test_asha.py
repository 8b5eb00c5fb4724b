"""ASHA: rungs, the limit at a rung against numpy, promotion against a search through everything."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tune.told import Told

from cellmesh.tune.schedulers import ASHA, Pause, Resume, Stop
from cellmesh.tune.schedulers.asha import rung_times
from cellmesh.tune.schedulers.rungs import Quantile, Split

scores = st.lists(st.integers(-5, 5).map(float) | st.floats(-1e6, 1e6), min_size=1, max_size=60)


@pytest.mark.parametrize(
    ("grace_period", "max_t", "factor", "times"),
    [
        (1, 100, 4, [1, 4, 16, 64]),
        (1, 64, 4, [1, 4, 16, 64]),
        (1, 243, 3, [1, 3, 9, 27, 81, 243]),  # log(243) / log(3) is a little less than 5
        (1, 1000, 10, [1, 10, 100, 1000]),
        (2, 9, 2, [2, 4, 8]),
        (1, 7, 2.5, [1, 2.5, 6.25]),
        (5, 5, 3, [5]),
    ],
)
def test_rungs(grace_period: float, max_t: float, factor: float, times: list[float]) -> None:
    assert rung_times(grace_period, max_t, factor) == times


@settings(deadline=None)
@given(scores, st.sampled_from([2, 3, 4, 2.5, 10]))
def test_the_quantile_is_numpys(values: list[float], factor: float) -> None:
    q = (1 - 1 / factor) * 100 / 100
    quantile = Quantile(q)
    assert quantile.value() is None
    for n, value in enumerate(values, 1):
        quantile.add(value)
        assert quantile.value() == np.quantile(values[:n], q)


def test_between_nan_and_a_number_there_is_a_limit_that_every_number_reaches() -> None:
    quantile = Quantile(0.5)
    for value in (-math.inf, 1.0):
        quantile.add(value)
    limit = quantile.value()
    assert limit is not None and -math.inf < limit <= -1e308


@settings(deadline=None)
@given(scores, st.sampled_from([2, 3, 4, 2.5]))
def test_the_best_part_is_that_of_a_sort(values: list[float], factor: float) -> None:
    split = Split(lambda n: math.floor(n / factor))
    before: set[int] = set()
    for n, value in enumerate(values, 1):
        entered = split.add(value)
        ranked = sorted(range(n), key=lambda i: (-values[i], i))
        now = set(ranked[: math.floor(n / factor)])
        assert {-order for _, order in split.best} == now
        assert now - before == ({entered} if entered is not None else set())
        before = now


def test_stopping_compares_with_those_before() -> None:
    """Of 4 at a rung the limit is that of the best quarter, interpolated; the first one goes on, whatever it is."""
    told = Told(ASHA(max_t=64), 6)
    assert told.reports(0, 1, 0.1) == []
    assert told.reports(1, 1, 0.0) == [Stop(1)]
    assert told.reports(2, 1, 1.0) == []
    assert told.reports(3, 1, 0.5) == [Stop(3)]  # of 0, 0.1, 1: 0.55
    assert told.reports(4, 1, 0.7) == []  # of 0, 0.1, 0.5, 1: 0.625
    assert told.reports(0, 2, -9.0) == []  # no rung
    assert told.reports(0, 4, -9.0) == []  # the first one at its rung
    assert told.reports(4, 4, -10.0) == [Stop(4)]
    assert told.reports(2, 64, -11.0) == [Stop(2)]  # max_t


def test_in_mode_min_less_is_better() -> None:
    told = Told(ASHA(), 2, mode="min")
    assert told.reports(0, 1, 1.0) == []
    assert told.reports(1, 1, 2.0) == [Stop(1)]


def test_nan_is_worse_than_any_number() -> None:
    for mode in ("min", "max"):
        told = Told(ASHA(), 3, mode)
        assert told.reports(0, 1, -1e300 if mode == "max" else 1e300) == []
        assert told.reports(1, 1, math.nan) == [Stop(1)]


def test_who_skips_a_rung_is_not_compared_there_later() -> None:
    told = Told(ASHA(max_t=64), 2)
    assert told.reports(0, 1, 5.0) == []
    assert told.reports(1, 4, 1.0) == []  # rung 1 without rung 0
    assert told.reports(1, 5, 1.0) == []


def test_trials_go_on_past_the_last_rung_where_they_may() -> None:
    told = Told(ASHA(max_t=16, stop_last_trials=False), 2)
    assert told.reports(0, 16, 1.0) == told.reports(0, 100, 1.0) == []
    assert told.reports(1, 17, 0.0) == [Stop(1)]  # max_t is a rung as well


def test_a_trial_set_back_is_compared_once() -> None:
    told = Told(ASHA(), 2)
    for time in (1, 2, 1, 2, 3):
        assert told.reports(0, time, 0.0) == []
    assert told.reports(1, 1, 1.0) == []


def test_what_ends_by_itself_counts_at_its_rung_and_what_fails_does_not() -> None:
    for failed, decisions in ((False, [Stop(1)]), (True, [])):
        told = Told(ASHA(), 2)
        result = {"score": 1.0, "training_iteration": 1}
        told.scheduler.on_trial_end(0, result, failed)
        assert told.reports(1, 1, 0.0) == decisions


def test_brackets_leave_out_the_first_rungs() -> None:
    """Bracket s of 4 rungs has 4 - s: weights 1, 1/e, 1/e**2."""
    scheduler = ASHA(max_t=64, brackets=3)
    told = Told(scheduler, 4000)
    # Each is worse than all before it: it is stopped at the first rung that it comes to, unless nobody was there.
    firsts = [next((time for time in (1, 4, 16) if told.reports(n, time, -float(n))), 0) for n in range(told.n)]
    shares = [firsts.count(time) / told.n for time in (1, 4, 16)]
    weights = np.exp([0.0, -1.0, -2.0])
    assert np.allclose(shares, weights / weights.sum(), atol=0.03)


def test_promotion_by_a_search_through_everything() -> None:
    """As in the paper: whoever is among the best floor(n / eta) of a rung and has not been promoted there goes on."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        eta = int(rng.integers(2, 5))
        told = Told(ASHA(max_t=eta**3, reduction_factor=eta, kind="promotion"), 30)
        told.no_more()
        rungs: list[list[tuple[float, int]]] = [[], [], []]  # (score, trial), in order of arrival
        promoted: list[set[int]] = [set(), set(), set()]
        place = dict.fromkeys(range(30), 0)  # the rung that a trial is on its way to
        running = set(range(30))
        while running:
            trial = int(rng.choice(sorted(running)))
            score = float(rng.integers(0, 6)) if seed % 2 else float(rng.random())
            k = place[trial]
            decisions = told.reports(trial, eta**k, score)
            if k == 3:
                assert decisions == [Stop(trial)]
                running.remove(trial)
                continue
            rungs[k].append((score, trial))
            ranked = [t for _, t in sorted(rungs[k], key=lambda pair: -pair[0])]
            due = [t for t in ranked[: len(ranked) // eta] if t not in promoted[k]]
            assert len(due) <= 1
            promoted[k].update(due)
            expected = [] if trial in due else [Pause(trial), *map(Resume, due)]
            assert decisions == expected
            running -= {trial}
            running |= set(due)
            for t in due:
                place[t] = k + 1


def test_when_nothing_else_is_left_the_best_goes_on_and_then_all_end() -> None:
    told = Told(ASHA(max_t=4, kind="promotion"), 3)
    told.no_more()
    for trial, score in enumerate((0.1, 0.3, 0.2)):
        assert told.reports(trial, 1, score) == [Pause(trial)]  # floor(3 / 4) is none
    assert told.starved() == [Resume(1)]
    assert told.reports(1, 4, 0.3) == [Stop(1)]
    assert sorted(told.starved(), key=lambda d: d.trial) == [Stop(0), Stop(2)]
    assert told.starved() == []


def test_while_more_may_come_only_the_worst_ends() -> None:
    told = Told(ASHA(max_t=4, kind="promotion"), 3)
    for trial, score in enumerate((0.1, 0.3, 0.2)):
        told.reports(trial, 1, score)
    assert told.starved() == [Resume(1)]
    assert told.reports(1, 4, 0.3) == [Stop(1)]
    assert told.starved() == [Stop(0)]


def test_a_paused_trial_that_has_ended_is_not_resumed() -> None:
    told = Told(ASHA(reduction_factor=2, kind="promotion"), 3)
    assert told.reports(0, 1, 1.0) == [Pause(0)]
    assert told.ends(0) == []
    assert told.reports(1, 1, 0.5) == [Pause(1)]  # trial 0 would have gone on
    assert told.reports(2, 1, 2.0) == []
