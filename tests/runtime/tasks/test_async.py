"""Refs in asyncio and concurrent.futures."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
import warnings
from types import ModuleType

import numpy as np
import pytest
from support.waiting import wait_until

import cellmesh

pytestmark = [pytest.mark.timeout(60), pytest.mark.session("shared")]


@cellmesh.remote
def double(x):
    return 2 * x


@cellmesh.remote
def fail():
    raise KeyError("k")


@cellmesh.remote
def wait_for(go, value):
    go.wait()
    return value


def test_await(cm: ModuleType) -> None:
    async def main():
        return await double.remote(1), await cm.put(5)

    assert asyncio.run(main()) == (2, 5)


def test_gather_of_many(cm: ModuleType) -> None:
    async def main():
        return await asyncio.gather(*[double.remote(i) for i in range(3000)])

    before = threading.active_count()
    assert asyncio.run(main()) == [2 * i for i in range(3000)]
    assert threading.active_count() <= before + 2, "no thread per ref"


def test_the_loop_goes_on_meanwhile(cm: ModuleType, flag) -> None:
    async def main():
        waiting = asyncio.ensure_future(wait_for.remote(flag("go"), 7))
        for _ in range(100):
            await asyncio.sleep(0)
        assert not waiting.done()
        flag("go").set()
        return await waiting

    assert asyncio.run(main()) == 7


def test_errors(cm: ModuleType) -> None:
    async def main():
        with pytest.raises(KeyError):
            await fail.remote()
        return await asyncio.gather(fail.remote(), double.remote(1), return_exceptions=True)

    error, value = asyncio.run(main())
    assert isinstance(error, KeyError) and value == 2


def test_wait_for_gives_up_and_the_ref_stays_good(cm: ModuleType, flag) -> None:
    async def main():
        ref = wait_for.remote(flag("go"), 7)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ref, 0.02)
        flag("go").set()
        return await ref

    assert asyncio.run(main()) == 7


def test_awaiting_one_ref_many_times(cm: ModuleType, flag) -> None:
    async def main():
        ref = wait_for.remote(flag("go"), 7)

        async def one():
            return await ref

        tasks = [asyncio.create_task(one()) for _ in range(50)]
        await asyncio.sleep(0)
        flag("go").set()
        return await asyncio.gather(*tasks)

    assert asyncio.run(main()) == [7] * 50


def test_two_loops_in_two_threads(cm: ModuleType) -> None:
    async def main(k):
        return await asyncio.gather(*[double.remote(k + i) for i in range(300)])

    results = {}
    threads = [threading.Thread(target=lambda k=k: results.update({k: asyncio.run(main(k))})) for k in (0, 1000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {k: [2 * (k + i) for i in range(300)] for k in (0, 1000)}


def test_as_completed_in_a_loop(cm: ModuleType, flag) -> None:
    async def main():
        refs = [wait_for.remote(flag("late"), "late"), cm.put("early")]
        seen = []
        async for ref in cm.as_completed(refs):
            seen.append(await ref)
            flag("late").set()
        return seen

    assert asyncio.run(main()) == ["early", "late"]


def test_asyncio_wait_takes_futures_too(cm: ModuleType, flag) -> None:
    async def main():
        late = asyncio.ensure_future(wait_for.remote(flag("late"), "late"))
        done, pending = await asyncio.wait(
            [asyncio.wrap_future(double.remote(1).future()), late], return_when="FIRST_COMPLETED"
        )
        assert [future.result() for future in done] == [2] and pending == {late}
        flag("late").set()
        assert (await asyncio.wait(pending))[0].pop().result() == "late"

    asyncio.run(main())


def test_futures(cm: ModuleType, flag) -> None:
    ready, later, failed = cm.put(1).future(), wait_for.remote(flag("go"), 2).future(), fail.remote().future()
    assert ready.result(10) == 1 and not later.done()
    flag("go").set()
    assert later.result(20) == 2
    assert isinstance(failed.exception(20), KeyError)
    done, _ = concurrent.futures.wait([double.remote(i).future() for i in range(200)], timeout=30)
    assert sorted(future.result() for future in done) == [2 * i for i in range(200)]


class Slow:
    """What takes until the flag is set to be decoded."""

    def __init__(self, go) -> None:
        self.go = go

    def __reduce__(self):
        return Slow._decoded, (self.go,)

    @staticmethod
    def _decoded(go):
        if threading.current_thread() is not threading.main_thread():  # here, and not in the worker
            go.wait()
        return "slow"


@cellmesh.remote
def slow(go):
    return Slow(go)


def test_who_decodes_or_calls_back_delays_nobody(cm: ModuleType, flag) -> None:
    other = wait_for.remote(flag("other"), 3).future()
    decoded, waiting = slow.remote(flag("decode")).future(), wait_for.remote(flag("call"), 1).future()
    heard: list[int] = []
    waiting.add_done_callback(lambda _: heard.append(other.result(20)))
    flag("call").set()
    assert waiting.result(10) == 1
    flag("other").set()
    assert asyncio.run(asyncio.wait_for(wait_for.remote(flag("other"), 2), 10)) == 2
    assert other.result(10) == 3 and not decoded.done()
    flag("decode").set()
    assert decoded.result(10) == "slow"
    wait_until(lambda: heard == [3])


# ---------------------------------------------------------------- values that take their time
def when_set(value, begun, go):
    begun.set()
    go.wait(10)
    return value


class Blocked(Exception):
    """What is decoded only when a flag is set, and sets another when that has begun."""

    def __init__(self, *flags) -> None:
        self.flags = flags

    def __reduce__(self):
        return when_set, (KeyError("decoded"), *self.flags)


@cellmesh.remote
def blocked(begun, go):
    return Blocked(begun, go)


@cellmesh.remote
def fail_blocked(begun, go):
    raise Blocked(begun, go)


async def by_await(*flags):
    return await blocked.remote(*flags)


async def by_await_of_an_error(*flags):
    try:
        await fail_blocked.remote(*flags)
    except KeyError as error:
        return error


async def by_as_completed(*flags):
    async for _, value in cellmesh.as_completed([blocked.remote(*flags)], with_results=True):
        return value


async def by_map(*flags):
    async with contextlib.aclosing(blocked.map(*([flag] for flag in flags))) as values:
        return await anext(values)


async def by_future(*flags):
    ref = blocked.remote(*flags)
    cellmesh.wait([ref])
    return await asyncio.wrap_future(ref.future())


READERS = [by_await, by_await_of_an_error, by_as_completed, by_map, by_future]


@pytest.mark.parametrize("read", READERS, ids=[read.__name__ for read in READERS])
def test_a_loop_goes_on_while_a_value_is_decoded(cm: ModuleType, flag, read) -> None:
    async def main():
        awaited = asyncio.ensure_future(read(flag("begun"), flag("go")))
        await asyncio.to_thread(flag("begun").wait)
        flag("go").set()  # by nobody else
        return await asyncio.wait_for(awaited, 20)

    assert asyncio.run(main()).args == ("decoded",)


QUICK = [None, 1 << 99, 1.5, "x" * 1000, {"a": [1, (2, b"3")]}, np.zeros(5), {"a": np.zeros(5)}, np.zeros(1 << 18)]
SLOW = [Blocked(), [Blocked()], np.array([Blocked()]), b"x" * (1 << 18), [np.zeros(1 << 18)], ValueError]


def test_what_runs_no_code_and_is_small_is_decoded_at_once(cm: ModuleType) -> None:
    client = cellmesh.put(1).client
    assert [client.decodes_at_once(cm.put(value)) for value in QUICK] == [True] * len(QUICK)
    assert [client.decodes_at_once(cm.put(value)) for value in SLOW] == [False] * len(SLOW)
    assert client.decodes_at_once(cm.put([cm.put(Blocked())])), "a ref is quickly made"
    failed = fail.remote()
    cm.wait([failed, double.remote(1)], num_returns=2)
    assert not client.decodes_at_once(failed)


@cellmesh.remote
class Reads:
    async def by_await(self, *flags):
        return repr(await by_await(*flags))

    async def set(self, go):
        go.set()


def test_an_async_actor_goes_on_while_a_value_is_decoded(cm: ModuleType, flag) -> None:
    actor = Reads.remote()
    read = actor.by_await.remote(flag("begun"), flag("go"))
    flag("begun").wait()
    assert cm.get([read, actor.set.remote(flag("go"))], timeout=20) == ["KeyError('decoded')", None]


def test_the_end_of_the_session_reaches_who_waits(cm: ModuleType, flag) -> None:
    future = wait_for.remote(flag("never"), 1).future()

    async def main():
        waiting = asyncio.ensure_future(wait_for.remote(flag("never"), 1))
        await asyncio.sleep(0)
        cm.shutdown()
        with pytest.raises(cm.exceptions.SessionError):
            await waiting

    asyncio.run(main())
    with pytest.raises(cm.exceptions.SessionError):
        future.result(10)


# ---------------------------------------------------------------- blocking
@cellmesh.remote
class Blocks:
    async def by_get(self, refs, begun):
        begun.set()
        return cellmesh.get(refs[0])

    async def by_wait(self, refs, begun):
        begun.set()
        return len(cellmesh.wait(refs)[0])

    async def by_await(self, refs, begun):
        begun.set()
        return await refs[0]

    async def in_a_thread(self, refs, begun):
        begun.set()
        return await asyncio.to_thread(cellmesh.get, refs[0])


def outcome_and_warnings(cm: ModuleType, flag, capfd: pytest.CaptureFixture, methods: list[str]) -> str:
    actor = Blocks.options(num_cpus=0).remote()
    for i, method in enumerate(methods):
        ref = wait_for.remote(flag(f"go{i}"), 1)
        call = getattr(actor, method).remote([ref], flag(f"begun{i}"))
        flag(f"begun{i}").wait()
        assert cm.wait([call], timeout=0.3) == ([], [call])  # it waits for longer than a moment
        flag(f"go{i}").set()
        assert cm.get(call) == 1
    cm.shutdown()  # shows what there is
    return capfd.readouterr().err


def test_get_in_an_async_method_warns_once(cm: ModuleType, flag, capfd: pytest.CaptureFixture) -> None:
    said = outcome_and_warnings(cm, flag, capfd, ["by_get", "by_wait", "by_get"])
    assert said.count("write `await ref`") == 1 and "RuntimeWarning" in said and "test_async.py" in said, said


@pytest.mark.parametrize("options, is_told", [({}, True), ({"max_concurrency": 2}, False)])
def test_an_actor_that_waits_for_a_call_of_its_own_is_told(cm: ModuleType, options: dict, is_told: bool) -> None:
    @cm.remote
    class Recursive:
        def outer(self, me):
            from cellmesh.session.waiting_for import tell_why

            ref = me.inner.remote()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                tell_why(ref)  # as by `cm.get(ref)`, after seconds
            return [str(warning.message) for warning in caught]

        def inner(self):
            return 1

    actor = Recursive.options(**options).remote()
    told = cm.get(actor.outer.remote(actor))
    assert [
        "'Recursive.inner', a call of this actor itself" in text and "self.method(...)" in text for text in told
    ] == [True] * is_told, told


def test_await_and_get_in_a_thread_do_not(cm: ModuleType, flag, capfd: pytest.CaptureFixture) -> None:
    assert "await ref" not in outcome_and_warnings(cm, flag, capfd, ["by_await", "in_a_thread"])
