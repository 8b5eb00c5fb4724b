"""Mistakes with actors, each at the end of its line: who sees it."""
from __future__ import annotations

from collections.abc import Iterator

import cellmesh as cm


class Counter:
    def __init__(self, start: int = 0, *, step: int = 1) -> None:
        self.n = start

    def add(self, k: int) -> int:
        self.n += k
        return self.n

    @cm.method(num_return=2)  # error: both
    def both(self) -> tuple[int, int]:
        return self.n, self.n


CounterActor = cm.remote(Counter)


@cm.remote
class Decorated:
    def __init__(self, start: int = 0) -> None:
        self.n = start

    def add(self, k: int) -> int:
        self.n += k
        return self.n

    async def later(self, k: int) -> str:
        return str(k)

    def all(self) -> Iterator[int]:
        yield from range(self.n)

    @property
    def size(self) -> int:
        return self.n


def decorated() -> None:
    Decorated.remote("three")  # error: both
    Decorated.remote(1, 2)  # error: both
    Decorated.options(nmae="d")  # error: both
    Decorated(3)  # error: pyright


async def methods() -> None:
    """The methods of a handle are those of its class for mypy's plugin only."""
    actor = Decorated.remote()
    actor.ad.remote(1)  # error: mypy
    actor.add.remote("one")  # error: mypy
    actor.add.remote(1, 2)  # error: mypy
    actor.add.remote(cm.put("one"))  # error: mypy
    actor.n.remote()  # error: mypy
    actor.size.remote()  # error: mypy
    text: str = cm.get(actor.add.remote(1))  # error: mypy
    number: int = await actor.later.remote(1)  # error: mypy
    cm.get(actor.all.remote())  # error: mypy
    for item in actor.all.remote():
        text = cm.get(item)  # error: mypy
    actor.add.remote(1) + 1  # error: mypy
    CounterActor.remote().bth.remote()  # error: mypy
    print(text, number)


def constructors() -> None:
    CounterActor.remote("three")  # error: both
    CounterActor.remote(1, 2)  # error: both
    CounterActor.remote(cm.put("three"))  # error: both
    CounterActor(3)  # error: both
    CounterActor.map([3])  # error: mypy
    print(Decorated.limit)  # error: mypy
    CounterActor.options(nmae="c")  # error: both
    CounterActor.options(max_retries=3)  # error: both
    CounterActor.options(lifetime="forever")  # error: both


def groups() -> None:
    workers = cm.group(CounterActor, 2)
    workers.add(3)  # error: both
    workers.ad.remote(3)  # error: mypy
    workers.add.remote("three")  # error: mypy
    cm.group(CounterActor, "two")  # error: both
    cm.group(CounterActor, 2, on_death="ignore")  # error: both
    cm.group(3, 2)  # error: both
    workers.restart("1")  # error: both
    cm.get(workers)  # error: both


def handles() -> None:
    counter = CounterActor.remote(3)
    counter.add(3)  # error: both
    counter.add.options(num_cpus=2)  # error: both
    cm.get(counter)  # error: both
    cm.kill(counter.add.remote(1), no_restart="no")  # error: both
    cm.kill(Counter(3))  # error: both
    counter + 1  # error: both
    found: cm.ActorHandle[str] = counter  # error: both
    print(found)
