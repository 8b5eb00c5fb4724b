"""A machine is cut off for longer than the time after which it counts as dead, and goes on as if nothing had happened:
no actor has two lives that answer one handle, and nothing is seen twice. Real segments, schedulers and workers; only
the network is a queue.

CELLMESH_PARTITIONS=200 does it so often instead of a few times; tests/cluster/real/test_networks.py does it with real
networks.
"""

from __future__ import annotations

import os
import random
from collections import deque
from typing import Any

import pytest
from cluster.one_process.machines import Machines, machines
from support.waiting import wait_until

import cellmesh as cm
from cellmesh import exceptions

pytestmark = pytest.mark.filterwarnings("ignore::cellmesh.exceptions.InfeasibleResourcesWarning")
N_PARTITIONS = int(os.environ.get("CELLMESH_PARTITIONS", "4"))


@cm.remote(max_restarts=-1)
class Lives:
    def __init__(self) -> None:
        self.life, self.n = os.urandom(8).hex(), 0

    def tell(self) -> tuple[str, int]:
        self.n += 1
        return self.life, self.n


@cm.remote(max_retries=5)
def double(i: int) -> int:
    return 2 * i


class Divided:
    """What a head and networks do to two machines: home hears that the other is lost; that one hears nothing, and works
    on.
    """

    def __init__(self, them: Machines) -> None:
        self.them = them

    def divide(self) -> None:
        with self.them.lock:
            self.them.is_lost = lambda here, there, message: {here, there} == {"a", "b"}
            self.them.queue = deque(entry for entry in self.them.queue if set(entry[:2]) != {"a", "b"})
            self.them.end("a", "b")

    def heal(self) -> None:
        """Nothing that the other says is taken from it, as it is another node by now, and then it hears that it is
        dead.
        """
        with self.them.lock:
            self.them.end("b", "a")
            self.them.queue = deque(entry for entry in self.them.queue if set(entry[:2]) != {"a", "b"})
            self.them.is_lost = lambda here, there, message: False
            self.them.join("a", "b")
            self.them.join("b", "a")


class Witness:
    """Calls actors, and judges who answers."""

    def __init__(self, actors: list[Any]) -> None:
        self.actors = actors
        self.lives: list[list[str]] = [[] for _ in actors]
        self.last: dict[str, int] = {}

    def ask(self) -> None:
        calls = [[actor.tell.remote() for _ in range(3)] for actor in self.actors]
        for lives, of_one in zip(self.lives, calls, strict=True):
            for call in of_one:
                try:
                    life, count = cm.get(call, timeout=30)
                except (exceptions.ActorDiedError, exceptions.ActorUnavailableError):
                    continue
                if life not in lives:
                    lives.append(life)
                assert life == lives[-1], "an earlier life has answered"
                assert count > self.last.get(life, 0), "a call was answered twice"
                self.last[life] = count


def one_partition(divided: Divided, dice: random.Random) -> int:
    """How many lives the actors had."""
    witness = Witness([Lives.options(num_cpus=0.3).remote() for _ in range(3)])
    witness.ask()
    tasks, calls = [double.remote(i) for i in range(20)], [actor.tell.remote() for actor in witness.actors]
    if dice.random() < 0.5:
        cm.wait(tasks, num_returns=dice.randrange(1, 20), timeout=30)
    divided.divide()
    witness.ask()
    assert cm.get(tasks, timeout=30) == list(range(0, 40, 2))
    for _ in range(dice.randrange(3)):
        witness.ask()
    divided.heal()
    witness.ask()
    cm.wait(calls, num_returns=len(calls), timeout=30)
    return sum(map(len, witness.lives))


@pytest.mark.timeout(max(120, 5 * N_PARTITIONS))
def test_nothing_has_two_lives_and_nothing_is_seen_twice() -> None:
    dice, n_lives = random.Random(1), 0
    with machines(3) as them:
        divided = Divided(them)
        for _ in range(N_PARTITIONS):
            n_lives += one_partition(divided, dice)
        assert not them.faults and them.error is None
        wait_until(
            lambda: (
                not [
                    row
                    for machine in them.machines.values()
                    for row in machine.client.actors()
                    if row["state"] != "dead"
                ]
            ),
            30,
        )
    print(f"{N_PARTITIONS} partitions, {n_lives} lives of {3 * N_PARTITIONS} actors")
    assert n_lives > 3 * N_PARTITIONS, "some of them have lived twice"
