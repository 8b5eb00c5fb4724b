"""Generators: refs while the task runs, errors, closing, cancelling, back-pressure, crashes; in tasks and actors."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

import numpy as np
import pytest
from support.flags import Counter, Flag
from support.waiting import wait_until

import cellmesh

pytestmark = [pytest.mark.timeout(60), pytest.mark.session("shared")]


@cellmesh.remote
def numbers(n: int):
    yield from range(n)


@cellmesh.remote
def one_by_one(n: int, go: list[Flag]):
    for i in range(n):
        yield i
        go[i].wait()


@cellmesh.remote
class Streams:
    def numbers(self, n: int):
        yield from range(n)

    @cellmesh.method(generator_backpressure_num_objects=2)
    def counted(self, n: int, counter: Counter):
        for i in range(n):
            counter.add()
            yield i


@cellmesh.remote
class AsyncStreams:
    async def numbers(self, n: int):
        for i in range(n):
            yield i
            await asyncio.sleep(0)

    def plain(self, n: int):
        yield from range(n)

    @cellmesh.method(generator_backpressure_num_objects=2)
    async def counted(self, n: int, counter: Counter):
        for i in range(n):
            counter.add()
            yield i


def unfinished() -> list[dict]:
    return cellmesh.get_runtime_context()._session.client.tasks()


def sound() -> bool:
    client = cellmesh.get_runtime_context()._session.client
    return client.check() == []


# ---------------------------------------------------------------- reading
def test_items_come_while_the_task_still_runs(cm: ModuleType, flag) -> None:
    go = [flag(f"go{i}") for i in range(3)]
    seen = []
    for ref in one_by_one.remote(3, go):
        seen.append(cm.get(ref))
        go[seen[-1]].set()
    assert seen == [0, 1, 2]


@pytest.mark.parametrize("n", [0, 1, 1000])
@pytest.mark.parametrize(
    "make",
    [
        lambda: numbers,
        lambda: Streams.remote().numbers,
        lambda: AsyncStreams.remote().numbers,
        lambda: AsyncStreams.remote().plain,
    ],
    ids=["task", "actor", "async actor", "plain in async"],
)
def test_all_items_in_order(cm: ModuleType, make, n: int) -> None:
    stream = make().remote(n)
    assert cm.get(list(stream)) == list(range(n))
    with pytest.raises(StopIteration):
        next(stream)
    assert cm.get(stream.completed()) == n


def test_a_generator_shows_its_name_and_state(cm: ModuleType, flag) -> None:
    items = one_by_one.remote(1, [flag("go")])
    assert repr(items) == "<ObjectRefGenerator of one_by_one: running>"
    flag("go").set()
    cm.get(items.completed())
    assert repr(items) == "<ObjectRefGenerator of one_by_one: ended>"
    list(items)
    assert repr(items) == "<ObjectRefGenerator of one_by_one: closed>"
    cm.shutdown()
    assert repr(items) == "<ObjectRefGenerator: its session has ended>"


def test_an_async_generator_as_a_task_and_async_for(cm: ModuleType) -> None:
    @cm.remote
    async def count(n):
        for i in range(n):
            await asyncio.sleep(0)
            yield i

    async def read() -> list[int]:
        return [await ref async for ref in count.remote(5)]

    assert asyncio.run(read()) == [0, 1, 2, 3, 4]


def test_async_for_over_many_streams_at_once(cm: ModuleType) -> None:
    actor = AsyncStreams.remote()

    async def read(stream) -> list[int]:
        return [await ref async for ref in stream]

    async def read_all() -> list[list[int]]:
        return await asyncio.gather(*(read(actor.numbers.remote(20)) for _ in range(30)))

    assert asyncio.run(read_all()) == [list(range(20))] * 30


def test_large_items_are_views_and_free_when_dropped(cm: ModuleType) -> None:
    @cm.remote
    def arrays(n):
        for i in range(n):
            yield np.full(1 << 18, i)  # 2 MiB

    client = cm.get_runtime_context()._session.client
    before = client.stats()["used_bytes"]
    for i, ref in enumerate(
        arrays.options(generator_backpressure_num_objects=2).remote(300)
    ):  # more than the store holds
        array = cm.get(ref)
        assert array[0] == i and array.flags.writeable
        del array, ref
    wait_until(lambda: client.stats()["used_bytes"] <= before + 4096)


def test_wait_takes_generators(cm: ModuleType, flag) -> None:
    go = [flag("a"), flag("b")]
    slow, quick = one_by_one.remote(2, go), numbers.remote(1)
    assert cm.get(next(slow)) == 0
    ready, rest = cm.wait([slow, quick], num_returns=1)
    assert ready == [quick] and rest == [slow]
    assert cm.wait([slow], timeout=0)[0] == []
    with pytest.raises(cm.exceptions.GetTimeoutError):
        slow.next(timeout=0)
    go[0].set()
    assert cm.wait([slow])[0] == [slow] and cm.get(slow.next(timeout=30)) == 1
    go[1].set()
    assert cm.wait([slow])[0] == [slow] and list(slow) == []
    with pytest.raises(ValueError, match="more than once"):
        cm.wait([quick, quick])


def test_a_generator_passed_on_shares_what_is_left(cm: ModuleType) -> None:
    @cm.remote
    def drain(stream):
        return [cellmesh.get(ref) for ref in stream]

    stream = numbers.remote(10)
    assert cm.get(next(stream)) == 0
    assert cm.get(drain.remote(stream)) == list(range(1, 10)) and list(stream) == []


def test_a_generator_within_a_generator_on_one_cpu(one_cpu: ModuleType) -> None:
    @one_cpu.remote(generator_backpressure_num_objects=1)
    def doubled(n):
        for ref in numbers.options(generator_backpressure_num_objects=1).remote(n):
            yield 2 * cellmesh.get(ref)

    assert one_cpu.get(list(doubled.remote(20))) == [2 * i for i in range(20)]


def test_items_are_dependencies_like_any_ref(cm: ModuleType) -> None:
    square = cm.remote(lambda x: x * x)
    assert cm.get([square.remote(ref) for ref in numbers.remote(5)]) == [0, 1, 4, 9, 16]


# ---------------------------------------------------------------- other ways to return
def test_dynamic_gives_one_ref_to_a_list_of_refs(cm: ModuleType) -> None:
    ref = numbers.options(num_returns="dynamic").remote(4)
    assert [cm.get(item) for item in cm.get(ref)] == [0, 1, 2, 3]
    actor = AsyncStreams.remote()
    assert [cm.get(item) for item in cm.get(actor.numbers.options(num_returns="dynamic").remote(3))] == [0, 1, 2]


def test_a_generator_can_fill_a_fixed_number_of_returns(cm: ModuleType) -> None:
    assert cm.get(numbers.options(num_returns=3).remote(3)) == [0, 1, 2]
    assert cm.get(AsyncStreams.remote().numbers.options(num_returns=3).remote(3)) == [0, 1, 2]


# ---------------------------------------------------------------- of a fixed number, or "dynamic": what was yielded
# before stays
def fails_at(fails: int, lasts: int):
    for n in range(lasts):
        if n == fails:
            raise ValueError(f"at {n}")
        yield n


async def fails_at_async(fails: int, lasts: int):
    for item in fails_at(fails, lasts):
        await asyncio.sleep(0)
        yield item


@cellmesh.remote
class FailsAt:
    def run(self, *args: int):
        return fails_at(*args)


@cellmesh.remote
class FailsAtAsync:
    async def run(self, *args: int):
        async for item in fails_at_async(*args):
            yield item


@pytest.fixture(params=["task", "async task", "actor", "async actor"])
def failing(cm: ModuleType, request: pytest.FixtureRequest):
    """failing(n_returns, fails, lasts) calls a generator that raises at that item, or ends after so many."""
    made = {
        "task": lambda: cm.remote(fails_at),
        "async task": lambda: cm.remote(fails_at_async),
        "actor": lambda: FailsAt.remote().run,
        "async actor": lambda: FailsAtAsync.remote().run,
    }[request.param]
    return lambda n_returns, *args: made().options(num_returns=n_returns).remote(*args)


def values_and_error(refs: list, match: str) -> list[int]:
    """The values that come before the refs that raise."""
    values = []
    for i, ref in enumerate(refs):
        if isinstance(cellmesh.get(refs[i:], return_exceptions=True, timeout=30)[0], Exception):
            for bad in refs[i:]:
                with pytest.raises(ValueError, match=match):
                    cellmesh.get(bad)
            break
        values.append(cellmesh.get(ref))
    return values


@pytest.mark.parametrize("fails", [0, 1, 2])
def test_what_was_yielded_before_an_error_stays(failing, fails: int) -> None:
    assert values_and_error(failing(3, fails, 3), f"at {fails}") == list(range(fails))
    assert values_and_error(cellmesh.get(failing("dynamic", fails, 3), timeout=30), f"at {fails}") == list(range(fails))


@pytest.mark.parametrize("n", [0, 2])
def test_too_few(failing, n: int) -> None:
    assert values_and_error(failing(3, -1, n), f"num_returns=3 but its generator yielded {n}") == list(range(n))


def test_too_many(failing, capfd: pytest.CaptureFixture) -> None:
    seen: list[str] = []

    def told() -> bool:
        seen.extend(capfd.readouterr())
        return (
            "yields more than the num_returns=3 values that it was declared with: the others are left out"
            in "".join(seen)
        )

    assert cellmesh.get(failing(3, -1, 10**9), timeout=30) == [0, 1, 2]
    wait_until(told)


def test_what_comes_after_the_last_return_is_not_silent(failing, capfd: pytest.CaptureFixture) -> None:
    seen: list[str] = []

    def told() -> bool:
        seen.extend(capfd.readouterr())
        return "ValueError: at 3" in "".join(seen)

    assert cellmesh.get(failing(3, 3, 5), timeout=30) == [0, 1, 2]
    wait_until(told)


def test_an_item_that_cannot_be_pickled_is_one_ref(cm: ModuleType) -> None:
    @cm.remote(num_returns=3, max_retries=0)
    def items():
        yield 1
        yield threading.Lock()
        raise ValueError("at 2")

    first, second, third = items.remote()
    assert cm.get(first, timeout=30) == 1
    with pytest.raises(TypeError, match="pickle"):
        cm.get(second)
    with pytest.raises(ValueError, match="at 2"):
        cm.get(third)


def test_an_attempt_that_is_repeated_leaves_nothing(cm: ModuleType, counter: Counter) -> None:
    @cm.remote(max_retries=1, retry_exceptions=True)
    def items():
        attempt = counter.add()
        yield attempt
        if attempt == 1:
            raise ValueError("the first time")
        yield attempt

    assert cm.get(items.options(num_returns=2).remote(), timeout=30) == [2, 2]
    counter.path.unlink()
    assert cm.get(cm.get(items.options(num_returns="dynamic").remote(), timeout=30)) == [2, 2]


def test_what_streams_must_be_an_iterator(cm: ModuleType) -> None:
    assert cm.get(list(cm.remote(num_returns="streaming")(lambda: iter("ab")).remote())) == ["a", "b"]
    (ref,) = cm.remote(num_returns="streaming")(lambda: [1]).remote()
    with pytest.raises(TypeError, match=r"streaming.*must return a generator"):
        cm.get(ref)
    with pytest.raises(ValueError, match=r"generator_backpressure_num_objects=3 of '?numbers.*generator"):
        numbers.options(num_returns=1, generator_backpressure_num_objects=3).remote(1)


# ---------------------------------------------------------------- errors
@cellmesh.remote
def fails_after(n: int):
    yield from range(n)
    raise ValueError(f"after {n}")


@pytest.mark.parametrize("n", [0, 3])
def test_an_error_is_the_last_ref(cm: ModuleType, n: int) -> None:
    *items, last = fails_after.remote(n)
    assert cm.get(items) == list(range(n))
    with pytest.raises(ValueError, match=f"after {n}"):
        cm.get(last)


def test_a_failed_argument_is_the_only_ref(cm: ModuleType) -> None:
    (last,) = numbers.remote(cm.remote(lambda: 1 // 0).remote())
    with pytest.raises(ZeroDivisionError):
        cm.get(last)


def test_a_dead_actor_ends_its_streams(cm: ModuleType, flag) -> None:
    actor = Streams.remote()
    cm.get(next(actor.numbers.remote(1)))
    cm.kill(actor)
    (last,) = actor.numbers.remote(3)
    with pytest.raises(cm.exceptions.ActorDiedError):
        cm.get(last)


# ---------------------------------------------------------------- ending early
@cellmesh.remote
def endless(counter: Counter, closed: Flag):
    try:
        while True:
            counter.add()
            yield counter.value
    finally:
        closed.set()


@pytest.mark.parametrize("end", [lambda stream: stream.close(), lambda stream: None], ids=["closed", "dropped"])
@pytest.mark.parametrize("ahead", [None, 2])
def test_a_stream_nobody_reads_ends_its_task(cm: ModuleType, flag, counter: Counter, end, ahead: int | None) -> None:
    stream = endless.options(generator_backpressure_num_objects=ahead).remote(counter, flag("closed"))
    kept = next(stream)
    end(stream)
    del stream
    flag("closed").wait()
    wait_until(lambda: not unfinished())
    assert cm.get(kept) >= 1 and sound()
    client = cm.get_runtime_context()._session.client
    del kept
    wait_until(lambda: not [o for o in client.objects() if o["creator"] < 1 << 63])  # of the items nothing is left


def test_cancel_interrupts_and_is_the_last_ref(cm: ModuleType, flag) -> None:
    stream = one_by_one.remote(2, [flag("never"), flag("never")])
    assert cm.get(next(stream)) == 0
    cm.cancel(stream)
    (last,) = stream
    with pytest.raises(cm.exceptions.TaskCancelledError):
        cm.get(last)


@pytest.mark.parametrize("make", [Streams, AsyncStreams], ids=["actor", "async actor"])
def test_back_pressure_keeps_the_task_two_ahead(cm: ModuleType, counter: Counter, make) -> None:
    actor = make.remote()
    stream = actor.counted.remote(10, counter)
    wait_until(lambda: counter.value >= 2)
    assert cm.get(next(stream)) == 0
    wait_until(lambda: counter.value >= 3)
    assert counter.value == 3
    assert cm.get(list(stream)) == list(range(1, 10)) and counter.value == 10


def test_cancelling_an_async_stream_that_waits_for_room(cm: ModuleType, counter: Counter) -> None:
    actor = AsyncStreams.remote()
    stream = actor.counted.remote(10, counter)
    wait_until(lambda: counter.value == 2)
    cm.cancel(stream)
    cm.wait([stream.completed()])
    *items, last = stream
    assert cm.get(items) == [0, 1]
    with pytest.raises(cm.exceptions.TaskCancelledError):
        cm.get(last)
    assert cm.get(list(actor.numbers.remote(3))) == [0, 1, 2]


# ---------------------------------------------------------------- crashes and retries
@cellmesh.remote(max_retries=-1)
def dies_often(n: int, counter: Counter):
    for i in range(n):
        if i % 10 == 9 and counter.add() <= 4:
            os.kill(os.getpid(), signal.SIGKILL)
        yield np.full(1000, i) if i % 2 else i


def test_items_are_neither_lost_nor_repeated_when_workers_die(cm: ModuleType, counter: Counter) -> None:
    values = [int(np.max(cm.get(ref))) for ref in dies_often.remote(50, counter)]
    assert values == list(range(50)) and counter.value > 4 and sound()


def test_without_retries_a_crash_is_the_last_ref(cm: ModuleType, counter: Counter) -> None:
    *items, last = dies_often.options(max_retries=0).remote(50, counter)
    assert [int(np.max(value)) for value in cm.get(items)] == list(range(9))
    with pytest.raises(cm.exceptions.WorkerCrashedError):
        cm.get(last)


def test_retried_exceptions_go_on_where_it_stopped(cm: ModuleType, counter: Counter) -> None:
    @cm.remote(retry_exceptions=True)
    def shaky():
        for i in range(6):
            if i == 3 and counter.add() <= 2:
                raise OSError("shaky")
            yield i

    assert cm.get(list(shaky.remote())) == list(range(6)) and counter.value == 3


def test_a_restarted_actor_goes_on_with_its_stream(cm: ModuleType, counter: Counter) -> None:
    @cm.remote(max_restarts=-1, max_task_retries=-1)
    class Fragile:
        def numbers(self, n):
            for i in range(n):
                if i == 5 and counter.add() <= 2:
                    os.kill(os.getpid(), signal.SIGKILL)
                yield i

    actor = Fragile.remote()
    assert cm.get(list(actor.numbers.remote(10))) == list(range(10))


# ---------------------------------------------------------------- waiting
def test_who_reads_a_generator_that_cannot_begin_is_told_why(cm: ModuleType, capfd: pytest.CaptureFixture) -> None:
    class Holder:
        pass

    holder = cm.remote(num_cpus=2)(Holder).remote()
    assert cm.get(holder.__ready__.remote())
    stream = numbers.remote(3)
    client, item = stream.completed().client, stream.peek()  # what wait() and `async for` wait for
    assert client.info(item)["name"] == "numbers" and client.why(item)["stuck"] is True
    with pytest.raises(cm.exceptions.GetTimeoutError):
        stream.next(timeout=0.01)
    with ThreadPoolExecutor(1) as readers:
        read = readers.submit(lambda: [cm.get(ref) for ref in stream])
        seen: list[str] = []
        wait_until(lambda: seen.append(capfd.readouterr().err) or "waits for" in "".join(seen))
        assert "'numbers' waits for CPU: 1, and will until an actor ends" in "".join(seen)
        cm.kill(holder)
        assert read.result(30) == [0, 1, 2]
    assert client.why(item) is None


async def awaits_one(stream):
    return await stream.completed()


async def reads_all(stream):
    return [await ref async for ref in stream]


@pytest.mark.parametrize("wait", [awaits_one, reads_all], ids=["await", "async for"])
def test_who_awaits_what_cannot_begin_is_told_why(cm: ModuleType, capfd: pytest.CaptureFixture, wait: Callable) -> None:
    @cm.remote(num_cpus=2)
    class Holder:
        pass

    holder = Holder.remote()
    assert cm.get(holder.__ready__.remote())

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(wait(numbers.remote(3)), 3)

    asyncio.run(main())
    seen: list[str] = []
    wait_until(lambda: seen.append(capfd.readouterr().err) or "waits for" in "".join(seen))
    assert "'numbers' waits for CPU: 1, and will until an actor ends" in "".join(seen)
