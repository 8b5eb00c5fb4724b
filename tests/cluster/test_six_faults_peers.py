"""Two agents part at exactly one message, of every kind: whatever has arrived and whatever has not, results are exact and nothing is left.

What the wire cannot hide: one of them gives the other up, either before the message is taken in or right after it, so that its answers come
to nothing. Both say farewell and begin anew, as agents do.
"""
from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from machines import Machines, machines
from six_faults import kinds
from support import wait_until

import cellmesh as cm
from cellmesh import exceptions
from cellmesh import session as sessions
from cellmesh.scheduler.cluster import messages
from cellmesh.scheduler.cluster.farewells import Farewells
from cellmesh.scheduler.cluster.messages import Farewell

pytestmark = pytest.mark.filterwarnings("ignore::cellmesh.exceptions.InfeasibleResourcesWarning")


class Now:
    """In the queue: who has sent what came before it gives the other up."""


class Partings:
    """Has two machines part at a message, and begin anew; see `Agent._cut` and `Agent._part`."""

    def __init__(self, them: Machines, folder: Path) -> None:
        self.them, self.folder = them, folder
        self.farewells: dict[str, Any] = {name: Farewells() for name in them.machines}
        self.kind: type | None = None
        self.is_before = False
        self.n = 0
        them.is_lost = self.is_lost  # type: ignore[method-assign]

    def arm(self, kind: type | None, is_before: bool) -> None:
        with self.them.lock:
            self.kind, self.is_before, self.n = kind, is_before, 0
            self.them.seen.clear()

    def is_lost(self, here: str, there: str, message: Any) -> bool:
        if isinstance(message, Now):
            self.cut(here, there)
            return True
        if isinstance(message, Farewell):
            self.cut(there, here)
            if here in self.farewells[there] and self.farewells[there].heard(here, message):
                self.them.join(there, here)
            return True
        if here in self.farewells[there]:
            return True
        if type(message) is self.kind and not self.n:
            self.n = 1
            if self.is_before:
                self.them.seen.append(message)
                self.cut(there, here)
                return True
            self.them.queue.appendleft((here, there, Now(), b""))
        return False

    def cut(self, here: str, there: str) -> None:
        if there in self.farewells[here] or there not in self.them.machines[here].exchanges:
            return
        farewell = Farewell("the test wants it")
        self.farewells[here].begin(there, farewell)
        self.them.machines[here].exchanges.pop(there).close()
        self.them.queue.append((here, there, farewell, b""))
        if self.farewells[here].said(there):
            self.them.join(here, there)


# ---------------------------------------------------------------- what goes on
@cm.remote
def add(a: Any, b: Any) -> Any:
    return a + b


@cm.remote
def make(n: int) -> Any:
    return np.arange(float(n))


@cm.remote
def weigh(x: Any, go: str) -> float:
    while not os.path.exists(go):
        time.sleep(0.01)
    return float(x.sum())


@cm.remote
def nap(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


@cm.remote
def inside(refs: list[Any]) -> Any:
    return cm.get(refs[0])


@cm.remote
def wrap() -> list[Any]:
    return [cm.put("small"), cm.put(np.ones(50_000))]


@cm.remote(num_returns="streaming", generator_backpressure_num_objects=2)
def count(n: int) -> Iterator[int]:
    yield from range(n)


@cm.remote(max_restarts=-1, max_task_retries=-1)
class Keeper:
    def __init__(self) -> None:
        self.x = cm.load_checkpoint(0)

    def keep(self, x: int) -> int:
        self.x = x
        cm.save_checkpoint(x)
        return x

    def look(self) -> int:
        return int(self.x)


def values(them: Machines, partings: Partings) -> None:
    assert cm.get([add.remote(i, 1) for i in range(10)], timeout=30) == list(range(1, 11))
    made = make.remote(200_000)
    assert cm.get(made, timeout=30)[-1] == 199_999.0
    assert cm.get(add.remote(cm.put(np.ones(100_000)), 1.0), timeout=30).sum() == 200_000.0
    slow = nap.remote(0.1)
    assert cm.get(inside.remote([slow]), timeout=30) == 0.1
    for _ in range(3):  # what a task has begun, or put, ends with the parting
        try:
            small, large = cm.get(wrap.remote(), timeout=30)
            assert (cm.get(small, timeout=30), cm.get(large, timeout=30).sum()) == ("small", 50_000)
            return
        except exceptions.ObjectLostError:
            assert partings.n
    raise AssertionError("lost, though nothing has happened")


def meanwhile(them: Machines, partings: Partings) -> None:
    naps = [nap.remote(0.15) for _ in range(6)]
    wait_until(lambda: "b" in them.machines["a"].exchanges and len(them.machines["a"].exchanges["b"].sent) > 2, 20)

    def given_back() -> bool:
        them.sweep()
        with them.lock:
            exchange = them.machines["a"].exchanges.get("b")
            if exchange is not None:
                exchange.sent.take_back(1, 1)
        return any(isinstance(message, messages.Returned) for message in them.seen) or not cm.wait(naps, timeout=0)[1]
    wait_until(given_back, 30)
    assert cm.get(naps, timeout=30) == [0.15] * 6
    blocks = inside.remote([nap.remote(0.4)])  # it sleeps until the other has ended

    def is_there() -> bool:
        them.sweep()
        return not cm.wait([blocks], timeout=0)[1]
    wait_until(is_there, 30)
    assert cm.get(blocks) == 0.4
    asleep = nap.remote(100.0)
    wait_until(lambda: any(exchange.accepted for exchange in them.machines["b"].exchanges.values()), 20)
    cm.cancel(asleep)
    with pytest.raises(exceptions.TaskCancelledError):
        cm.get(asleep, timeout=30)


def streams(them: Machines, partings: Partings) -> None:
    assert [cm.get(item) for item in count.remote(8)] == list(range(8))


def actors(them: Machines, partings: Partings) -> None:
    keeper = Keeper.remote()
    assert cm.get(keeper.keep.remote(7), timeout=30) == 7
    cm.kill(keeper, no_restart=False)
    assert cm.get(keeper.look.remote(), timeout=30) in ((0, 7) if partings.kind else (7,)), "as of its last checkpoint that has come home"
    assert cm.get(keeper.keep.remote(8), timeout=30) == 8
    cm.kill(keeper)
    with pytest.raises(exceptions.ActorDiedError):
        cm.get(keeper.look.remote(), timeout=30)


def names(them: Machines, partings: Partings) -> None:
    asked: list[Any] = []

    def has_found() -> bool:
        with them.lock:
            exchange = them.machines["a"].exchanges.get("b")
            if exchange is not None and exchange not in asked:
                asked.append(exchange)
                exchange.find(1, "nobody", "default")
            found = exchange is not None and exchange.found == [(1, None)]
            return found and exchange.found.clear() is None
    wait_until(has_found, 20)


def copies(them: Machines, partings: Partings) -> None:
    value, sums, go = cm.put(np.ones(2 << 20)), [], partings.folder / str(time.monotonic_ns())
    for n, name in enumerate("bc", 1):
        them.routes["a"] = [name]
        sums.append(weigh.remote(value, str(go)))
        wait_until(lambda: sum(isinstance(message, messages.Copied) for message in them.seen) >= n, 20)  # noqa: B023
    go.touch()
    assert cm.get(sums, timeout=30) == [2 << 20] * 2
    them.routes["a"] = ["b", "c"]


# What goes on, on how many machines, and messages that it is made of.
SCENES: dict[Callable[[Machines, Partings], None], tuple[int, list[type]]] = {
    values: (2, [messages.Tasks, messages.Results, messages.Released, messages.Fetch, messages.Chunk, messages.Sealed]),
    meanwhile: (2, [messages.Returned, messages.Blocked, messages.Begun, messages.Queued, messages.GiveBack, messages.Cancel]),
    streams: (2, [messages.Items, messages.Taken]),
    actors: (2, [messages.ActorEnded, messages.Checkpoint, messages.Kill]),
    names: (2, [messages.Find, messages.Found]),
    copies: (3, [messages.Redirect, messages.Copied]),
}
# Farewells are what they part with, each time. Output may be lost. Groups and those that want are the affair of whole agents (test_groups,
# test_reconstruction); the wire brings each of these once (test_six_faults_wire).
NOT_HERE = [messages.Farewell, messages.Output, messages.Reserve, messages.Reserved, messages.Unreserve, messages.Want]


def test_each_message_has_its_scene() -> None:
    here = [kind for _, of_scene in SCENES.values() for kind in of_scene]
    assert set(kinds(messages.ToPeer)) - set(here) == set(NOT_HERE), "let it occur in a scene"


def is_left(them: Machines) -> str:
    them.sweep(100.0)
    left = {f"{here} of {there}": known for here, machine in them.machines.items() for there, exchange in machine.exchanges.items()
            if any(known := (exchange.objects._imports, exchange.objects._told, exchange.objects._held, exchange.sent._tasks,
                             exchange.accepted._tasks))}
    left |= {here: machine.lineage._held for here, machine in them.machines.items() if machine.lineage._held}
    return str(left or "")


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_two_part_at_a_message_and_nothing_is_left(scene: Callable[[Machines, Partings], None], tmp_path: Path) -> None:
    n, whats = SCENES[scene]
    with machines(n) as them:
        partings = Partings(them, tmp_path)
        scene(them, partings)
        silent = [kind.__name__ for kind in whats if not any(type(message) is kind for message in them.seen)]
        assert not silent, f"{silent} do not occur"
        sessions.current().client.flush()
        wait_until(lambda: not is_left(them), 30, is_left(them))
        for kind in whats:
            for is_before in (True, False):
                partings.arm(kind, is_before)
                what = f"parted {'before' if is_before else 'after'} {kind.__name__}"
                try:
                    scene(them, partings)
                except Exception as error:
                    raise AssertionError(what) from error
                assert partings.n == 1, f"{what}: it did not occur"
                sessions.current().client.flush()
                wait_until(lambda: not is_left(them), 8, f"{what}: {is_left(them)}")  # noqa: B023
                assert not them.faults, what
        partings.arm(None, False)
