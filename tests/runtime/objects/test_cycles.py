"""None of our reference cycles holds a ref, a handle or anything else: what is let go of is gone at once, without
Python's garbage collector.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from functools import partial
from types import ModuleType

import pytest
from support.cycle_gc import held, left_by, until_gone
from support.waiting import wait_until

import cellmesh
from cellmesh.exceptions import GroupMemberDiedError
from cellmesh.util import ActorPool, Executor, Queue
from cellmesh.util.multiprocessing import Pool
from cellmesh.util.queue import Empty

pytestmark = [pytest.mark.timeout(120), pytest.mark.session("shared")]


@cellmesh.remote
def double(x):
    return 2 * x


@cellmesh.remote
def fail(*args):
    raise KeyError("k")


@cellmesh.remote
def count(n):
    yield from range(n)


@cellmesh.remote
class Adder:
    def __init__(self, start=0):
        self.start = start

    def add(self, x):
        return self.start + x

    def fail(self):
        raise ValueError("v")

    def count(self, n):
        yield from range(n)


def twice(x):
    return 2 * x


def broken(x):
    raise KeyError(x)


def refs(cm: ModuleType) -> None:
    many = [double.remote(i) for i in range(10)]
    assert cm.get(many) == [2 * i for i in range(10)]
    ready, rest = cm.wait(many, num_returns=3)
    assert len(ready) == 3 and len(rest) == 7
    assert cm.get(double.remote(cm.put(3))) == 6
    assert repr(many[0]) and hash(many[0])


def generators(cm: ModuleType) -> None:
    assert [cm.get(ref) for ref in count.remote(5)] == list(range(5))
    unread = count.remote(5)
    assert cm.get(next(unread)) == 0
    assert cm.wait([unread, double.remote(1)], num_returns=2)[0]
    closed = count.remote(5)
    closed.close()

    async def read() -> list[int]:
        return [await ref async for ref in count.remote(3)]

    assert asyncio.run(read()) == [0, 1, 2]


def handles(cm: ModuleType) -> None:
    adder = Adder.options(num_cpus=1).remote(5)
    bound, method = adder.add, adder.add.options(name="plus")
    assert cm.get([adder.add.remote(1), bound.remote(2), method.remote(3)]) == [6, 7, 8]
    assert [cm.get(ref) for ref in adder.count.remote(2)] == [0, 1]
    submit = adder.add.remote
    assert cm.get(submit(1)) == 6
    assert cm.get(double.remote(cm.get(adder.__ready__.remote()))) == 2
    named = Adder.options(name="by-name").remote(1)
    assert cm.get_actor("by-name") == named


def functions_and_variants(cm: ModuleType) -> None:
    @cm.remote
    def own(x):
        return x

    one, two = own.options(num_cpus=2), own.options(num_cpus=1, name="two")
    assert own.options(num_cpus=2) is one
    assert cm.get([own.remote(1), one.remote(2), two.options(max_retries=0).remote(3)]) == [1, 2, 3]


def classes_and_variants(cm: ModuleType) -> None:
    @cm.remote
    class Own:
        def get(self):
            return 1

    variant = Own.options(num_cpus=1)
    assert Own.options(num_cpus=1) is variant
    assert cm.get(variant.remote().get.remote()) == cm.get(Own.remote().get.remote()) == 1


def errors(cm: ModuleType) -> None:
    for call in (
        fail.remote(),
        fail.remote(double.remote(1)),
        double.remote(fail.remote()),
        Adder.remote().fail.remote(),
    ):
        with pytest.raises(cm.exceptions.TaskError):
            cm.get(call)
    with pytest.raises(cm.exceptions.TaskError):
        cm.get([double.remote(1), fail.remote()])
    never = double.options(resources={"none": 1}).remote(1)
    call = Adder.remote(never).add.remote(1)
    with pytest.raises(cm.exceptions.GetTimeoutError):
        cm.get(call, timeout=0.01)
    cm.cancel(call)  # it would wait for ever: who lets go of a call does not take it back
    cm.cancel(never)
    with pytest.raises(TypeError):
        double.remote(1, 2, 3)
    with pytest.raises(TypeError, match="cannot be sent"):
        double.remote(a_lock())
    with pytest.raises(TypeError, match="cannot be sent"):
        unsendable(cm).remote()


def a_lock() -> object:
    import threading

    return [threading.Lock()]


def unsendable(cm: ModuleType) -> object:
    lock = a_lock()

    @cm.remote
    def captures():
        return lock

    return captures


def futures(cm: ModuleType) -> None:
    assert double.remote(1).future().result(30) == 2
    with pytest.raises(KeyError):
        fail.remote().future().result(30)
    late = fail.remote().future()
    assert isinstance(late.exception(30), KeyError)


def awaiting(cm: ModuleType) -> None:
    async def main() -> None:
        assert await double.remote(1) == 2
        assert sorted(await asyncio.gather(*[double.remote(i) for i in range(5)])) == [0, 2, 4, 6, 8]
        assert len([ref async for ref in cm.as_completed([double.remote(i) for i in range(5)])]) == 5
        try:
            await fail.remote()
        except KeyError:
            return

    asyncio.run(main())
    assert len(list(cm.as_completed([double.remote(i) for i in range(5)]))) == 5


def executors(cm: ModuleType) -> None:
    with Executor(max_workers=2) as executor:
        assert list(executor.map(twice, range(5))) == [0, 2, 4, 6, 8]
        with pytest.raises(KeyError):  # no variable here holds the future: the error's traceback would refer to it
            executor.submit(broken, 1).result(30)
        with pytest.raises(TypeError):
            executor.submit(twice, a_lock()).result(30)
        assert isinstance(executor.submit(broken, 1).exception(30), KeyError)


def actor_pools(cm: ModuleType) -> None:
    pool = ActorPool([Adder.remote(1), Adder.remote(2)])
    assert len(list(pool.map_unordered(lambda adder, x: adder.add.remote(x), range(5)))) == 5
    unread = pool.map(lambda adder, x: adder.add.remote(x), range(5))
    assert next(unread) in (1, 2)


def pools(cm: ModuleType) -> None:
    pool = Pool(1)
    assert pool.map(twice, range(5)) == [0, 2, 4, 6, 8]
    with pytest.raises(KeyError):
        pool.apply(broken, (1,))
    with pytest.raises(KeyError):
        list(pool.imap(broken, [1]))
    unread = pool.imap(twice, iter(range(10**9)))
    assert next(unread) == 0
    wait_until(lambda: not pool._in_flight or pool._collect(0))


def queues(cm: ModuleType) -> None:
    queue = Queue(2)
    queue.put([double.remote(1)])
    assert cm.get(queue.get()) == [2]
    with pytest.raises(Empty):
        queue.get(timeout=0.01)
    assert asyncio.run(queue.put_async(1)) is None and queue.get() == 1
    queue.shutdown()


def progress(cm: ModuleType) -> None:
    assert list(cm.progress([double.remote(i) for i in range(5)])) == [0, 2, 4, 6, 8]
    assert repr(cm.progress([double.remote(1)]))


def placement_groups(cm: ModuleType) -> None:
    from cellmesh.util import PlacementGroupSchedulingStrategy, placement_group, remove_placement_group

    group = placement_group([{"CPU": 1}])
    assert cm.get(group.ready())
    placed = Adder.options(num_cpus=1, scheduling_strategy=PlacementGroupSchedulingStrategy(group)).remote(1)
    assert cm.get(placed.add.remote(1)) == 2
    remove_placement_group(group)


def looking(cm: ModuleType) -> None:
    context = cm.init(ignore_reinit_error=True)
    assert repr(context) and context._repr_html_()
    assert cm.get_runtime_context().get()
    ref = double.remote(1)
    assert cm.get(ref) == 2
    assert cm.state.memory() and cm.state.list_tasks() and cm.timeline()


def handles_that_travel(cm: ModuleType) -> None:
    adder = Adder.remote(1)

    @cm.remote
    def use(handle, x):
        return cellmesh.get(handle.add.remote(x))

    assert cm.get(use.remote(adder, 2)) == 3
    assert cm.get(use.remote(cm.get(cm.put([adder]))[0], 3)) == 4


def maps(cm: ModuleType) -> None:
    assert list(double.map(range(5))) == [0, 2, 4, 6, 8]
    assert sorted(double.map(range(5), chunksize=2, ordered=False)) == [0, 2, 4, 6, 8]
    unread = double.map(iter(range(10**9)))
    assert next(unread) == 0
    with pytest.raises(KeyError):
        list(fail.map(range(3)))
    assert isinstance(next(fail.map([1], return_exceptions=True)), KeyError)
    with pytest.raises(ValueError):
        list(double.map(int(text) for text in ("1", "x")))
    assert list(Adder.remote(1).add.map([1, 2])) == [2, 3]

    async def read() -> list[int]:
        return [value async for value in double.map(range(3), ordered=False)]

    assert sorted(asyncio.run(read())) == [0, 2, 4]


def groups(cm: ModuleType) -> None:
    with cm.task_group() as g:
        ref = g.submit(double, 1)
    assert cm.get(ref) == 2
    with pytest.raises(ExceptionGroup), cm.task_group() as g:
        g.submit(fail)
    with pytest.raises(ExceptionGroup), cm.task_group() as g:
        cm.get(g.submit(fail))

    async def main() -> None:
        async with cm.task_group() as g:
            ref = g.submit(double, 1)
        assert await ref == 2
        with pytest.raises(ExceptionGroup):  # asyncio.run() would make a cycle of it
            async with cm.task_group() as g:
                g.submit(fail)

    asyncio.run(main())


def actor_groups(cm: ModuleType) -> None:
    group = cm.group(Adder, 2, 1)
    assert cm.get(group.add.remote(1)) == [2, 2] and repr(group) and group._repr_html_()
    assert cm.get(group.add.reduce(max, 1)) == 2 and cm.get(group.add.scatter([1, 2]).map(double)) == [4, 6]
    assert cm.get(group[1:].where(lambda member: member.rank).add.remote(2)) == [3]
    with pytest.raises(ValueError):
        cm.get(group.fail.remote())
    assert len(cm.get(group.fail.remote(), return_exceptions=True)) == 2
    group.restart(0)
    cm.kill(group[1])
    wait_until(lambda: "dead" in repr(group))
    for call in (group.add.remote, partial(group.add.reduce, max), group.add.scatter):
        with pytest.raises(GroupMemberDiedError):
            call([1])
    reserved = Adder.options(num_cpus=1).group(2)
    failed = reserved.fail.remote()
    cm.kill(reserved)
    with pytest.raises((ValueError, GroupMemberDiedError)):
        cm.get(failed)


WORK = [
    refs,
    generators,
    handles,
    actor_groups,
    functions_and_variants,
    classes_and_variants,
    errors,
    futures,
    awaiting,
    executors,
    actor_pools,
    pools,
    queues,
    progress,
    placement_groups,
    looking,
    handles_that_travel,
    maps,
    groups,
]


@pytest.mark.parametrize("work", WORK)
def test_nothing_of_ours_is_left_to_the_garbage_collector(cm: ModuleType, work: Callable[[ModuleType], None]) -> None:
    work(cm)  # what is kept for good is made now
    n_bytes = held()

    def work_and_wait() -> None:
        work(cm)
        until_gone(n_bytes)

    n_workers = 2
    while True:
        try:
            left = left_by(work_and_wait)
            break
        except AssertionError:  # a worker keeps what it calls a method by, and which one runs a task is chance
            if not n_workers:
                raise
            n_workers -= 1
            n_bytes = held()
    assert left == []


@pytest.mark.parametrize(
    "use",
    [
        lambda cm, adder: cm.get(adder.add.remote(1)),
        lambda cm, adder: [cm.get(ref) for ref in adder.count.remote(2)],
        lambda cm, adder: adder.add.remote(1).future().result(),
        lambda cm, adder: cm.get(double.options(num_cpus=0).remote([adder])) and None,
        lambda cm, adder: asyncio.run(awaited(adder)),
        lambda cm, adder: list(ActorPool([adder]).map(lambda a, x: a.add.remote(x), [1, 2])),
    ],
    ids=["get", "generator", "future", "travels", "await", "pool"],
)
def test_a_dropped_handle_ends_its_actor_at_once(cm: ModuleType, use: Callable[..., object]) -> None:
    gc.collect()
    gc.disable()
    try:
        for _ in range(4):  # each takes both CPUs
            adder = Adder.options(num_cpus=2).remote(1)
            assert cm.get(adder.__ready__.remote(), timeout=30)
            use(cm, adder)
            del adder
    finally:
        gc.enable()


async def awaited(adder):
    return await adder.add.remote(1)


def test_a_session_that_has_ended_leaves_no_refs_in_cycles(cm: ModuleType) -> None:
    def session() -> None:
        with cm.init(num_cpus=1, object_store_memory=64 << 20):
            assert cm.get(double.remote(1)) == 2
            assert double.remote(1).future().result(30) == 2

    cm.shutdown()
    session()
    left = [line for line in left_by(session) if line.startswith(("Ref:", "ObjectRef:", "ActorHandle:", "Client:"))]
    assert left == []


def test_a_handle_in_a_cycle_of_the_users_goes_when_its_process_has_nothing_to_do(cm: ModuleType) -> None:
    """A task's, as with a cell that defines a function: its variables are that function's globals. Small values alone
    are not worth a collection.
    """

    @cm.remote(num_cpus=0)
    def tangles(handle):
        tangle = [handle]
        tangle.append(tangle)
        return cellmesh.get(handle.add.remote(1))

    adder = Adder.options(num_cpus=1).remote(1)
    assert cm.get(tangles.remote(adder)) == 2
    client = adder._actor_id.client
    del adder
    wait_until(lambda: [row["state"] for row in client.actors()] in ([], ["dead"]), 15)
