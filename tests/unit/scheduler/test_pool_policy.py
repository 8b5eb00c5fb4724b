"""How many workers: numbers in, numbers out."""

from __future__ import annotations

import pytest
from cellmesh.scheduler.local_scheduler import policy
from cellmesh.scheduler.local_scheduler.policy import (
    Limits,
    backoff_s,
    limits_for,
    n_to_start,
    tells_failure,
    to_retire,
)

LIMITS = Limits(n_keep=2, max_workers=8, max_starting=4)


@pytest.mark.parametrize("n_cpus, keep", [(0.0, 1), (0.5, 1), (2.0, 2), (3.5, 4), (500.0, policy.MAX_KEPT)])
def test_limits_follow_the_cpus_on_offer(n_cpus: float, keep: int) -> None:
    limits = limits_for(n_cpus)
    assert limits.n_keep == keep and limits.n_keep <= limits.max_workers and limits.max_starting >= 2


@pytest.mark.parametrize(
    "wanted, plain, alive, starting, start",
    [
        (0, 0, 0, 0, 2),  # empty: those to keep
        (0, 2, 2, 0, 0),  # enough
        (0, 1, 3, 0, 1),  # two serve actors
        (3, 2, 2, 0, 3),  # tasks wait
        (3, 4, 4, 2, 1),  # two are on their way for them
        (99, 2, 2, 0, 4),  # not more at once
        (99, 7, 7, 0, 1),  # not more in all
        (99, 8, 8, 0, 0),
        (99, 5, 5, 4, 0),
    ],
)
def test_starts(wanted: int, plain: int, alive: int, starting: int, start: int) -> None:
    assert n_to_start(LIMITS, n_wanted=wanted, n_plain=plain, n_alive=alive, n_starting=starting) == start


def test_those_idle_longest_go_first_and_some_stay() -> None:
    now = 1000.0
    assert to_retire(LIMITS, {5: 10.0, 6: now, 7: 5.0, 8: 20.0}, now) == [7, 5]
    assert to_retire(LIMITS, {5: now, 6: now, 7: now}, now) == []
    assert to_retire(LIMITS, {5: 0.0, 6: 0.0}, now) == []


def test_back_off_grows_to_its_bound() -> None:
    waits = [backoff_s(n) for n in range(1, 100)]
    assert waits == sorted(waits) and waits[0] == policy.FIRST_BACKOFF_S and waits[-1] == policy.MAX_BACKOFF_S


def test_notices_get_rarer() -> None:
    assert [n for n in range(100) if tells_failure(n)] == [3, 6, 12, 24, 48, 96]
