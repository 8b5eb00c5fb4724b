"""A random program of tasks, actors and generators on machines of which some are lost, with workers killed, calls
cancelled and handles dropped.

Every value is right or a typed error, calls of one caller are begun in order and once, nothing waits for ever, and
nothing is left over. CELLMESH_STORMS=500 runs that many seeds instead of a few. Processes take turns as they like, so a
seed that fails may pass the next time.
"""

from __future__ import annotations

import os
import random
import signal
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cluster.one_process.machines import Machines, machines
from support.waiting import wait_until

import cellmesh as cm
from cellmesh import exceptions
from cellmesh.session.current import current

pytestmark = pytest.mark.filterwarnings("ignore::cellmesh.exceptions.InfeasibleResourcesWarning")
N_SEEDS = int(os.environ.get("CELLMESH_STORMS", "6"))
N_STEPS = 30
# What may become of a task or call, besides its value: nothing else may, and no waiting.
MISHAPS = (
    exceptions.ActorDiedError,
    exceptions.ActorUnavailableError,
    exceptions.WorkerCrashedError,
    exceptions.NodeDiedError,
    exceptions.ObjectLostError,
    exceptions.TaskCancelledError,
)


@cm.remote(max_retries=5)
def double(x: Any) -> Any:
    return x * 2


@cm.remote(max_retries=5)
def nested(function: Any, n: int) -> list[Any]:
    return [function.remote(i) for i in range(n)]


@cm.remote(max_retries=0)
def call_from(actors: list[Any], who: str, n: int) -> list[Any]:
    return [actors[0].note.remote(who, i) for i in range(n)]


@cm.remote(num_returns="streaming", max_retries=5)
def count(n: int, size: int) -> Iterator[Any]:
    for i in range(n):
        yield [cm.put(i), np.full(size, float(i))]


@cm.remote
class Log:
    """Writes down which calls have begun, in which life."""

    def __init__(self, path: str, other: Any = None) -> None:
        self.path, self.other = path, other
        self.n = cm.load_checkpoint(default=0)

    def note(self, who: str, i: int, ballast: Any = None) -> tuple[str, int]:
        with open(self.path, "a") as file:
            file.write(f"{who} {i}\n")
        return who, i

    def save(self) -> None:
        self.n += 1
        cm.save_checkpoint(self.n)

    def hand_on(self, i: int) -> tuple[str, int]:
        return cm.get(self.other[0].note.remote("handed on", i)) if self.other else ("alone", i)

    @cm.method(num_returns="streaming")
    def items(self, n: int) -> Iterator[int]:
        yield from range(n)


class Storm:
    """One program."""

    def __init__(self, seed: int, them: Machines, path: Path) -> None:
        self.dice, self.them, self.path = random.Random(seed), them, path
        self.actors: list[tuple[Any, str, bool]] = []  # handle, where it writes, whether calls may be repeated
        self.once: list[str] = []  # files of those whose calls may not
        self.awaited: list[tuple[Any, Any]] = []  # ref, value
        self.streams: list[tuple[Any, int]] = []
        self.n = 0

    def step(self) -> None:
        dice = self.dice
        kinds = [
            self.task,
            self.task,
            self.nest,
            self.make,
            self.call,
            self.call,
            self.call_there,
            self.call_there,
            self.pass_on,
            self.stream,
            self.stream,
            self.read,
            self.kill,
            self.cancel,
            self.drop,
            self.save,
            self.kill_worker,
            self.look,
        ]
        dice.choice(kinds)()

    def number(self) -> int:
        self.n += 1
        return self.n

    def task(self) -> None:
        size = self.dice.choice([0, 100, 20_000, 200_000])
        ref = double.remote(np.full(size, 1.5)) if size else double.remote(4)
        for _ in range(self.dice.randrange(3)):
            ref = double.remote(ref)
        self.awaited.append((ref, None))

    def nest(self) -> None:
        n = self.dice.randrange(1, 5)
        self.awaited.append((nested.remote(double, n), [2 * i for i in range(n)]))

    def make(self) -> None:
        dice = self.dice
        path, may_repeat = str(self.path / f"log{self.number()}"), dice.random() < 0.3
        other = [dice.choice(self.actors)[0]] if self.actors and dice.random() < 0.5 else None
        n_cpus = dice.choice([0, 0, 0.1])  # leaves room for tasks: none are taken back here
        actor = Log.options(
            max_restarts=dice.choice([0, 1, -1]), max_task_retries=3 if may_repeat else 0, num_cpus=n_cpus
        ).remote(path, other)
        self.actors.append((actor, path, may_repeat))
        if not may_repeat:
            self.once.append(path)

    def call(self) -> None:
        if not self.actors:
            return
        (actor, _, _), dice = self.dice.choice(self.actors), self.dice
        ballast = dice.choice([None, None, np.ones(20_000), cm.put(np.ones(30_000))])
        for _ in range(dice.randrange(1, 8)):
            i = self.number()
            self.awaited.append((actor.note.remote("here", i, ballast), ("here", i)))

    def call_there(self) -> None:
        if self.actors:
            actor, _, _ = self.dice.choice(self.actors)
            who, n = f"caller{self.number()}", self.dice.randrange(1, 8)
            self.awaited.append((call_from.remote([actor], who, n), [(who, i) for i in range(n)]))

    def pass_on(self) -> None:
        if self.actors:
            i = self.number()
            self.awaited.append((self.dice.choice(self.actors)[0].hand_on.remote(i), None))

    def stream(self) -> None:
        dice, n = self.dice, self.dice.randrange(12)
        if self.actors and dice.random() < 0.4:
            self.streams.append((dice.choice(self.actors)[0].items.remote(n), n))
        else:
            limit = dice.choice([None, 1, 3])
            self.streams.append(
                (count.options(generator_backpressure_num_objects=limit).remote(n, dice.choice([1, 20_000])), n)
            )

    def read(self) -> None:
        if self.streams:
            stream, n = self.dice.choice(self.streams)
            for _ in range(self.dice.randrange(4)):
                self.take(stream)
            if self.dice.random() < 0.3:
                self.streams.remove((stream, n))

    def take(self, stream: Any) -> bool:
        try:
            item = cm.get(stream.next(timeout=30), timeout=30)
            assert isinstance(item, int) or item[1][0] >= 0
        except StopIteration:
            return False
        except MISHAPS:
            return False
        return True

    def drain(self, stream: Any, n: int) -> None:
        assert sum(self.take(stream) for _ in range(n + 2)) <= n

    def kill(self) -> None:
        if self.actors:
            cm.kill(self.dice.choice(self.actors)[0], no_restart=self.dice.random() < 0.5)

    def cancel(self) -> None:
        if self.awaited:
            cm.cancel(self.dice.choice(self.awaited)[0])

    def drop(self) -> None:
        if self.actors:
            self.actors.remove(self.dice.choice(self.actors))
        if self.awaited and self.dice.random() < 0.3:
            self.awaited.remove(self.dice.choice(self.awaited))

    def save(self) -> None:
        if self.actors:
            self.dice.choice(self.actors)[0].save.remote()

    def look(self) -> None:
        if self.awaited:
            self.settle(*self.awaited.pop(self.dice.randrange(len(self.awaited))))

    def kill_worker(self) -> None:
        with self.them.lock:
            machine = self.them.machines[self.dice.choice(list(self.them.machines))]
            pids = sorted(row["pid"] for row in machine.client.clients() if row["role"] == "worker")
        if pids:
            with suppress(ProcessLookupError):  # it was ending anyway
                os.kill(self.dice.choice(pids), signal.SIGKILL)

    def settle(self, ref: Any, value: Any) -> None:
        try:
            found = cm.get(ref, timeout=30)
            if isinstance(found, list):
                for each, expected in zip(found, value, strict=True):
                    self.settle(each, expected)
            else:
                assert value is None or found == value, (found, value)
        except MISHAPS:
            pass

    def check_logs(self) -> None:
        for path in self.once:
            calls = defaultdict(list)
            for line in Path(path).read_text().splitlines() if os.path.exists(path) else ():
                who, i = line.rsplit(" ", 1)
                calls[who].append(int(i))
            for who, numbers in calls.items():
                assert who == "handed on" or numbers == sorted(set(numbers)), (path, who, numbers)

    def left(self) -> dict[str, Any]:
        left: dict[str, Any] = {}
        self.them.sweep(100.0)
        with self.them.lock:
            for here, machine in self.them.machines.items():
                for there, peer in machine.peers.items():
                    objects, actors, streams = peer.objects, peer.actors, peer.streams
                    parts = {
                        "tasks_out": peer.tasks_out._tasks,
                        "tasks_in": peer.tasks_in._tasks,
                        "imports": objects._imports,
                        "told": objects._told,
                        "held": dict(objects._held),
                        "coming": peer.tasks_out._coming,
                        "here": actors._here,
                        "there": actors._there,
                        "lives": actors._lives,
                        "lines": actors._lines,
                        "given": actors._given,
                        "saved": actors._saved,
                        "streams_out": streams._streams_out,
                        "streams_in": streams._streams_in,
                        "arrivals": peer.transfers._arrivals,
                    }
                    if actors._nothing is not None:
                        del parts["held"][actors._nothing]
                    left |= {f"{what} in {here} of {there}": repr(part)[:300] for what, part in parts.items() if part}
                actors = [row for row in machine.client.actors() if row["state"] != "dead"]
                left |= {f"actors in {here}": actors} if actors else {}
                left |= {f"lineage in {here}": machine.lineage._held} if machine.lineage._held else {}
        return left


@pytest.mark.timeout(max(120, 20 * N_SEEDS))
@pytest.mark.parametrize("seed", range(N_SEEDS))
def test_a_storm(seed: int, tmp_path: Path) -> None:
    dice = random.Random(-seed)
    n = dice.choice([3, 3, 4])
    with machines(n, cpus_at_home=dice.choice([0, 0, 1])) as them:
        them.machines["a"].most = dice.choice([2, 8, 64])
        storm = Storm(seed, them, tmp_path)
        lost = dict(zip(dice.sample(range(N_STEPS), n - 2), "bcd", strict=False))
        for at in range(N_STEPS):
            storm.step()
            if at in lost and dice.random() < 0.7:
                them.part(lost[at])
            assert them.error is None
        while storm.awaited:
            storm.settle(*storm.awaited.pop())
        while storm.streams:
            storm.drain(*storm.streams.pop())
        storm.check_logs()
        storm.actors.clear()
        current().client.flush()
        try:
            wait_until(lambda: not storm.left(), 30)
        except AssertionError:
            raise AssertionError(f"left: {storm.left()}") from None
        assert not them.faults
