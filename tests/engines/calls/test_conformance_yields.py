"""The conformance suite: tasks, and methods, that read what methods of others yield, and actors that call themselves.
See `conformance`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from engines.calls.test_conformance_calls import Log, get
from support.flags import Flag

import cellmesh as cm
from cellmesh.exceptions import ActorDiedError, EngineUnsupportedError

calls = pytest.mark.capability("actor_calls")


class Makes:
    """Whose methods yield."""

    def numbers(self, n: int) -> Iterator[int]:
        yield from range(n)

    def mixed(self) -> Iterator[Any]:
        yield "small"
        yield np.full(50_000, 2.0)
        yield [cm.put("inner"), cm.put(np.ones(50_000))]

    def counted(self, folder: Path, n: int) -> Iterator[int]:
        for i in range(n):
            (folder / str(i)).touch()
            yield i

    def waits(self, goes_on: list[Flag]) -> Iterator[int]:
        for n, flag in enumerate(goes_on):
            yield n
            flag.wait()

    def endless(self, ended: Flag) -> Iterator[np.ndarray]:
        try:
            while True:
                yield np.ones(20_000)
        finally:
            ended.set()

    def fail(self) -> Iterator[int]:
        yield 1
        raise KeyError("in the middle")

    def give(self) -> str:
        return "it goes on"


@calls
def test_a_task_reads_what_a_method_yields(on_engine: ModuleType) -> None:
    @on_engine.remote
    def read(makes: Any, n: int) -> list[int]:
        return [on_engine.get(ref) for ref in makes.numbers.remote(n)]

    makes = on_engine.remote(Makes).remote()
    assert get([read.remote(makes, n) for n in (0, 3, 400)]) == [[*range(n)] for n in (0, 3, 400)]


@calls
def test_items_are_there_while_the_method_runs(on_engine: ModuleType, tmp_path: Path) -> None:
    @on_engine.remote
    def read(makes: Any, flags: list[Flag]) -> list[int]:
        found = []
        for ref in makes.waits.remote(flags):
            found.append(on_engine.get(ref))
            flags[found[-1]].set()  # and the method goes on
        return found

    flags = [Flag(tmp_path / str(n)) for n in range(3)]
    assert get(read.remote(on_engine.remote(Makes).remote(), flags)) == [0, 1, 2]


@calls
def test_items_are_large_refer_to_others_and_are_given_on(on_engine: ModuleType) -> None:
    @on_engine.remote
    def read(makes: Any) -> list[Any]:
        small, large, refs = list(makes.mixed.remote())
        first, second = on_engine.get(refs)
        assert (on_engine.get(first), on_engine.get(second).sum()) == ("inner", 50_000)
        return [small, large, first, second, on_engine.get(large).sum()]

    small, large, first, second, total = get(read.remote(on_engine.remote(Makes).remote()))
    assert get([small, first]) == ["small", "inner"]
    assert (get(large).sum(), get(second).sum(), total) == (100_000, 50_000, 100_000)


@calls
def test_the_method_is_not_further_ahead_of_the_task_than_it_may_be(on_engine: ModuleType, tmp_path: Path) -> None:
    @on_engine.remote
    def read(makes: Any, folder: Path) -> list[int]:
        ahead = []
        method = makes.counted.options(generator_backpressure_num_objects=2)
        for n, ref in enumerate(method.remote(folder, 6)):
            assert on_engine.get(ref) == n
            ahead.append(len(list(folder.iterdir())) - n)
        return ahead

    ahead = get(read.remote(on_engine.remote(Makes).remote(), tmp_path))
    assert len(ahead) == 6
    assert max(ahead) <= 3, "two more than were taken"


@calls
def test_a_method_whose_items_a_task_reads_no_more_ends(on_engine: ModuleType, tmp_path: Path) -> None:
    @on_engine.remote
    def read(makes: Any, dropped: Flag, left: Flag) -> str:
        method = makes.endless.options(generator_backpressure_num_objects=1)
        items = method.remote(dropped)
        assert len(on_engine.get(next(items))) == 20_000
        del items
        dropped.wait()  # while the task runs
        others = method.remote(left)
        return f"{len(on_engine.get(next(others)))} and it has ended"

    makes = on_engine.remote(Makes).remote()
    dropped, left = Flag(tmp_path / "dropped"), Flag(tmp_path / "left")
    assert get(read.remote(makes, dropped, left)) == "20000 and it has ended"
    left.wait()
    assert get(makes.give.remote()) == "it goes on"


@calls
def test_an_error_comes_in_the_task_after_the_items_before_it(on_engine: ModuleType) -> None:
    @on_engine.remote
    def read(makes: Any) -> tuple[int, str]:
        items = makes.fail.remote()
        first = on_engine.get(next(items))
        try:
            on_engine.get(next(items))
        except KeyError as error:
            return first, error.remote_traceback
        return first, ""

    first, text = get(read.remote(on_engine.remote(Makes).remote()))
    assert first == 1
    assert "in fail" in text


@calls
def test_a_method_reads_what_another_actors_yields_over_several_calls(on_engine: ModuleType) -> None:
    @on_engine.remote
    class Reads:
        def begin(self, makes: Any) -> int:
            self.items = makes.numbers.options(generator_backpressure_num_objects=1).remote(3)
            return on_engine.get(next(self.items))

        def go_on(self) -> int:
            return on_engine.get(next(self.items))

        def end(self) -> list[Any]:
            return list(self.items)

    reads, makes = Reads.remote(), on_engine.remote(Makes).remote()
    assert get(reads.begin.remote(makes)) == 0
    assert get([reads.go_on.remote(), reads.go_on.remote()]) == [1, 2]
    assert get(reads.end.remote()) == []


@calls
def test_an_async_method_reads_what_another_actors_yields(on_engine: ModuleType) -> None:
    @on_engine.remote
    class Async:
        async def total(self, makes: Any, n: int) -> int:
            return sum([await ref async for ref in makes.numbers.remote(n)])

        async def twice(self, makes: Any, n: int) -> AsyncIterator[int]:
            async for ref in makes.numbers.remote(n):
                yield 2 * await ref

    between, makes = Async.remote(), on_engine.remote(Makes).remote()
    assert get([between.total.remote(makes, n) for n in (3, 30)]) == [3, 435]
    assert get(list(between.twice.remote(makes, 3))) == [0, 2, 4]


# ---------------------------------------------------------------- by its own handle
class Counts:
    """Which calls itself."""

    def __init__(self) -> None:
        self.n = 0

    def add(self, by: int = 1) -> int:
        self.n += by
        return self.n

    def me(self) -> Any:
        return cm.get_runtime_context().current_actor

    def later(self, n: int) -> list[Any]:
        refs = [self.me().add.remote(10) for _ in range(n)]
        self.add()
        return refs

    def give(self, log: Any) -> int:
        return cm.get(log.add.remote([self.me()]))

    def end(self) -> None:
        cm.kill(self.me())
        Flag(Path("/nonexistent/never")).wait()  # it does not come to that


@calls
def test_an_actor_calls_itself_behind_what_it_does(on_engine: ModuleType) -> None:
    counts = on_engine.remote(Counts).remote()
    assert get(get(counts.later.remote(3))) == [11, 21, 31]
    assert get(counts.add.remote()) == 32
    assert get(get(counts.later.remote(1))) == [43]


@calls
def test_an_async_actor_awaits_itself(on_engine: ModuleType) -> None:
    @on_engine.remote
    class Async:
        async def one(self, n: int) -> int:
            return n + 1

        async def two(self, n: int) -> int:
            me = on_engine.get_runtime_context().current_actor
            return await me.one.remote(await me.one.remote(n))

        async def items(self, n: int) -> AsyncIterator[int]:
            for i in range(n):
                yield i

        async def total(self, n: int) -> int:
            me = on_engine.get_runtime_context().current_actor
            return sum([await ref async for ref in me.items.remote(n)])

    actor = Async.remote()
    assert get([actor.two.remote(n) for n in range(5)]) == [2, 3, 4, 5, 6]
    assert get(actor.total.remote(10)) == 45


@calls
def test_what_an_actor_gives_of_itself_is_called_by_others_there(on_engine: ModuleType) -> None:
    @on_engine.remote
    def add(counts: Any) -> int:
        return on_engine.get(counts.add.remote(5))

    @on_engine.remote
    class Between:
        def __init__(self) -> None:
            self.given: list[Any] = []

        def add(self, given: list[Any]) -> int:
            self.given += given
            return len(self.given)

        def call(self) -> int:
            return on_engine.get(self.given[0].add.remote(7))

    counts, between = on_engine.remote(Counts).remote(), Between.remote()
    assert get(add.remote(counts.me.remote())) == 5  # which never comes home
    assert get(counts.give.remote(between)) == 1
    assert get(between.call.remote()) == 12
    assert get(counts.me.remote()) == counts


@calls
def test_an_actor_kills_itself(on_engine: ModuleType) -> None:
    counts = on_engine.remote(Counts).remote()
    with pytest.raises(ActorDiedError):
        get(counts.end.remote())
    with pytest.raises(ActorDiedError, match="ended by kill"):
        get(counts.add.remote())


def test_a_constructor_cannot_call_its_actor(on_engine: ModuleType) -> None:
    @on_engine.remote
    class Early(Log):
        def __init__(self) -> None:
            super().__init__()
            on_engine.get_runtime_context().current_actor.add.remote(1)

    with pytest.raises((ActorDiedError, EngineUnsupportedError), match="call the method itself"):
        get(Early.remote().add.remote(2))
