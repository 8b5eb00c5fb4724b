"""`ActorPool` and `Queue`: what the quick tests in test_actors leave out."""
from __future__ import annotations

import asyncio
from types import ModuleType

import cellmesh
import pytest
from cellmesh.util import ActorPool, Queue
from cellmesh.util.queue import Empty, Full

pytestmark = pytest.mark.timeout(60)


@cellmesh.remote
class Worker:
    def double(self, x):
        return 2 * x

    def wait(self, flag):
        return flag.wait()


def double(actor, value):
    return actor.double.remote(value)


def test_one_more_and_one_less(cm: ModuleType) -> None:
    first, second = Worker.remote(), Worker.remote()
    pool = ActorPool([first])
    with pytest.raises(ValueError, match="in the pool already"):
        pool.push(first)
    pool.push(second)
    assert {pool.pop_idle(), pool.pop_idle()} == {first, second} and pool.pop_idle() is None
    pool.submit(double, 1)
    with pytest.raises(ValueError, match="no actors"):
        pool.get_next()
    pool.push(first)
    assert pool.get_next() == 2


def test_a_result_that_is_late(cm: ModuleType, flag) -> None:
    pool = ActorPool([Worker.remote(), Worker.remote()])
    pool.submit(lambda actor, value: actor.wait.remote(value), flag("go"))
    pool.submit(double, 4)
    with pytest.raises(TimeoutError):
        pool.get_next(timeout=0.01)
    assert pool.get_next_unordered(timeout=30) == 8
    with pytest.raises(TimeoutError):
        pool.get_next_unordered(timeout=0.01)
    flag("go").set("went")
    assert pool.get_next(timeout=30) == "went" and not pool.has_next()


def test_a_late_result_given_up(cm: ModuleType, flag) -> None:
    pool = ActorPool([Worker.remote()])
    pool.submit(lambda actor, value: actor.wait.remote(value), flag("go"))
    pool.submit(double, 4)
    with pytest.raises(TimeoutError):
        pool.get_next(timeout=0.01, ignore_if_timedout=True)
    flag("go").set()
    assert pool.get_next(timeout=30) == 8 and not pool.has_next()


def test_async_use_of_a_queue(cm: ModuleType) -> None:
    async def main():
        queue = Queue(maxsize=1)
        waiting = asyncio.ensure_future(queue.get_async())
        await queue.put_async("a")
        assert await waiting == "a"
        await queue.put_async("b", block=False)
        with pytest.raises(Full):
            await queue.put_async("c", block=False)
        with pytest.raises(Full):
            await queue.put_async("c", timeout=0.01)
        assert await queue.get_async(block=False) == "b"
        with pytest.raises(Empty):
            await queue.get_async(block=False)
        with pytest.raises(Empty):
            await queue.get_async(timeout=0.01)
        queue.shutdown()
    asyncio.run(main())


def test_batches_and_sizes(cm: ModuleType) -> None:
    queue = Queue(maxsize=3)
    queue.put_nowait_batch([1, 2])
    with pytest.raises(Full):
        queue.put_nowait_batch([3, 4])
    assert len(queue) == queue.size() == 2, "all of a batch or nothing"
    with pytest.raises(Empty):
        queue.get_nowait_batch(3)
    assert queue.get_nowait_batch(2) == [1, 2] and queue.empty()
    for call in (lambda: queue.get_nowait_batch(-1), lambda: queue.get(timeout=-1), lambda: queue.put(1, timeout=-1)):
        with pytest.raises(ValueError, match=">= 0"):
            call()


def test_the_end_of_a_queue(cm: ModuleType) -> None:
    queue = Queue(actor_options={"name": "mail"})
    assert cm.util.list_named_actors() == ["mail"]
    queue.put(1)
    queue.shutdown(force=False)
    with pytest.raises(cm.exceptions.ActorDiedError):
        queue.get()
