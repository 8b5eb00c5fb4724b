"""The conformance suite: tasks, and methods, that call and kill actors. See `conformance`."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from support.flags import Flag
from support.waiting import wait_until

import cellmesh as cm
from cellmesh.exceptions import ActorDiedError, TaskCancelledError

PATIENCE_S = 120.0  # Ray begins a process for each actor, which takes its time
calls = pytest.mark.capability("actor_calls")


class Log:
    """What it was given, in order."""

    def __init__(self) -> None:
        self.given: list[Any] = []

    def add(self, value: Any) -> int:
        self.given.append(value)
        return len(self.given)

    def all(self) -> list[Any]:
        return self.given

    def pair(self) -> tuple[int, str]:
        return len(self.given), "two"

    def large(self, n: int) -> np.ndarray:
        return np.full(n, 2.0)

    def refs(self) -> list[Any]:
        return [cm.put("inner"), cm.put(np.ones(100_000))]

    def wait(self, begun: Flag, goes_on: Flag) -> str:
        begun.set()
        goes_on.wait()
        return "waited"

    def fail(self) -> None:
        raise KeyError("no such thing")

    def die(self) -> None:
        os._exit(3)

    def say(self) -> None:
        print("it was called from there")


def get(what: Any) -> Any:
    return cm.get(what, timeout=PATIENCE_S)


@calls
def test_a_task_calls_an_actor_in_its_order(on_engine: ModuleType) -> None:
    @on_engine.remote
    def call(log: Any) -> list[int]:
        return on_engine.get([log.add.remote(i) for i in range(200)])

    log = on_engine.remote(Log).remote()
    assert get(call.remote(log)) == list(range(1, 201))
    assert get(log.all.remote()) == list(range(200))


@calls
def test_tasks_call_one_actor_and_one_task_several(on_engine: ModuleType) -> None:
    @on_engine.remote
    def call(logs: list[Any], i: int) -> int:
        return sum(on_engine.get([log.add.remote(i) for log in logs for _ in range(3)]))

    logs = [on_engine.remote(Log).remote() for _ in range(2)]
    get([call.remote(logs, i) for i in range(10)])
    for given in get([log.all.remote() for log in logs]):
        assert sorted(given) == sorted([*range(10)] * 3)


@calls
def test_what_nobody_waits_for_is_called_all_the_same(on_engine: ModuleType) -> None:
    @on_engine.remote
    def call(log: Any, n: int) -> None:
        for i in range(n):
            log.add.remote(i)

    log = on_engine.remote(Log).remote()
    get(call.remote(log, 300))
    assert get(log.all.remote()) == list(range(300))


@calls
def test_several_values_none_and_large_ones(on_engine: ModuleType) -> None:
    @on_engine.remote
    def call(log: Any) -> Any:
        log.add.options(num_returns=0).remote(np.ones(100_000))
        n, two = log.pair.options(num_returns=2).remote()
        large, inner = log.large.remote(200_000), on_engine.get(log.refs.remote())
        return (*on_engine.get([n, two]), on_engine.get(large).sum(), on_engine.get(inner[0]), on_engine.get(inner[1]))

    log = on_engine.remote(Log).remote()
    n, two, total, first, second = get(call.remote(log))
    assert (n, two, total, first) == (1, "two", 400_000.0, "inner")
    assert second.sum() == 100_000
    assert get(log.all.remote())[0].sum() == 100_000


@calls
def test_arguments_are_values_refs_and_what_other_calls_give(on_engine: ModuleType) -> None:
    @on_engine.remote
    def triple(n: int) -> int:
        return 3 * n

    @on_engine.remote
    def call(log: Any, mine: list[Any]) -> list[int]:
        kept = on_engine.put(np.full(100_000, 3.0))
        refs = [log.add.remote(mine[0]), log.add.remote([kept]), log.add.remote(triple.remote(7))]
        refs.append(log.add.remote(refs[0]))
        return on_engine.get([*refs, log.add.remote(triple.remote(refs[1]))])

    log, mine = on_engine.remote(Log).remote(), on_engine.put("mine")
    assert get(call.remote(log, [mine])) == [1, 2, 3, 4, 5]
    first, (kept,), nested, *others = get(log.all.remote())
    assert (first, nested, others) == ("mine", 21, [1, 6])
    assert get(kept).sum() == 300_000


@calls
def test_the_ref_of_a_call_goes_home_and_on_before_its_value_is_there(on_engine: ModuleType, tmp_path: Path) -> None:
    @on_engine.remote
    def call(log: Any, begun: Flag, goes_on: Flag) -> list[Any]:
        waits = log.wait.remote(begun, goes_on)
        return [waits, log.large.remote(100_000), log.add.remote([waits])]

    @on_engine.remote
    def length(values: np.ndarray, text: str) -> tuple[int, str]:
        return len(values), text

    log, (begun, goes_on) = on_engine.remote(Log).remote(), (Flag(tmp_path / name) for name in ("begun", "goes_on"))
    waits, large, added = get(call.remote(log, begun, goes_on))
    both = length.remote(large, waits)
    begun.wait(PATIENCE_S)
    goes_on.set()
    assert get(both) == (100_000, "waited")
    assert get(large).sum() == 200_000
    assert get([waits, added]) == ["waited", 1]
    ((ref,),) = get(log.all.remote())
    assert get(ref) == "waited"


@calls
def test_an_error_of_a_method_is_raised_in_the_task(on_engine: ModuleType) -> None:
    @on_engine.remote
    def call(log: Any) -> str:
        try:
            on_engine.get(log.fail.remote())
        except KeyError as error:
            return error.remote_traceback
        return ""

    assert "in fail" in get(call.remote(on_engine.remote(Log).remote()))


@calls
def test_an_actor_that_dies_is_told_to_who_has_called_it(on_engine: ModuleType) -> None:
    @on_engine.remote
    def call(log: Any) -> list[str]:
        found = []
        for ref in (log.die.remote(), log.add.remote(1)):
            try:
                on_engine.get(ref)
            except ActorDiedError as error:
                found.append(type(error).__name__)
        return found

    assert get(call.remote(on_engine.remote(Log).remote())) == ["ActorDiedError"] * 2


@calls
def test_a_task_kills_an_actor_after_its_calls(on_engine: ModuleType) -> None:
    @on_engine.remote
    def kill(log: Any) -> int:
        n = on_engine.get(log.add.remote(1))
        on_engine.kill(log)
        return n

    log = on_engine.remote(Log).remote()
    assert get(kill.remote(log)) == 1
    with pytest.raises(ActorDiedError, match="ended by kill"):
        get(log.add.remote(2))


@calls
def test_a_call_is_cancelled_by_the_task_that_has_made_it(on_engine: ModuleType, tmp_path: Path) -> None:
    @on_engine.remote
    def call(log: Any, begun: Flag, goes_on: Flag) -> str:
        waits, dropped = log.wait.remote(begun, goes_on), log.add.remote("dropped")
        begun.wait(PATIENCE_S)
        on_engine.cancel(dropped)
        try:
            on_engine.get(dropped, timeout=PATIENCE_S)
        except TaskCancelledError:
            goes_on.set()
        return on_engine.get(waits)

    log = on_engine.remote(Log).remote()
    assert get(call.remote(log, *(Flag(tmp_path / name) for name in ("begun", "goes_on")))) == "waited"
    assert get(log.all.remote()) == []


@calls
def test_a_method_calls_another_actor_and_keeps_what_that_gives(on_engine: ModuleType, tmp_path: Path) -> None:
    @on_engine.remote
    class Between:
        def begin(self, log: Any, begun: Flag, goes_on: Flag) -> int:
            self.log, self.waits = log, log.wait.remote(begun, goes_on)
            return on_engine.get(self.other(log))

        def other(self, log: Any) -> Any:
            return on_engine.remote(len_of).remote([1, 2])

        def end(self) -> tuple[str, int]:
            return on_engine.get(self.waits), on_engine.get(self.log.add.remote("later"))

        def give(self) -> list[Any]:
            return [self.waits, self.log]

    log, (begun, goes_on) = on_engine.remote(Log).remote(), (Flag(tmp_path / name) for name in ("begun", "goes_on"))
    between = Between.remote()
    assert get(between.begin.remote(log, begun, goes_on)) == 2
    begun.wait(PATIENCE_S)
    waits, same = get(between.give.remote())
    assert same == log
    goes_on.set()
    assert get(between.end.remote()) == ("waited", 1)
    assert get(waits) == "waited"


def len_of(values: list[int]) -> int:
    return len(values)


@calls
def test_methods_with_several_calls_at_a_time_call_another_actor(on_engine: ModuleType) -> None:
    @on_engine.remote
    class Async:
        def __init__(self, log: Any) -> None:
            self.log = log
            self.first = on_engine.get(log.add.remote("constructor"))

        async def add(self, i: int) -> int:
            return await self.log.add.remote(i)

    log = on_engine.remote(Log).remote()
    between = Async.remote(log)
    assert sorted(get([between.add.remote(i) for i in range(20)])) == list(range(2, 22))
    assert set(get(log.all.remote())) == {"constructor", *range(20)}


@calls
def test_a_task_that_waits_prints_and_so_does_what_it_calls(
    on_engine: ModuleType, capfd: pytest.CaptureFixture[str]
) -> None:
    @on_engine.remote
    def call(log: Any) -> None:
        print("it calls")
        on_engine.get(log.say.remote())

    get(call.remote(on_engine.remote(Log).remote()))
    said = ""

    def is_here() -> bool:
        nonlocal said
        said += capfd.readouterr().out
        return "it calls" in said and "it was called from there" in said

    wait_until(is_here)


@calls
def test_a_task_waits_as_long_as_it_says(on_engine: ModuleType, tmp_path: Path) -> None:
    @on_engine.remote
    def call(log: Any, begun: Flag, goes_on: Flag) -> float:
        waits, began = log.wait.remote(begun, goes_on), time.monotonic()
        try:
            on_engine.get(waits, timeout=1.0)
        except TimeoutError:
            took = time.monotonic() - began
            goes_on.set()
            on_engine.get(waits)
            return took
        return 0.0

    log = on_engine.remote(Log).remote()
    assert 1.0 <= get(call.remote(log, *(Flag(tmp_path / name) for name in ("begun", "goes_on")))) < 10.0


@calls
def test_tasks_that_wait_for_an_actor_leave_their_cpus_to_it(on_engine: ModuleType, tmp_path: Path) -> None:
    goes_on, waits = Flag(tmp_path / "goes_on"), Flag(tmp_path / "waits")

    @on_engine.remote
    def later() -> str:
        goes_on.wait()
        return "there"

    @on_engine.remote
    class Late(Log):
        def __init__(self, where: str) -> None:
            super().__init__()
            self.add(where)

    @on_engine.remote
    def call(late: Any) -> int:
        ref = late.add.remote(1)
        waits.set()
        return on_engine.get(ref)

    late = Late.remote(later.remote())  # which begins when all CPUs are taken by those who wait for it
    calls = [call.remote(late) for _ in range(8)]
    goes_on.set()
    waits.wait()
    assert sorted(get(calls)) == list(range(2, 10))
