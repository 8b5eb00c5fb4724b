"""A machine that says anything at all: whatever it is, only what is between the two ends, and nothing is left over.

Messages are drawn from a seed: well-formed, with numbers that are known to the other in one of its tables, or were, or
are not. CELLMESH_LIES=500 runs that many seeds instead of a few. Workers take turns as they like, so a seed that fails
may pass the next time.
"""

from __future__ import annotations

import os
import random
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from cellmesh.scheduler.cluster import messages
from cellmesh.scheduler.cluster.messages import Actor, Ref, Result, Run, Task, Told, Value
from cellmesh.scheduler.cluster.peer.objects import ForeignFault
from cellmesh.scheduler.cluster.peer.peer import Peer
from cluster.one_process.machines import Machines, machines
from msgspec import msgpack

import cellmesh as cm

pytestmark = pytest.mark.filterwarnings("ignore::cellmesh.exceptions.InfeasibleResourcesWarning")
N_SEEDS = int(os.environ.get("CELLMESH_LIES", "12"))
N_LIVES, N_LIES = 4, 40


class Liar:
    """Says things to a `Peer`, with the numbers that it knows."""

    def __init__(self, dice: random.Random, victim: Peer) -> None:
        self.dice, self.victim = dice, victim

    def number(self) -> int:
        victim, dice = self.victim, self.dice
        known = [
            *victim.tasks_out._tasks,
            *victim.tasks_in._tasks,
            *victim.streams._streams_out,
            *victim.streams._streams_in,
            0,
            77,
            messages.MAX_NUMBER,
        ]
        return dice.choice(known)

    def told(self) -> Told:
        victim, dice = self.victim, self.dice
        known = [*victim.objects._told.values(), *victim.objects._origin.values(), Told(3, 1), Told((1 << 31) - 1, 1)]
        if dice.random() < 0.4 and victim.actors._there:
            known = [there.there for there in victim.actors._there.values() if there.there is not None] or known
        known = dice.choice(known)
        return Told(known.slot, known.generation, dice.choice([0, 1, 1, 1, 2, messages.MAX_NUMBER]))

    def ref(self, depth: int = 2) -> Ref:
        told, dice = self.told(), self.dice
        return Ref(
            told.slot,
            told.generation,
            dice.random() < 0.6,
            self.value(depth - 1) if depth and dice.random() < 0.5 else None,
        )

    def value(self, depth: int = 1) -> Value:
        dice = self.dice
        data = dice.choice([b"", b"x", bytes(100), bytes(5000)])
        size = dice.choice([len(data)] * 4 + [1, 70_000, 9 << 20, 1 << 40, messages.MAX_NUMBER])
        refs = [self.ref(depth) for _ in range(dice.choice([0, 0, 1, 3]))] if depth else []
        return Value(
            dice.randrange(1, 5),
            size,
            data,
            refs,
            dice.choice([0, 1, 3, 7, 12, 13, 255]),
            dice.choice([0, -1, (1 << 31) - 1, -1 << 31]),
            self.ref(0) if dice.random() < 0.3 else None,
            self.actor() if dice.random() < 0.2 else None,
        )

    def actor(self) -> Actor:
        dice = self.dice
        return Actor(
            dice.choice([0, 1, 65535]),
            dice.choice([0, 1, 1 << 31]),
            [dice.choice([0, 1, 65535]) for _ in range(dice.randrange(13))],
        )

    def task(self) -> Task:
        dice = self.dice
        what = dice.random()
        return Task(
            self.number() if dice.random() < 0.3 else dice.randrange(1 << 40),
            self.ref(),
            dice.choice([{}, {"CPU": 10_000}, {"": 1}, {"x" * 200: 1 << 47}]),
            dice.choice([b"", b"junk"]),
            [self.ref() for _ in range(dice.randrange(3))],
            n_dependencies=dice.choice([0, 0, 1, 5, messages.MAX_NUMBER]),
            n_returns=dice.choice([0, 1, 1, 3, 65535]),
            max_retries=dice.choice([-1, 0, 32767]),
            flags=dice.choice([0, 256, 65535]),
            creates=self.value() if what < 0.3 else None,
            hold=dice.choice([{}, {"CPU": 10_000}, {"": 1}]),
            attempt=dice.choice([0, 65535]),
            checkpoint=self.ref() if dice.random() < 0.3 else None,
            stream=dice.choice([-1, -1, 0, 3, (1 << 32) - 1]),
            actor=self.ref() if what > 0.5 else None,
            group=dice.choice([0, 11]),
            env=dice.choice([0, 0, 5, (1 << 32) - 1]),
            times=dice.choice(
                [
                    None,
                    None,
                    messages.Times(0, 0, 0, True),
                    messages.Times(1, 1, (1 << 31) - 1, True),
                    messages.Times(5, 9, 3, False),
                ]
            ),
        )

    def lie(self) -> Any:
        dice, number, told = self.dice, self.number, self.told
        numbers = [number() for _ in range(dice.randrange(1, 3))]
        kinds: list[Callable[[], Any]] = [
            lambda: messages.Tasks([self.task() for _ in range(dice.randrange(1, 3))]),
            lambda: messages.Results(
                [
                    Result(
                        number(),
                        dice.randrange(4),
                        [self.value() for _ in range(dice.choice([0, 1, 1, 1, 2]))],
                        self.ref() if dice.random() < 0.5 else None,
                        5,
                        0,
                        (1 << 53) - 1,
                        0,
                    )
                ]
            ),
            lambda: messages.Items(
                number(),
                dice.choice([0, 0, 1, 5, messages.MAX_NUMBER]),
                [self.value() for _ in range(dice.randrange(4))],
            ),
            lambda: messages.Taken(number(), dice.choice([0, 1, 5, messages.MAX_NUMBER]), dice.random() < 0.3),
            lambda: messages.Returned(numbers),
            lambda: messages.Blocked(numbers),
            lambda: messages.Queued(numbers),
            lambda: messages.Begun([Run(n, 5, (1 << 53) - 1) for n in numbers]),
            lambda: messages.GiveBack(numbers),
            lambda: messages.Cancel(numbers),
            lambda: messages.ActorEnded(
                told(), dice.choice([0, -9, (1 << 31) - 1, -1 << 31]), dice.random() < 0.5, numbers
            ),
            lambda: messages.Checkpoint(told(), self.ref()),
            lambda: messages.Kill(told() if dice.random() < 0.6 else None, number(), dice.random() < 0.5),
            lambda: messages.Find(
                number(), dice.choice(["", "known", "\0", "é" * 100]), dice.choice(["", "default", "\0x"])
            ),
            lambda: messages.Found(number(), self.ref() if dice.random() < 0.7 else None),
            lambda: messages.Released([told()]),
            lambda: messages.Want([told()]),
            lambda: messages.Sealed([self.ref()]),
            lambda: messages.Fetch(
                *self.key(),
                dice.choice([0, 5, 1 << 40, messages.MAX_NUMBER]),
                dice.choice([0, 1, messages.CHUNK_BYTES]),
                dice.choice([0, 0, 1, 2, 99]),
                dice.random() < 0.3,
            ),
            lambda: messages.Chunk(
                *self.key(), dice.choice([0, 1, 1 << 40]), dice.random() < 0.7, dice.choice([0, 0, 1, 2, 99])
            ),
            lambda: messages.Redirect(*self.key(), dice.choice([1, 2, 99])),
            lambda: messages.Copied(*self.key()),
        ]
        return dice.choice(kinds)()

    def key(self) -> tuple[int, int]:
        told = self.told()
        arrivals = list(self.victim.transfers._arrivals)
        return self.dice.choice(arrivals) if arrivals and self.dice.random() < 0.5 else (told.slot, told.generation)


@cm.remote
class Counter:
    def __init__(self) -> None:
        self.n = 0

    def add(self, by: Any = 1) -> int:
        self.n += 1
        return self.n

    def tell(self, handle: Any) -> Any:
        return cm.get(handle[0].add.remote())

    def save(self, n: int) -> None:
        cm.save_checkpoint(np.ones(n))

    @cm.method(num_returns="streaming")
    def items(self, n: int) -> Iterator[Any]:
        yield from range(n)


@cm.remote
def part(n: int, *more: Any) -> Any:
    return [cm.put(np.ones(n)), Counter.remote(), np.ones(n)]


@cm.remote(num_returns="streaming", generator_backpressure_num_objects=3)
def stream(n: int) -> Iterator[Any]:
    for i in range(n):
        yield np.ones(i * 1000)


def begin(dice: random.Random) -> list[Any]:
    """Something of everything, under way."""
    here, there = Counter.options(num_cpus=0).remote(), Counter.options(max_restarts=-1, max_task_retries=-1).remote()
    out = [
        here,
        there,
        *(there.add.remote() for _ in range(5)),
        there.save.remote(dice.choice([1, 50_000])),
        there.tell.remote([here]),
    ]
    out += [part.remote(dice.choice([1, 50_000, 2_000_000]), cm.put(np.ones(20_000))) for _ in range(4)]
    streams = [stream.remote(20), there.items.remote(10)]
    out += [next(streams[0])] if dice.random() < 0.5 else []
    return out + streams


@pytest.mark.timeout(max(120, 10 * N_SEEDS))
@pytest.mark.parametrize("seed", range(N_SEEDS))
def test_lies_end_what_is_between_two_machines_and_nothing_else(seed: int) -> None:
    dice, fell = random.Random(seed), []
    with machines(3) as them:
        for _ in range(N_LIVES):
            fell += _one_life(them, dice)
            assert not fell, fell[0]
            assert them.error is None, them.error
            assert not any(machine.client.check() for machine in them.machines.values())


def _one_life(them: Machines, dice: random.Random) -> list[str]:
    fell: list[str] = []
    before = begin(dice)
    if dice.random() < 0.7:
        cm.wait(before[2:7], num_returns=dice.randrange(1, 6), timeout=20)
    pairs = [(here, there) for here in "abc" for there in "abc" if here != there and "a" in (here, there)]
    here, there = dice.choice(pairs)
    for _ in range(N_LIES):
        with them.lock:
            peer = them.machines[there].peers.get(here)
            if peer is None:
                break
            lie = Liar(dice, peer).lie()
            heard = msgpack.decode(msgpack.encode(lie), type=messages.ToPeer)
            try:
                peer.receive(heard, dice.choice([b"", b"x", bytes(messages.CHUNK_BYTES)]))
                peer.look()
            except ForeignFault:
                them.end(there, here)
            except Exception:  # is shown with what was said
                fell.append(f"{heard}\n{traceback.format_exc()}")
                them.end(there, here)
    del before
    with them.lock:
        them.meet_again(here, there)
    return fell
