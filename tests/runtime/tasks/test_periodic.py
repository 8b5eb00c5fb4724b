"""`every`: tasks that come again and again, and stop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import ModuleType

import pytest
from support.flags import Counter, Flag
from support.waiting import wait_until

import cellmesh
from cellmesh.tasks.periodic import beats

pytestmark = [pytest.mark.timeout(120), pytest.mark.session("shared")]

HOUR = 3600


@cellmesh.remote
def count(counter, step=1):
    for _ in range(step):
        counter.add()
    return counter.value


@cellmesh.remote
def hold(flag, counter):
    counter.add()
    flag.wait(60)


@cellmesh.remote
def fail(counter):
    counter.add()
    raise ValueError("again")


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("cellmesh-every")]


@pytest.mark.parametrize(("now", "n"), [(100.0, 1), (100.9, 1), (101.0, 2), (109.99, 10), (110.5, 11)])
def test_how_many_have_been_due(now: float, n: int) -> None:
    assert beats(100.0, 1.0, now) == n


def test_calls_come_again_until_they_are_cancelled(cm: ModuleType, counter: Counter) -> None:
    counting = cm.every(0.01, count, counter)
    wait_until(lambda: counter.value >= 5)
    counting.cancel()
    assert counting.is_cancelled and not threads()
    assert counting.n_calls >= 5 and cm.get(counting.last) == counting.n_calls
    assert repr(counting).startswith(f"<count every 0.01 s: {counting.n_calls} calls") and repr(counting).endswith(
        "cancelled>"
    )
    counting.cancel()
    assert {row["name"] for row in cm.state.list_tasks()} == {"count"}


def test_the_first_call_is_made_at_once(cm: ModuleType, counter: Counter) -> None:
    with cm.every(HOUR, count.options(num_cpus=0), counter, step=3) as counting:
        assert cm.get(counting.last) == 3 and counting.n_calls == 1
        assert "1 calls, the next in 3" in repr(counting)
    assert counting.is_cancelled


def test_calls_do_not_overlap(cm: ModuleType, counter: Counter, flag: Callable[[str], Flag]) -> None:
    with cm.every(0.01, hold, flag("go"), counter) as holding:
        wait_until(lambda: holding.n_skipped >= 5)
        assert holding.n_calls == 1 and counter.value <= 1
        flag("go").set()
        wait_until(lambda: holding.n_calls >= 2)


def test_calls_overlap_if_they_are_to(cm: ModuleType, counter: Counter, flag: Callable[[str], Flag]) -> None:
    with cm.every(0.01, hold.options(num_cpus=0), flag("go"), counter, overlap=True):
        wait_until(lambda: counter.value >= 3)
        flag("go").set()


def test_a_call_that_fails_is_not_the_last(cm: ModuleType, counter: Counter) -> None:
    with cm.every(0.01, fail, counter) as failing:
        wait_until(lambda: counter.value >= 3)
    with pytest.raises(ValueError, match="again"):
        cm.get(failing.last)


def test_they_end_with_the_session_and_begin_none(cm: ModuleType, counter: Counter) -> None:
    soon, late = cm.every(0.005, count, counter), cm.every(HOUR, count, counter)
    wait_until(lambda: soon.n_calls >= 3)
    cm.shutdown()
    assert soon.is_cancelled and late.is_cancelled and not threads()
    assert not cm.is_initialized()


def test_an_actor_is_called_and_has_periodic_calls_of_its_own(cm: ModuleType, counter: Counter) -> None:
    @cm.remote
    class Ticker:
        def __init__(self):
            self.n = 0

        def tick(self):
            self.n += 1
            return self.n

        def begin(self):
            self.own = cellmesh.every(0.01, count.options(num_cpus=0), counter)
            return self.own.n_calls

    ticker = Ticker.remote()
    with cm.every(0.01, ticker.tick) as ticking:
        wait_until(lambda: ticking.n_calls >= 3)
    assert cm.get(ticker.begin.remote()) >= 1
    wait_until(lambda: counter.value >= 3)


def test_what_is_refused(cm: ModuleType, counter: Counter) -> None:
    for seconds in (0, -1, "1", True, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="needs a number of seconds > 0"):
            cm.every(seconds, count, counter)
    with pytest.raises(TypeError, match="needs a remote function"):
        cm.every(1, print)
    with pytest.raises(TypeError, match=r"count.remote\(\): missing a required argument"):
        cm.every(1, count)
    with pytest.raises(ValueError, match="num_returns=0"):
        cm.every(1, count.options(num_returns=0), counter)

    @cm.remote
    def task():
        cellmesh.every(1, count, counter)

    with pytest.raises(RuntimeError, match="for drivers and actors"):
        cm.get(task.remote())
    assert not threads()
