"""`ActorPool` and `Queue`: what the quick tests in test_actors leave out."""

from __future__ import annotations

import asyncio
import os
from types import ModuleType

import pytest

import cellmesh
from cellmesh.util import ActorPool, Queue
from cellmesh.util.queue import Empty, Full

pytestmark = [pytest.mark.timeout(60), pytest.mark.session("shared")]


@cellmesh.remote
class Worker:
    def double(self, x):
        return 2 * x

    def wait(self, flag):
        return flag.wait()

    @cellmesh.method(num_returns=2)
    def parts(self, x, flag=None):
        if flag is not None:
            flag.wait()
        return x, 1 // x


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


def test_a_slow_result_keeps_nobody_else_from_work(cm: ModuleType, flag) -> None:
    pool = ActorPool([Worker.remote(), Worker.remote()])

    def call(actor, value):
        if value == 5:  # the last one, which the other actor comes to while the first result is waited for
            flag("go").set()
        return actor.wait.remote(flag("go")) if value == 0 else actor.double.remote(value)

    assert list(pool.map(call, range(6)))[1:] == [2, 4, 6, 8, 10]


def test_a_late_result_given_up(cm: ModuleType, flag) -> None:
    pool = ActorPool([Worker.remote()])
    pool.submit(lambda actor, value: actor.wait.remote(value), flag("go"))
    pool.submit(double, 4)
    with pytest.raises(TimeoutError):
        pool.get_next(timeout=0.01, ignore_if_timedout=True)
    flag("go").set()
    assert pool.get_next(timeout=30) == 8 and not pool.has_next()


def test_methods_of_several_returns(cm: ModuleType, flag) -> None:
    pool = ActorPool([Worker.remote(), Worker.remote()])
    assert list(pool.map(lambda actor, x: actor.parts.remote(x), range(1, 6))) == [[x, 1 // x] for x in range(1, 6)]
    assert sorted(pool.map_unordered(lambda actor, x: actor.parts.remote(x), range(1, 6))) == [
        [x, 1 // x] for x in range(1, 6)
    ]
    pool.submit(lambda actor, x: actor.parts.remote(x, flag("go")), 1)
    pool.submit(lambda actor, x: actor.parts.remote(x), 2)
    assert pool.get_next_unordered(30) == [2, 0]
    with pytest.raises(cm.exceptions.GetTimeoutError):
        pool.get_next(0.01)
    flag("go").set()
    assert pool.get_next(30) == [1, 1] and not pool.has_next()
    pool.submit(lambda actor, x: actor.parts.remote(x), 0)
    with pytest.raises(ZeroDivisionError):
        pool.get_next()
    assert pool.has_free()


def test_a_function_that_returns_no_ref_or_raises_costs_no_actor(cm: ModuleType) -> None:
    pool = ActorPool([Worker.remote()])
    with pytest.raises(TypeError, match=r"must return the ref of its call, or a list of refs .* not 3"):
        pool.submit(lambda actor, x: x, 3)
    with pytest.raises(ZeroDivisionError):
        pool.submit(lambda actor, x: 1 // x, 0)
    assert list(pool.map(double, [1, 2])) == [2, 4]


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
    waiting = cm.remote(lambda queue: queue.get()).remote(queue)
    assert cm.get(waiting, timeout=30) == 1
    queue.shutdown(force=False)
    words = r"the queue has been shut down \(Queue.shutdown\)"
    for use in (queue.get, queue.qsize, lambda: queue.put_nowait(2), lambda: asyncio.run(queue.get_async())):
        with pytest.raises(cm.exceptions.ActorDiedError, match=words):
            use()
    with pytest.raises(cm.exceptions.ActorDiedError, match=words):
        cm.get(cm.remote(lambda queue: queue.get()).remote(queue), timeout=30)


def test_the_process_of_a_queue_that_dies_is_told_as_that(cm: ModuleType) -> None:
    queue = Queue()
    queue.actor.__call_with__.remote(lambda instance: os._exit(3))
    with pytest.raises(cm.exceptions.ActorDiedError, match="its process ended with exit status 3"):
        queue.get()
