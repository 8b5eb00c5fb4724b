"""Actors as they may be written. pyright knows nothing of the methods of a handle, but objects to none; mypy does by its plugin."""
from __future__ import annotations

from dataclasses import dataclass
from collections.abc import Iterator
from typing import Any, assert_type

import cellmesh as cm


class Counter:
    KIND = "counter"

    @classmethod
    def parse(cls, text: str) -> int:
        return int(text)

    def __init__(self, start: int = 0, *, step: int = 1) -> None:
        self.n = start
        self.step = step

    def add(self, k: int) -> int:
        self.n += k * self.step
        return self.n

    @cm.method(num_returns=2, concurrency_group="io")
    def both(self) -> tuple[int, int]:
        return self.n, self.step

    @cm.method(max_task_retries=2)
    async def later(self, k: int) -> str:
        return str(self.add(k))

    def all(self) -> Iterator[int]:
        yield from range(self.n)


CounterActor = cm.remote(Counter)


@dataclass
class Record:
    name: str
    size: int = 0

    def grow(self) -> int:
        self.size += 1
        return self.size


class Empty:
    pass


@cm.remote
class Decorated:
    LIMIT = 3

    def __init__(self, start: int = 0, *, step: int = 1) -> None:
        self.n = start

    def add(self, k: int, *, times: int = 1) -> int:
        self.n += k * times
        return self.n

    def untyped(self, x):  # type: ignore[no-untyped-def]
        return x

    @staticmethod
    def twice(x: int) -> int:
        return 2 * x


@cm.remote(num_cpus=1, max_restarts=2, resources={"disk": 1})
class WithOptions:
    async def wait(self, s: float) -> float:
        return s


async def decorated() -> None:
    Decorated.remote()
    Decorated.remote(3, step=2)
    Decorated.remote(cm.put(3))
    Decorated.remote(start=cm.put(3), step=2)
    actor = Decorated.options(name="d", num_gpus=0.5).remote(1)
    total: int = cm.get(actor.add.remote(cm.put(1), times=2))
    actor.add.remote(1, times=cm.put(total))
    actor.untyped.remote(actor)
    actor.twice.remote(3)
    print(Decorated.twice(3), Decorated.LIMIT + 1)
    actor.add.options(name="x").remote(k=3)
    cm.get(actor.__ready__.remote())
    seconds: float = await WithOptions.remote().wait.remote(seconds_of(actor))
    cm.wait([WithOptions.remote().wait.remote(seconds)])
    cm.kill(actor)


def seconds_of(handle: cm.ActorHandle[Any]) -> float:
    return float(cm.get(handle.seconds.remote()))


def constructors() -> None:
    counter = CounterActor.remote()
    assert_type(counter, cm.ActorHandle[Counter])
    CounterActor.remote(3)
    CounterActor.remote(3, step=2)
    CounterActor.remote(start=3)
    CounterActor.remote(cm.put(3))
    CounterActor.remote(start=cm.put(3), step=2)
    CounterActor.options(name="c", lifetime="detached", get_if_exists=True, max_restarts=-1).remote(3)
    CounterActor.options(max_concurrency=4, concurrency_groups={"io": 2}, namespace=None).remote(step=cm.put(2))
    assert_type(cm.remote(num_cpus=1, max_restarts=2)(Counter).remote(1), cm.ActorHandle[Counter])
    cm.remote(Record).remote("a", size=2)
    cm.remote(Empty).remote()
    print(CounterActor.KIND, CounterActor.parse("3"))


async def methods() -> None:
    counter = CounterActor.remote()
    n: int = cm.get(counter.add.remote(3))
    counter.add.remote(cm.put(n))
    counter.add.options(name="x", num_returns=1).remote(k=3)
    cm.get([counter.add.remote(1), counter.add.remote(2)])
    text: str = await counter.later.remote(3)
    one, other = counter.both.remote()
    cm.get([one, other])
    for item in counter.all.remote():
        print(cm.get(item), text)
    cm.kill(counter)
    cm.kill(counter, no_restart=False)


def groups(any_group: cm.ActorGroup[Any]) -> None:
    workers = cm.group(CounterActor, 4, step=2)
    assert_type(workers, cm.ActorGroup[Counter])
    assert_type(CounterActor.group(shape={"dp": 2}, strategy="PACK"), cm.ActorGroup[Counter])
    assert_type(cm.group(Counter, dp=2, pp=2, on_death="shrink"), cm.ActorGroup[Counter])
    assert_type(workers[2:].where(lambda member: member.rank > 2).at(dp=0), cm.ActorGroup[Counter])
    assert_type(workers[3], cm.ActorHandle[Counter])
    assert_type(next(iter(workers)), cm.ActorHandle[Counter])
    assert_type(workers.restart(0), cm.ActorHandle[Counter])
    refs: cm.RefGroup[int] = workers.add.remote(1)
    assert_type(cm.get(refs), list[int])
    assert_type(cm.get(refs, return_exceptions=True), list[int | BaseException])
    assert_type(refs[0], cm.ObjectRef[int])
    assert_type(refs[1:], cm.RefGroup[int])
    ready, rest = cm.wait(refs, num_returns=2)
    assert_type(ready, list[cm.ObjectRef[int]])
    cm.cancel(refs)
    workers.add.scatter([1, 2, 3, 4])
    cm.get(workers.add.options(name="a").reduce(max, 1))
    any_group.anything.remote(1, x=2)
    here = cm.current_group()
    here.peers[(here.rank + 1) % here.size].add.remote(1)
    here.barrier(timeout=3)
    cm.kill(workers)


def handles(counter: cm.ActorHandle[Counter], any_actor: cm.ActorHandle[Any], actor_class: cm.ActorClass[Counter]) -> None:
    found: cm.ActorHandle[Counter] = cm.get_actor("c")
    cm.get_actor("c", namespace="other")
    handles(found, counter, CounterActor)
    handles(actor_class.remote(3), any_actor, actor_class)
    ref = cm.put(counter)
    assert_type(cm.get(ref), cm.ActorHandle[Counter])

    @cm.remote
    def drive(actor: cm.ActorHandle[Counter]) -> int:
        value: int = cm.get(actor.add.remote(1))
        return value

    drive.remote(counter)
    cm.util.ActorPool([counter, found])
    group = cm.get(cm.util.placement_group([{"CPU": 1}]).ready())
    CounterActor.options(scheduling_strategy=cm.util.PlacementGroupSchedulingStrategy(group)).remote(1)
    cm.kill(cm.get_runtime_context().current_actor)
