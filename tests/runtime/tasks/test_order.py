"""Which task begins next, and which may not begin yet although there is room: priority, max_in_flight, rate_limit."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from types import ModuleType

import pytest
from support.flags import Counter, Flag
from support.waiting import wait_until

import cellmesh
from cellmesh.session.notifier import until_ready

Flags = Callable[[str], Flag]


def waits_for(ref: object) -> str:
    """What the listing says of a task; "" for one that is not queued, too."""
    return next((row["waits_for"] for row in cellmesh.state.list_tasks() if row["task"] == ref.creator), "")


def row_of(ref: object) -> dict[str, object]:
    return next(row for row in cellmesh.state.list_tasks() if row["task"] == ref.creator)


def state_of(ref: object) -> str:
    return row_of(ref)["state"]


def hold(begun: Flag, release: Flag) -> int:
    begun.set()
    release.wait()
    return os.getpid()


# ---------------------------------------------------------------- priority
def test_of_what_waits_the_highest_priority_begins_first(one_cpu: ModuleType, counter: Counter, flag: Flags) -> None:
    holds = one_cpu.remote(hold).remote(flag("begun"), flag("release"))
    flag("begun").wait()
    place = one_cpu.remote(counter.add)
    low, plain, high = place.options(priority=-5), place, place.options(priority=5)
    refs = [low.remote(), plain.remote(), high.remote(), plain.remote(), high.remote(), low.remote()]
    flag("release").set()
    assert one_cpu.get(refs, timeout=60) == [5, 3, 1, 4, 2, 6] and one_cpu.get(holds)


def test_an_actor_is_made_before_tasks_of_a_lower_priority(one_cpu: ModuleType, counter: Counter, flag: Flags) -> None:
    @one_cpu.remote(priority=1)
    class Numbered:
        def __init__(self, counter: Counter) -> None:
            self.number = counter.add()

        def get(self) -> int:
            return self.number

    holds = one_cpu.remote(hold).remote(flag("begun"), flag("release"))
    flag("begun").wait()
    place = one_cpu.remote(counter.add)
    tasks = [place.remote() for _ in range(3)]
    actor = Numbered.remote(counter)
    flag("release").set()
    assert (
        one_cpu.get(actor.get.remote(), timeout=60) == 1
        and one_cpu.get(tasks, timeout=60) == [2, 3, 4]
        and one_cpu.get(holds)
    )


def test_what_a_task_submits_has_its_priority_unless_it_says_otherwise(
    one_cpu: ModuleType, counter: Counter, flag: Flags
) -> None:
    @one_cpu.remote(priority=3)
    def parent(counter: Counter) -> list:
        place = cellmesh.remote(counter.add)
        return [place.options(priority=0).remote(), place.remote()]

    holds = one_cpu.remote(hold).remote(flag("begun"), flag("release"))
    flag("begun").wait()
    of_parent, plain = parent.remote(counter), one_cpu.remote(counter.add).remote()
    flag("release").set()
    plain_too, inherits = one_cpu.get(of_parent, timeout=60)
    assert (
        one_cpu.get(inherits, timeout=60) == 1
        and sorted(one_cpu.get([plain, plain_too], timeout=60)) == [2, 3]
        and one_cpu.get(holds)
    )


# ---------------------------------------------------------------- max_in_flight
def test_so_many_of_a_function_run_at_a_time(cm: ModuleType, flag: Flags) -> None:
    fetch = cm.remote(num_cpus=0, max_in_flight=2)(hold)
    refs = [fetch.remote(flag(f"begun{i}"), flag(f"release{i}")) for i in range(4)]
    flag("begun0").wait(), flag("begun1").wait()
    said = "2 of 2 of hold run, its max_in_flight"
    assert [waits_for(ref) for ref in refs] == ["", "", said, said]
    with pytest.raises(cm.exceptions.GetTimeoutError, match=f"which waits: {said}"):
        cm.get(refs[3], timeout=0.01)
    assert cm.get(cm.remote(os.getpid).remote(), timeout=60)  # others go on
    assert not flag("begun2").is_set()
    for i in range(4):
        flag(f"release{i}").set()
    cm.get(refs, timeout=60)


def test_a_crash_a_cancellation_and_an_error_give_the_place_back(cm: ModuleType, flag: Flags) -> None:
    fetch = cm.remote(num_cpus=0, max_in_flight=1, max_retries=0)(hold)

    @cm.remote(num_cpus=0)
    def plain() -> None: ...

    def fails() -> None:
        raise ValueError

    crashes = fetch.remote(flag("a"), flag("never"))
    cancelled = fetch.remote(flag("b"), flag("never"))
    last = fetch.remote(flag("c"), flag("release"))
    flag("a").wait()
    os.kill(next(row["pid"] for row in cm.state.list_tasks() if row["task"] == crashes.creator), signal.SIGKILL)
    with pytest.raises(cm.exceptions.WorkerCrashedError):
        cm.get(crashes, timeout=60)
    flag("b").wait()
    assert state_of(last) == "queued"
    cm.cancel(cancelled)
    with pytest.raises(cm.exceptions.TaskCancelledError):
        cm.get(cancelled, timeout=60)
    flag("c").wait()
    flag("release").set()
    cm.get(last, timeout=60)
    with pytest.raises(cm.exceptions.TaskError):
        cm.get([cm.remote(max_in_flight=1)(fails).remote() for _ in range(3)][-1], timeout=60)


def test_what_is_run_again_takes_a_place_as_before(cm: ModuleType, counter: Counter, flag: Flags) -> None:
    @cm.remote(num_cpus=0, max_in_flight=1)
    def dies_once(counter: Counter, release: Flag) -> int:
        n = counter.add()
        if n == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        release.wait()
        return n

    first, second = (dies_once.remote(counter, flag(name)) for name in ("one", "two"))
    wait_until(lambda: counter.value == 2)
    assert state_of(second) == "queued" and state_of(first) == "running"  # the one that came first is run again first
    flag("one").set(), flag("two").set()
    assert cm.get([first, second], timeout=60) == [2, 3]


def test_variants_and_what_is_defined_anew_are_counted_together(cm: ModuleType, flag: Flags) -> None:
    def define() -> object:
        @cellmesh.remote(num_cpus=0, max_in_flight=1)
        def fetch(begun: Flag, release: Flag) -> None:
            begun.set()
            release.wait()

        return fetch

    first = define().remote(flag("a"), flag("release"))
    flag("a").wait()
    again, three = (
        define().remote(flag("b"), flag("release")),
        define().options(max_in_flight=3).remote(flag("c"), flag("release")),
    )
    flag("c").wait()  # it goes by its own number
    assert waits_for(again) == "2 of 1 of fetch run, its max_in_flight"
    flag("release").set()
    cm.get([first, again, three], timeout=60)


def test_two_lambdas_are_two_functions(cm: ModuleType, flag: Flags) -> None:
    one = cm.remote(num_cpus=0, max_in_flight=1)(lambda begun, release: hold(begun, release))
    two = cm.remote(num_cpus=0, max_in_flight=1)(lambda begun, release: hold(begun, release))
    refs = [one.remote(flag("a"), flag("release")), two.remote(flag("b"), flag("release"))]
    flag("a").wait(), flag("b").wait()
    flag("release").set()
    cm.get(refs, timeout=60)


def test_a_function_that_travels_keeps_its_limit(cm: ModuleType, flag: Flags) -> None:
    fetch = cm.remote(num_cpus=0, max_in_flight=1)(hold)

    @cm.remote
    def parent(function: object, *flags: Flag) -> list:
        return [function.remote(*flags)]

    first = fetch.remote(flag("a"), flag("release"))
    flag("a").wait()
    [second] = cm.get(parent.remote(fetch, flag("b"), flag("release")), timeout=60)
    assert waits_for(second) == "1 of 1 of hold run, its max_in_flight"
    flag("release").set()
    cm.get([first, second], timeout=60)


def test_recursion_runs_in_the_place_of_who_waits(cm: ModuleType) -> None:
    @cm.remote(max_in_flight=1)
    def factorial(n: int) -> int:
        return n * cellmesh.get(factorial.remote(n - 1)) if n else 1

    assert cm.get(factorial.remote(6), timeout=60) == 720


def test_who_waits_keeps_the_place(cm: ModuleType, flag: Flags) -> None:
    @cm.remote(num_cpus=0)
    def other(begun: Flag, release: Flag) -> None:
        begun.set()
        release.wait()

    @cm.remote(max_in_flight=1)
    def waits(refs: list) -> None:
        cellmesh.get(refs)

    inner = other.remote(flag("begun"), flag("release"))
    flag("begun").wait()
    first, second = waits.remote([inner]), waits.remote([inner])
    wait_until(lambda: row_of(first)["detail"] == "blocked")
    assert waits_for(second) == "1 of 1 of waits run, its max_in_flight"
    flag("release").set()
    cm.get([first, second], timeout=60)


def test_who_waits_for_its_next_attempt_has_no_place(cm: ModuleType, flag: Flags) -> None:
    @cm.remote(max_in_flight=1, max_retries=1, retry_exceptions=True, retry_delay=1000)
    def first_fails(which: str, failed: Flag) -> str:
        if which == "fails":
            failed.set()
            raise OSError(which)
        return which

    failing = first_fails.remote("fails", flag("failed"))
    flag("failed").wait()
    assert cm.get(first_fails.remote("other", flag("failed")), timeout=60) == "other"
    assert state_of(failing) == "retrying"
    cm.cancel(failing)


# ---------------------------------------------------------------- what a program waits for
@pytest.mark.parametrize("how", ["get", "wait", "await"])
def test_what_a_program_waits_for_overtakes_tasks_of_its_function_that_nobody_waits_for(
    one_cpu: ModuleType, counter: Counter, flag: Flags, how: str
) -> None:
    """As after a loop of submits that was stopped. Tasks in between do not matter: they are waited for, too."""
    holds = one_cpu.remote(hold).remote(flag("begun"), flag("release"))
    flag("begun").wait()
    place, passes_on = one_cpu.remote(counter.add), one_cpu.remote(lambda *places: places[0])
    for _ in range(20):
        place.remote()
    refs = [passes_on.remote(place.remote(), place.remote()) for _ in range(3)]
    wait_for_a_while(refs, how)
    for _ in range(20):
        passes_on.remote(0)
    flag("release").set()
    assert one_cpu.get(refs, timeout=60) == [1, 3, 5] and one_cpu.get(holds)


def wait_for_a_while(refs: list, how: str) -> None:
    """Long enough to be noticed, in vain."""

    async def wait() -> None:
        await asyncio.wait([asyncio.ensure_future(until_ready(ref)) for ref in refs], timeout=0.2)

    if how == "await":
        asyncio.run(wait())
    elif how == "wait":
        assert cellmesh.wait(refs, num_returns=len(refs), timeout=0.1)[1] == refs
    else:
        with pytest.raises(cellmesh.exceptions.GetTimeoutError):
            cellmesh.get(refs, timeout=0.1)


# ---------------------------------------------------------------- rate_limit
def test_starts_are_so_far_apart(cm: ModuleType) -> None:
    now = cm.remote(num_cpus=0, rate_limit="20/s")(time.monotonic)
    begin = time.monotonic()
    cm.get([now.remote() for _ in range(5)], timeout=60)
    assert time.monotonic() - begin >= 4 / 20  # the first of them at once


def test_the_next_one_waits_for_its_time_and_can_be_cancelled(cm: ModuleType, flag: Flags) -> None:
    slow = cm.remote(num_cpus=0, rate_limit="2/h")(flag("first").set)
    cm.get(slow.remote(), timeout=60)
    second = slow.remote()
    assert "set begins again in 1.8e+03 s, its rate_limit" in waits_for(second)
    assert cm.get(cm.remote(os.getpid).remote(), timeout=60)  # others go on
    cm.cancel(second)
    with pytest.raises(cm.exceptions.TaskCancelledError):
        cm.get(second, timeout=60)


def test_another_attempt_is_another_start(cm: ModuleType, counter: Counter) -> None:
    @cm.remote(rate_limit="1/h", max_retries=3, retry_exceptions=True)
    def fails(counter: Counter) -> None:
        counter.add()
        raise ValueError

    ref = fails.remote(counter)
    wait_until(lambda: "its rate_limit" in waits_for(ref))
    assert counter.value == 1
    cm.cancel(ref)


def test_nobody_waits_for_a_worker_when_the_time_has_come(cm: ModuleType) -> None:
    """All workers are busy when the second may begin: the scheduler starts another one for it."""
    gone = cm.remote(num_cpus=0, rate_limit=5)(os.getpid)

    @cm.remote(num_cpus=0)
    def waits(refs: list) -> list:
        return cellmesh.get(refs)

    refs = [gone.remote() for _ in range(3)]
    assert len(cm.get([waits.remote(refs) for _ in range(4)], timeout=60)[0]) == 3
