"""The conformance suite: generators. See `conformance`."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from support.flags import Flag
from support.waiting import wait_until

import cellmesh as cm
from cellmesh.exceptions import NodeDiedError, TaskCancelledError, WorkerCrashedError

PATIENCE_S = 60.0  # Ray begins workers as they are needed, which takes its time
capability = pytest.mark.capability


def get(what: Any) -> Any:
    return cm.get(what, timeout=PATIENCE_S)


def endless(ended: Flag) -> Iterator[np.ndarray]:
    """Goes on until nobody reads it."""
    try:
        while True:
            yield np.ones(20_000)
    finally:
        ended.set()


@capability("generators")
def test_a_generator(on_engine: ModuleType) -> None:
    @on_engine.remote(num_returns="streaming")
    def numbers() -> Iterator[int]:
        yield from range(3)

    @on_engine.remote(num_returns="streaming")
    async def slowly() -> AsyncIterator[int]:
        for n in range(3):
            yield n

    assert [[get(ref) for ref in each.remote()] for each in (numbers, slowly)] == [[0, 1, 2]] * 2


@capability("generators")
def test_items_are_there_while_it_runs(on_engine: ModuleType, tmp_path: Path) -> None:
    @on_engine.remote(num_returns="streaming")
    def waits(goes_on: list[Flag]) -> Iterator[int]:
        for n, flag in enumerate(goes_on):
            yield n
            flag.wait()

    flags = [Flag(tmp_path / str(n)) for n in range(3)]
    for n, ref in enumerate(waits.remote(flags)):
        assert get(ref) == n
        flags[n].set()


@capability("generators")
def test_a_flood_of_items(on_engine: ModuleType) -> None:
    @on_engine.remote(num_returns="streaming")
    def many(n: int) -> Iterator[int]:
        yield from range(n)

    assert get(list(many.remote(3000))) == list(range(3000))


@capability("generators")
def test_large_items_are_read_here_and_there(on_engine: ModuleType) -> None:
    @on_engine.remote(num_returns="streaming")
    def arrays(n: int) -> Iterator[np.ndarray]:
        for i in range(n):
            yield np.full(50_000, i)

    @on_engine.remote
    def total(values: np.ndarray) -> int:
        return int(values.sum())

    refs = list(arrays.remote(4))
    assert get([total.remote(ref) for ref in refs]) == [50_000 * n for n in range(4)]
    assert [int(get(ref).sum()) for ref in refs] == [50_000 * n for n in range(4)]


@capability("generators")
def test_items_refer_to_what_it_has_made_and_begun(on_engine: ModuleType) -> None:
    @on_engine.remote
    def square(n: int) -> int:
        return n * n

    @on_engine.remote(num_returns="streaming")
    def refs(mine: list[Any]) -> Iterator[list[Any]]:
        shared = on_engine.put(np.ones(50_000))
        for n in range(3):
            yield [square.remote(n), shared, *mine]

    mine = on_engine.put("mine")
    items = [get(ref) for ref in refs.remote([mine])]
    assert get([item[0] for item in items]) == [0, 1, 4]
    assert {item[2] for item in items} == {mine}
    assert len({item[1] for item in items}) == 1
    assert get(items[2][1]).sum() == 50_000


@capability("generators")
def test_an_error_comes_after_the_items_before_it(on_engine: ModuleType) -> None:
    @on_engine.remote(num_returns="streaming")
    def fail() -> Iterator[int]:
        yield 1
        raise KeyError("in the middle")

    items = fail.remote()
    assert get(next(items)) == 1
    with pytest.raises(KeyError, match="in the middle"):
        get(next(items))
    with pytest.raises(StopIteration):
        next(items)


@capability("generators")
def test_exceptions_are_retried_and_no_item_comes_twice(on_engine: ModuleType, tmp_path: Path) -> None:
    @on_engine.remote(num_returns="streaming", retry_exceptions=True, max_retries=1)
    def flaky(failed: Flag) -> Iterator[int]:
        yield from range(3)
        if not failed.is_set():
            failed.set()
            raise OSError("once")
        yield 3

    assert get(list(flaky.remote(Flag(tmp_path / "failed")))) == [0, 1, 2, 3]


@capability("generators")
def test_it_is_not_further_ahead_of_its_reader_than_it_may_be(on_engine: ModuleType, tmp_path: Path) -> None:
    @on_engine.remote(num_returns="streaming", generator_backpressure_num_objects=2)
    def makes(folder: Path) -> Iterator[np.ndarray]:
        for n in range(8):
            (folder / str(n)).touch()
            yield np.full(20_000, n)

    items, n_made = makes.remote(tmp_path), 0
    for n in range(8):
        ref = next(items)
        assert get(ref)[0] == n
        n_made = len(list(tmp_path.iterdir()))
        assert n_made <= n + 3, "two more than were taken"
    assert n_made == 8
    assert list(items) == []


@capability("generators")
def test_one_that_is_not_read_on_ends(on_engine: ModuleType, tmp_path: Path) -> None:
    generator = on_engine.remote(endless).options(num_returns="streaming", generator_backpressure_num_objects=1)
    ended = Flag(tmp_path / "ended")
    items = generator.remote(ended)
    assert len(get(next(items))) == 20_000
    del items
    ended.wait()


@capability("generators")
def test_one_that_is_cancelled_ends(on_engine: ModuleType, tmp_path: Path) -> None:
    generator = on_engine.remote(endless).options(num_returns="streaming", generator_backpressure_num_objects=1)
    ended = Flag(tmp_path / "ended")
    items = generator.remote(ended)
    assert len(get(next(items))) == 20_000
    on_engine.cancel(items)
    ended.wait()
    with pytest.raises(TaskCancelledError):
        get(list(items))


@capability("generators")
def test_what_it_has_printed_is_there_while_it_waits(
    on_engine: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    @on_engine.remote(num_returns="streaming")
    def says(goes_on: Flag) -> Iterator[int]:
        print("it has begun")
        yield 1
        goes_on.wait()

    goes_on, said = Flag(tmp_path / "goes_on"), ""
    items = says.remote(goes_on)
    assert get(next(items)) == 1

    def is_here() -> bool:
        nonlocal said
        said += capfd.readouterr().out
        return "it has begun" in said

    wait_until(is_here)
    goes_on.set()
    assert list(items) == []


def dies_once(died: Flag, goes_on: Flag) -> Iterator[int]:
    """Dies after two items, once it may."""
    for n in range(6):
        yield n
        if n == 1 and not died.is_set():
            goes_on.wait(PATIENCE_S)
            died.set()
            os.kill(os.getpid(), signal.SIGKILL)


@capability("generators")
@pytest.mark.parametrize("ahead", [None, 1])
def test_one_whose_process_dies_begins_again_and_no_item_comes_twice(
    on_engine: ModuleType, tmp_path: Path, ahead: int | None
) -> None:
    limit = {} if ahead is None else {"generator_backpressure_num_objects": ahead}
    generator = on_engine.remote(dies_once).options(num_returns="streaming", max_retries=1, **limit)
    died, goes_on = Flag(tmp_path / "died"), Flag(tmp_path / "goes_on")
    items = generator.remote(died, goes_on)
    assert [get(next(items)) for _ in range(2)] == [0, 1]
    goes_on.set()
    assert get(list(items)) == [2, 3, 4, 5]


@capability("generators")
def test_one_that_may_not_begin_again_is_lost_after_its_items(on_engine: ModuleType, tmp_path: Path) -> None:
    generator = on_engine.remote(dies_once).options(num_returns="streaming", max_retries=0)
    died, goes_on = Flag(tmp_path / "died"), Flag(tmp_path / "goes_on")
    items = generator.remote(died, goes_on)
    refs = [next(items), next(items)]
    assert get(refs) == [0, 1]
    goes_on.set()
    with pytest.raises((WorkerCrashedError, NodeDiedError)):
        get(next(items))
    assert get(refs) == [0, 1]


class Makes:
    """What the tests have an actor of."""

    def __init__(self) -> None:
        self.kept = cm.put(np.ones(50_000))
        self.n = 0

    def items(self, goes_on: list[Flag]) -> Iterator[list[Any]]:
        for flag in goes_on:
            self.n += 1
            yield [self.n, self.kept, cm.put(self.n)]
            flag.wait()

    def give(self) -> list[Any]:
        return [self.n, self.kept]

    def endless(self, ended: Flag) -> Iterator[np.ndarray]:
        yield from endless(ended)

    def fail(self) -> Iterator[int]:
        yield 1
        raise KeyError("in the middle")


@capability("actor_generators")
def test_a_method_yields_while_it_runs_and_the_actor_keeps_what_it_has(on_engine: ModuleType, tmp_path: Path) -> None:
    makes = on_engine.remote(Makes).remote()
    kept = get(makes.give.remote())[1]
    flags = [Flag(tmp_path / str(n)) for n in range(3)]
    calls = [makes.items.options(num_returns="streaming").remote(each) for each in (flags, flags[:1])]
    after = makes.give.remote()
    for n, ref in enumerate(calls[0]):
        number, same, inner = get(ref)
        assert (number, same, get(inner)) == (n + 1, kept, n + 1)
        flags[n].set()
    assert [get(ref)[:2] for ref in calls[1]] == [[4, kept]]
    assert get(after) == [4, kept]
    assert get(kept).sum() == 50_000


@capability("actor_generators")
def test_a_method_that_is_not_read_on_ends_and_the_actor_goes_on(on_engine: ModuleType, tmp_path: Path) -> None:
    makes = on_engine.remote(Makes).remote()
    ended = Flag(tmp_path / "ended")
    items = makes.endless.options(num_returns="streaming", generator_backpressure_num_objects=2).remote(ended)
    assert len(get(next(items))) == 20_000
    del items
    ended.wait()
    assert get(makes.give.remote())[0] == 0


@capability("actor_generators")
def test_an_error_of_a_method_comes_after_its_items(on_engine: ModuleType) -> None:
    items = on_engine.remote(Makes).remote().fail.options(num_returns="streaming").remote()
    assert get(next(items)) == 1
    with pytest.raises(KeyError, match="in the middle"):
        get(next(items))
