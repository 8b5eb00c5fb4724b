"""`f.map`: results of many calls as they come, never too many under way, and none left behind."""

from __future__ import annotations

import asyncio
import gc
import itertools
from collections.abc import Callable
from types import ModuleType

import pytest
from support.flags import Counter, Flag
from support.waiting import wait_until

import cellmesh

pytestmark = [pytest.mark.timeout(120), pytest.mark.session("shared")]


@cellmesh.remote
def add(x, y=0, *, z=0):
    return x + y + z


@cellmesh.remote
def broken_at(bad, x):
    if x == bad:
        raise KeyError(x)
    return x


@cellmesh.remote
def wait_for(flag, result):
    flag.wait()
    return result


@cellmesh.remote
class Adder:
    def __init__(self):
        self.total = 0

    def add(self, x):
        self.total += x
        return self.total

    def count(self, n):
        yield from range(n)


def test_results_come_in_the_order_of_inputs(cm: ModuleType) -> None:
    assert list(add.map(range(200))) == list(range(200))
    assert list(add.map([1, 2, 3], [10, 20])) == [11, 22]
    assert list(add.map([1, 2], kwargs={"z": 5})) == [6, 7]
    assert list(add.starmap([(1, 2), [3], (4, 5)])) == [3, 3, 9]
    assert list(add.map([])) == []
    assert list(add.options(num_cpus=2, name="plus").map([1])) == [1]


def test_an_endless_input_is_taken_as_results_are_read(cm: ModuleType) -> None:
    n_taken = 0

    def inputs():
        nonlocal n_taken
        for n_taken in itertools.count(1):  # noqa: UP028  (it is counted what was taken)
            yield n_taken

    results = add.map(inputs(), buffersize=10)
    assert n_taken == 10
    assert [next(results) for _ in range(25)] == list(range(1, 26))
    assert n_taken == 35
    results.close()
    assert list(results) == [] and n_taken == 35
    assert list(itertools.islice(add.map(itertools.count()), 300)) == list(range(300))


def test_unordered_results_come_as_they_are_ready(cm: ModuleType, flag: Callable[[str], Flag]) -> None:
    flag("open").set()
    results = wait_for.map([flag("shut"), flag("open"), flag("open")], [0, 1, 2], ordered=False)
    assert {next(results), next(results)} == {1, 2}
    flag("shut").set()
    assert list(results) == [0]


@pytest.mark.parametrize("options", [{}, {"chunksize": 4}, {"ordered": False}, {"chunksize": 3, "ordered": False}])
def test_every_input_has_its_result(cm: ModuleType, options: dict) -> None:
    assert sorted(add.map(range(50), range(50), kwargs={"z": 1}, buffersize=7, **options)) == [
        2 * i + 1 for i in range(50)
    ]
    assert sorted(add.map(map(add.remote, range(10)), **options)) == list(range(10))  # refs are dependencies
    assert sorted(add.starmap(((cm.put(i), i) for i in range(10)), **options)) == [2 * i for i in range(10)]


def test_an_error_is_raised_in_its_turn_and_ends_the_map(cm: ModuleType) -> None:
    results = broken_at.map(itertools.repeat(3), range(100), buffersize=8)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(KeyError) as caught:
        next(results)
    assert isinstance(caught.value, cm.exceptions.TaskError)
    assert list(results) == []


@pytest.mark.parametrize("chunksize", [1, 4])
def test_errors_are_returned_if_asked_for(cm: ModuleType, chunksize: int) -> None:
    results = list(broken_at.map(itertools.repeat(3), range(6), chunksize=chunksize, return_exceptions=True))
    error = results.pop(3)
    assert results == [0, 1, 2, 4, 5]
    assert isinstance(error, KeyError) and isinstance(error, cm.exceptions.TaskError) and error.task_name == "broken_at"
    assert "in broken_at" in error.remote_traceback and "cellmesh/submit/mapping.py" not in error.remote_traceback


def test_a_chunk_fails_as_a_whole(cm: ModuleType) -> None:
    results = broken_at.map(itertools.repeat(5), range(8), chunksize=4)
    assert [next(results) for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(KeyError):
        next(results)


def test_a_chunk_whose_worker_died_is_an_error_for_each_of_its_calls(cm: ModuleType) -> None:
    @cm.remote(max_retries=0)
    def dies(x):
        if x == 1:
            import os

            os._exit(3)
        return x

    results = list(dies.map(range(4), chunksize=2, return_exceptions=True))
    assert [type(result) for result in results[:2]] == [cm.exceptions.WorkerCrashedError] * 2
    assert results[2:] == [2, 3]


def test_an_error_of_the_inputs_is_raised_after_what_came_before(cm: ModuleType) -> None:
    def inputs():
        yield from (1, 2)
        raise LookupError("no more")

    results = add.map(inputs())
    assert [next(results), next(results)] == [1, 2]
    with pytest.raises(LookupError, match="no more"):
        next(results)
    assert list(results) == []
    with pytest.raises(TypeError, match=r"add.remote\(\): too many positional arguments"):
        list(add.starmap([(1,), (1, 2, 3)]))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: add.map([1], [2], [3]), TypeError, "too many positional"),
        (lambda: add.map(), TypeError, "at least one iterable"),
        (lambda: add.map(5), TypeError, "not iterable|must support iteration"),
        (lambda: add.starmap([3]), TypeError, "takes an iterable of tuples of arguments, and 3 is no tuple"),
        (lambda: add.map([1], kwargs={"w": 1}), TypeError, "unexpected keyword argument 'w'"),
        (lambda: add.map([1], chunksize=0), ValueError, r"map\(chunksize=0\): must be a whole number >= 1"),
        (lambda: add.starmap([(1,)], buffersize=2.5), ValueError, r"starmap\(buffersize=2.5\): must be a whole number"),
        (lambda: add.options(num_returns=2).map([1]), ValueError, "'add' gives num_returns=2: call add.remote"),
        (
            lambda: add.options(retry_exceptions=True).map([1], chunksize=2, return_exceptions=True),
            ValueError,
            "retry_exceptions",
        ),
        (lambda: Adder.remote().count.map([1]), ValueError, "'count' gives a stream"),
        (lambda: Adder.remote().add.map([1], chunksize=2), ValueError, "one by one"),
    ],
)
def test_what_cannot_be_mapped_says_so_at_once(
    cm: ModuleType, call: Callable[[], object], error: type, text: str
) -> None:
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize("leave", ["close", "drop", "with", "error", "timeout"])
def test_what_is_left_is_cancelled(cm: ModuleType, flag: Callable[[str], Flag], counter: Counter, leave: str) -> None:
    @cm.remote
    def work(number):
        if number == 0:
            flag("started").set()
        if number == 1 and leave == "error":
            flag("started").wait()
            raise KeyError(number)
        if number < 2:
            flag("never").wait(60)
        counter.add()

    def use():
        results = work.map(range(100), ordered=leave != "error", timeout=0.01 if leave == "timeout" else None)
        refs = list(results._pending)
        flag("started").wait()
        if leave == "close":
            results.close()
        elif leave == "with":
            with pytest.raises(LookupError), results:
                raise LookupError
        elif leave == "error":
            with pytest.raises(KeyError):
                next(results)
        elif leave == "timeout":
            with pytest.raises(cm.exceptions.GetTimeoutError):
                next(results)
        else:
            del results
        return refs

    gc.disable()
    try:
        refs = use()
        cm.wait(refs, num_returns=len(refs), timeout=30)
        states = {ref.client.info(ref)["state"] for ref in refs}
    finally:
        gc.enable()
    if leave == "error":  # some may have run before it was read
        assert refs[0].client.info(refs[0])["state"] == "cancelled" and states <= {"cancelled", "failed", "finished"}
    else:
        assert states == {"cancelled"} and counter.value == 0


def test_actors_methods_are_mapped_in_order(cm: ModuleType) -> None:
    adder = Adder.remote()
    assert list(adder.add.map([1, 2, 3], buffersize=2)) == [1, 3, 6]
    assert list(adder.add.options(name="more").starmap([(4,)])) == [10]


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("chunksize", [1, 3])
def test_results_are_read_by_async_for(cm: ModuleType, ordered: bool, chunksize: int) -> None:
    async def read():
        return [value async for value in add.map(range(20), buffersize=6, ordered=ordered, chunksize=chunksize)]

    values = asyncio.run(read())
    assert sorted(values) == list(range(20)) and (not ordered or values == list(range(20)))


def test_a_cancelled_reader_cancels_the_calls(cm: ModuleType, flag: Callable[[str], Flag]) -> None:
    refs = []

    async def read():
        results = wait_for.map([flag("never")] * 3, range(3))
        refs.extend(results._pending)
        await asyncio.wait_for(anext(results), 0.01)

    with pytest.raises(TimeoutError):
        asyncio.run(read())
    wait_until(lambda: {ref.client.info(ref)["state"] for ref in refs} == {"cancelled"})


def test_a_task_maps_on_the_only_cpu(one_cpu: ModuleType) -> None:
    @one_cpu.remote
    def total(n):
        return sum(add.map(range(n))) + sum(add.map(range(n), chunksize=3))

    assert one_cpu.get(total.remote(10)) == 90


def test_chunks_follow_a_function_that_is_defined_anew(cm: ModuleType) -> None:
    factor = 2

    @cm.remote
    def times(x):
        return factor * x

    assert list(times.map(range(4), chunksize=2)) == [0, 2, 4, 6]
    factor = 3
    assert list(times.map(range(4), chunksize=2)) == [0, 3, 6, 9]
    tasks = {row["name"] for row in cm.state.list_tasks()}
    assert tasks == {"times"}


def test_the_repr_says_how_far_it_is(cm: ModuleType) -> None:
    results = add.map(range(3))
    assert repr(results) == "<results of add: 3 calls under way or not read yet>"
    assert list(results) == [0, 1, 2]
    assert repr(results) == "<results of add: all read>"
