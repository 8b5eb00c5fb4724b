"""Refs in asyncio and concurrent.futures."""
from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from types import ModuleType

import cellmesh
import pytest
from support import wait_until

pytestmark = pytest.mark.timeout(60)


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


def test_asyncio_wait_takes_futures_and_says_how(cm: ModuleType, flag) -> None:
    async def main():
        late = asyncio.ensure_future(wait_for.remote(flag("late"), "late"))
        done, pending = await asyncio.wait([asyncio.wrap_future(double.remote(1).future()), late], return_when="FIRST_COMPLETED")
        assert [future.result() for future in done] == [2] and pending == {late}
        flag("late").set()
        assert (await asyncio.wait(pending))[0].pop().result() == "late"
        with pytest.raises(AttributeError, match=r"asyncio.wait\(\[asyncio.wrap_future\(ref.future\(\)\) for ref in refs\]\)"):
            await asyncio.wait([double.remote(1)])
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
