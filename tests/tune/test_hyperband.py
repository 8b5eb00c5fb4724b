"""HyperBand: its table, halving by hand, and what must not keep a bracket waiting."""

from __future__ import annotations

import pytest
from tune.told import Told

from cellmesh.tune.schedulers import HyperBand, Pause, Resume, Stop
from cellmesh.tune.schedulers.hyperband import hyperband_table


def test_the_table_of_the_paper() -> None:
    assert hyperband_table(81, 3) == [
        (5, [81]),
        (8, [27, 81]),
        (15, [9, 27, 81]),
        (34, [3, 9, 27, 81]),
        (81, [1, 3, 9, 27, 81]),
    ]


@pytest.mark.parametrize(
    ("max_t", "factor", "table"),
    [
        (1, 3, [(1, [1])]),
        (9, 3, [(3, [9]), (5, [3, 9]), (9, [1, 3, 9])]),
        (10, 3, [(3, [10]), (5, [3, 9]), (9, [1, 3, 9])]),  # rounded down
        (16, 2, [(5, [16]), (5, [8, 16]), (7, [4, 8, 16]), (10, [2, 4, 8, 16]), (16, [1, 2, 4, 8, 16])]),
    ],
)
def test_other_tables(max_t: float, factor: float, table: list[tuple[int, list[float]]]) -> None:
    assert hyperband_table(max_t, factor) == table


def test_the_largest_bracket_is_there_whatever_rounding_says() -> None:
    """729 * 3**-6 is a little less than 1."""
    assert hyperband_table(729, 3)[-1] == (729, [1, 3, 9, 27, 81, 243, 729])


def of_second_bracket(n: int, **options: bool) -> Told:
    """With trials 3, 4, ... in the bracket of 5 trials and rungs 3 and 9; trials 0, 1, 2 fill the first one."""
    return Told(HyperBand(max_t=9, **options), 3 + n)


def test_halving() -> None:
    told = of_second_bracket(5)
    assert told.reports(3, 1, 9.0) == []
    for trial, score in ((3, 0.3), (4, 0.4), (5, 0.1), (6, 0.2)):
        assert told.reports(trial, 3, score) == [Pause(trial)]
    decisions = told.reports(7, 3, 0.0)  # ceil(5 / 3) = 2 go on
    assert set(decisions) == {Stop(5), Stop(6), Stop(7), Resume(3), Resume(4)}
    assert told.reports(3, 8, 0.0) == []
    assert told.reports(3, 9, 0.0) == [Stop(3)]
    assert told.reports(4, 9, 0.0) == [Stop(4)]


def test_in_mode_min_less_is_better() -> None:
    told = Told(HyperBand(max_t=9), 8, mode="min")
    for trial, score in ((3, 0.3), (4, 0.4), (5, 0.1), (6, 0.2)):
        told.reports(trial, 3, score)
    assert told.reports(7, 3, 0.0) == [Stop(4), Stop(3), Stop(6), Resume(5)]


def test_a_bracket_waits_until_it_is_full() -> None:
    told = of_second_bracket(4)
    for trial in range(3, 7):
        assert told.reports(trial, 3, float(trial)) == [Pause(trial)]
    assert told.add() == []
    assert told.reports(7, 3, 0.0) == [Stop(7), Stop(3), Stop(4), Resume(6), Resume(5)]


def test_with_no_more_trials_a_bracket_halves_what_it_has() -> None:
    told = of_second_bracket(3)
    for trial in range(3, 6):
        assert told.reports(trial, 3, float(trial)) == [Pause(trial)]
    assert told.no_more() == [Stop(3), Stop(4), Resume(5)]  # ceil(3 / 3)


def test_where_no_more_can_come_it_goes_on_and_later_ones_get_another_bracket() -> None:
    told = of_second_bracket(3)
    for trial in range(3, 6):
        told.reports(trial, 3, float(trial))
    assert told.starved() == [Stop(3), Stop(4), Resume(5)]
    told.add()
    assert told.reports(6, 1, 0.0) == [Pause(6)]  # of the bracket whose first rung is 1


@pytest.mark.parametrize("failed", [False, True])
def test_the_end_of_the_last_one_that_is_waited_for(failed: bool) -> None:
    """It counts as one that was there: 2 of 5 go on."""
    told = of_second_bracket(5)
    for trial in range(3, 7):
        assert told.reports(trial, 3, float(trial)) == [Pause(trial)]
    assert told.ends(7, failed) == [Stop(3), Stop(4), Resume(6), Resume(5)]
    assert told.ends(6, failed) == []
    assert told.reports(5, 9, 0.0) == [Stop(5)]


def test_ends_at_every_rung() -> None:
    told = Told(HyperBand(max_t=9), 3 + 5 + 9)
    for trial in range(8, 16):
        assert told.reports(trial, 1, float(trial)) == [Pause(trial)]
    told.reports(16, 1, 16.0)
    assert told.reports(16, 3, 16.0) == [Pause(16)]
    assert told.reports(15, 3, 15.0) == [Pause(15)]
    assert told.ends(14) == [Stop(15), Resume(16)]  # 9, 3, 1


def test_a_trial_that_skips_a_rung_passes_both() -> None:
    told = Told(HyperBand(max_t=9), 3 + 5 + 9)
    for trial in range(8, 16):
        assert told.reports(trial, 4, float(trial)) == [Pause(trial)]
    # Rung 1 keeps 3, all of them beyond rung 3 already, which keeps 1; that has yet to come to 9.
    decisions = told.reports(16, 5, 0.0)
    assert decisions == [*map(Stop, (16, 8, 9, 10, 11, 12, 13, 14)), Resume(15)]


def test_trials_go_on_past_the_last_rung_where_they_may() -> None:
    told = of_second_bracket(5, stop_last_trials=False)
    assert told.reports(0, 9, 0.0) == told.reports(0, 90, 0.0) == []
    for trial in range(3, 7):
        told.reports(trial, 3, float(trial))
    told.reports(7, 3, 7.0)
    assert told.reports(7, 9, 0.0) == told.reports(7, 90, 0.0) == []


def test_nan_is_the_worst() -> None:
    for mode, sign in (("max", 1), ("min", -1)):
        told = Told(HyperBand(max_t=9), 8, mode)
        for trial, score in ((3, float("nan")), (4, -1e9), (5, -1e8), (6, -1e7)):
            told.reports(trial, 3, sign * score)
        assert told.reports(7, 3, float("nan")) == [Stop(3), Stop(7), Stop(4), Resume(6), Resume(5)]


def test_brackets_begin_anew_when_each_has_been_filled() -> None:
    told = Told(HyperBand(max_t=3), 2 + 3 + 2)  # (2, [3]), (3, [1, 3])
    for trial in (0, 1, 5, 6):
        assert told.reports(trial, 1, 0.0) == []
    assert told.reports(2, 1, 0.0) == [Pause(2)]
