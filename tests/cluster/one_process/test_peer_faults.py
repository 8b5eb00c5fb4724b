"""Two agents reset what is between them at exactly one message, of every kind: whatever has arrived and whatever has
not, results are exact and nothing is left.

What the wire cannot hide: one of them gives the other up, either before the message is taken in or right after it, so
that its answers come to nothing. Both send a reset and begin again, by the shell of agents.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cellmesh.scheduler.cluster import messages
from cluster.one_process.machines import Machines, machines
from cluster.wire.message_faults import kinds
from support.waiting import wait_until

import cellmesh as cm
from cellmesh import exceptions
from cellmesh.session.current import current

pytestmark = pytest.mark.filterwarnings("ignore::cellmesh.exceptions.InfeasibleResourcesWarning")


class Now:
    """In the queue: who has sent what came before it gives the other up."""


class Partings:
    """Has two machines reset at a message, and begin again, as agents do."""

    def __init__(self, them: Machines, folder: Path) -> None:
        self.them, self.folder = them, folder
        self.kind: type | None = None
        self.is_before = False
        self.n = 0
        them.is_lost = self.is_lost

    def arm(self, kind: type | None, is_before: bool) -> None:
        with self.them.lock:
            self.kind, self.is_before, self.n = kind, is_before, 0
            self.them.seen.clear()

    def is_lost(self, here: str, there: str, message: Any) -> bool:
        if isinstance(message, Now):
            self.them.give_up(here, there, "the test wants it")
            return True
        if type(message) is self.kind and not self.n and here in self.them.machines[there].peers:
            self.n = 1
            if self.is_before:
                self.them.seen.append(message)
                self.them.give_up(there, here, "the test wants it")
                return True
            self.them.queue.appendleft((here, there, Now(), b""))
        return False


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
    wait_until(lambda: "b" in them.machines["a"].peers and len(them.machines["a"].peers["b"].tasks_out) > 2, 20)

    def given_back() -> bool:
        them.sweep()
        with them.lock:
            peer = them.machines["a"].peers.get("b")
            if peer is not None:
                peer.tasks_out.take_back(1, 1)
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
    wait_until(lambda: any(peer.tasks_in for peer in them.machines["b"].peers.values()), 20)
    cm.cancel(asleep)
    with pytest.raises(exceptions.TaskCancelledError):
        cm.get(asleep, timeout=30)


def streams(them: Machines, partings: Partings) -> None:
    assert [cm.get(item) for item in count.remote(8)] == list(range(8))


def actors(them: Machines, partings: Partings) -> None:
    keeper = Keeper.remote()
    assert cm.get(keeper.keep.remote(7), timeout=30) == 7
    cm.kill(keeper, no_restart=False)
    assert cm.get(keeper.look.remote(), timeout=30) in ((0, 7) if partings.kind else (7,)), (
        "as of its last checkpoint that has come home"
    )
    assert cm.get(keeper.keep.remote(8), timeout=30) == 8
    cm.kill(keeper)
    with pytest.raises(exceptions.ActorDiedError):
        cm.get(keeper.look.remote(), timeout=30)


def names(them: Machines, partings: Partings) -> None:
    asked: list[Any] = []

    def has_found() -> bool:
        with them.lock:
            peer = them.machines["a"].peers.get("b")
            if peer is not None and peer not in asked:
                asked.append(peer)
                peer.find(1, "nobody", "default")
            found = peer is not None and peer.found == [(1, None)]
            return found and peer.found.clear() is None

    wait_until(has_found, 20)


def copies(them: Machines, partings: Partings) -> None:
    value, sums, go = cm.put(np.ones(2 << 20)), [], partings.folder / str(time.monotonic_ns())
    for n, name in enumerate("bc", 1):
        them.routes["a"] = [name]
        sums.append(weigh.remote(value, str(go)))
        wait_until(lambda: sum(isinstance(message, messages.Copied) for message in them.seen) >= n, 20)
    go.touch()
    assert cm.get(sums, timeout=30) == [2 << 20] * 2
    them.routes["a"] = ["b", "c"]


# What goes on, on how many machines, and messages that it is made of.
SCENES: dict[Callable[[Machines, Partings], None], tuple[int, list[type]]] = {
    values: (2, [messages.Tasks, messages.Results, messages.Released, messages.Fetch, messages.Chunk, messages.Sealed]),
    meanwhile: (
        2,
        [messages.Returned, messages.Blocked, messages.Begun, messages.Queued, messages.GiveBack, messages.Cancel],
    ),
    streams: (2, [messages.Items, messages.Taken]),
    actors: (2, [messages.ActorEnded, messages.Checkpoint, messages.Kill]),
    names: (2, [messages.Find, messages.Found]),
    copies: (3, [messages.Redirect, messages.Copied]),
}
# PeerResets are what they part with, each time. Output may be lost. Groups and those that want are the affair of whole
# agents (test_groups, test_reconstruction); the wire brings each of these once (test_six_faults_wire).
NOT_HERE = [messages.Reset, messages.Output, messages.Reserve, messages.Reserved, messages.Unreserve, messages.Want]
# Nor what an agent itself takes (test_printing, test_last_words_there).
NOT_HERE += [messages.Died, messages.Flush, messages.Flushed]


def test_each_message_has_its_scene() -> None:
    here = [kind for _, of_scene in SCENES.values() for kind in of_scene]
    assert set(kinds(messages.ToPeer)) - set(here) == set(NOT_HERE), "let it occur in a scene"


def is_left(them: Machines) -> str:
    them.sweep(100.0)
    left = {
        f"{here} of {there}": known
        for here, machine in them.machines.items()
        for there, peer in machine.peers.items()
        if any(
            known := (
                peer.objects._imports,
                peer.objects._told,
                peer.objects._held,
                peer.tasks_out._tasks,
                peer.tasks_in._tasks,
            )
        )
    }
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
        current().client.flush()
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
                current().client.flush()
                wait_until(lambda: not is_left(them), 8, f"{what}: {is_left(them)}")
                assert not them.faults, what
        partings.arm(None, False)
