"""Actors that live on another machine than their home: real segments, schedulers and workers; only the network is a
queue.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cellmesh.scheduler.cluster import messages
from cluster.one_process.machines import Machines, machines
from support.waiting import wait_until

import cellmesh as cm
from cellmesh import exceptions
from cellmesh.session.current import current

pytestmark = pytest.mark.filterwarnings("ignore::cellmesh.exceptions.InfeasibleResourcesWarning")


@cm.remote
class Counter:
    def __init__(self, start: int = 0) -> None:
        self.n = start

    def add(self, by: int = 1) -> int:
        self.n += by
        return self.n

    def add_when_open(self, gate: Path, caller: int) -> int:
        (gate.parent / f"{caller} has called").touch()
        wait_until(gate.exists, 20)
        return self.add()

    def where(self) -> int:
        return os.getpid()

    def fail(self) -> None:
        raise KeyError("no such thing")

    def large(self) -> Any:
        return np.arange(100_000.0)

    def leave(self) -> None:
        cm.exit_actor()

    def me(self) -> list[Any]:
        return [cm.get_runtime_context().current_actor]

    def die(self) -> None:
        os._exit(3)

    def end(self, status: int) -> None:
        sys.exit(status)


def workers(them: Machines, name: str) -> set[int]:
    return {row["pid"] for row in them.machines[name].client.clients() if row["role"] == "worker"}


def test_an_actor_lives_there_and_its_calls_come_back_in_order(two: Machines) -> None:
    counter = Counter.remote(5)
    assert cm.get([counter.add.remote() for _ in range(500)]) == list(range(6, 506))
    assert cm.get(counter.where.remote()) in workers(two, "b")


def test_calls_wait_at_home_while_the_other_does_not_read(two: Machines) -> None:
    counter = Counter.remote()
    assert cm.get(counter.add.remote()) == 1
    with two.lock:
        peer = two.machines["a"].peers["b"]
        send, n_sent = peer._send, []

        def congested(message: Any, frame: Any) -> None:
            n_sent.append(len(message.tasks))
            peer.is_congested = True
            send(message, frame)

        peer._send = congested
        calls = [counter.add.remote() for _ in range(messages.MOST_AT_ONCE * 3)]
        peer.look()
        peer.look()
        peer._send = send
        assert n_sent == [messages.MOST_AT_ONCE]
        peer.is_congested = False
        peer.look()
    assert cm.get(calls) == list(range(2, len(calls) + 2))


def test_errors_and_large_values_come_back(two: Machines) -> None:
    counter = Counter.remote()
    with pytest.raises(KeyError, match="no such thing"):
        cm.get(counter.fail.remote())
    assert cm.get(counter.large.remote()).sum() == 4_999_950_000.0
    assert cm.get(counter.add.remote(cm.put(2))) == 2


def test_a_constructor_that_fails_fails_every_call(two: Machines) -> None:
    @cm.remote
    class Broken:
        def __init__(self) -> None:
            raise ValueError("cannot begin")

        def call(self) -> None:
            pass

    broken = Broken.remote()
    for _ in range(2):
        with pytest.raises(exceptions.CellmeshError, match="cannot begin"):
            cm.get(broken.call.remote())


def test_the_last_handle_ends_it_after_its_calls(two: Machines) -> None:
    counter = Counter.remote()
    refs = [counter.add.remote() for _ in range(20)]
    pid = cm.get(counter.where.remote())
    del counter
    assert cm.get(refs) == list(range(1, 21))
    wait_until(lambda: pid not in workers(two, "b"), 20)
    wait_until(lambda: not two.machines["b"].client.actors() and not two.machines["a"].client.actors(), 20)


def test_kill_ends_it_there(two: Machines) -> None:
    counter = Counter.remote()
    pid = cm.get(counter.where.remote())
    cm.kill(counter)
    with pytest.raises(exceptions.ActorDiedError, match="ended by kill"):
        cm.get([counter.add.remote() for _ in range(3)])
    wait_until(lambda: pid not in workers(two, "b"), 20)


def test_one_that_dies_there_starts_again_with_the_calls_that_had_not_begun(two: Machines) -> None:
    counter = Counter.options(max_restarts=1).remote(10)
    assert cm.get(counter.add.remote()) == 11
    refs = [counter.die.remote(), *(counter.add.remote() for _ in range(50))]
    with pytest.raises(exceptions.ActorUnavailableError):
        cm.get(refs[0])
    assert cm.get(refs[1:]) == list(range(11, 61))
    with pytest.raises(exceptions.ActorDiedError, match="status 3"):
        cm.get(counter.die.remote())
    with pytest.raises(exceptions.ActorDiedError):
        cm.get(counter.add.remote())


def test_one_whose_constructor_raises_when_it_starts_again_says_so(two: Machines, tmp_path: Path) -> None:
    @cm.remote(max_restarts=3)
    class BeginsOnce:
        def __init__(self) -> None:
            try:
                (tmp_path / "begun").touch(exist_ok=False)
            except FileExistsError:
                raise ValueError("no data any more") from None

        def where(self) -> int:
            return os.getpid()

        def die(self) -> None:
            os._exit(3)

    once = BeginsOnce.remote()
    assert cm.get(once.where.remote()) in workers(two, "b")
    with pytest.raises(exceptions.ActorUnavailableError):
        cm.get(once.die.remote())
    for _ in range(2):
        with pytest.raises(exceptions.ActorDiedError, match="no data any more") as raised:
            cm.get(once.where.remote())
        assert isinstance(raised.value.cause, ValueError)


def test_calls_that_had_begun_are_repeated_if_they_may(two: Machines, tmp_path: Any) -> None:
    @cm.remote(max_restarts=-1, max_task_retries=1)
    class Once:
        def dies_once(self) -> int:
            try:
                (tmp_path / "died").touch(exist_ok=False)
            except FileExistsError:
                return os.getpid()
            os._exit(1)

    once = Once.remote()
    assert cm.get(once.dies_once.remote()) in workers(two, "b")


def test_a_call_from_a_third_machine_takes_its_time(three: Machines, tmp_path: Path) -> None:
    counter, gate = Counter.options(max_concurrency=2).remote(), tmp_path / "gate"
    assert cm.get(counter.add.remote()) == 1
    three.machines["a"].most = 1

    @cm.remote(num_cpus=2)
    def ask(actors: list[Any]) -> tuple[int, int]:
        (tmp_path / f"{os.getpid()} runs").touch()
        wait_until(lambda: len(list(tmp_path.glob("* runs"))) == 2, 20)
        return os.getpid(), cm.get(actors[0].add_when_open.remote(gate, os.getpid()))

    asked = [ask.remote([counter]) for _ in range(2)]
    wait_until(lambda: len(list(tmp_path.glob("* has called"))) == 2, 20)
    three.sweep()  # what runs for a while is told of
    gate.touch()
    (one, _), (other, _) = found = cm.get(asked, timeout=20)
    assert sorted(n for _, n in found) == [2, 3] and {one in workers(three, "b"), other in workers(three, "b")} == {
        True,
        False,
    }
    assert three.error is None


def test_a_kill_that_lets_it_start_again(two: Machines) -> None:
    counter = Counter.options(max_restarts=1).remote()
    pid = cm.get(counter.where.remote())
    cm.kill(counter, no_restart=False)
    wait_until(lambda: pid not in workers(two, "b"), 20)
    again = cm.get(counter.where.remote())
    assert again != pid and cm.get(counter.add.remote()) == 1


def test_exit_actor_is_for_good(two: Machines) -> None:
    counter = Counter.options(max_restarts=5).remote()
    cm.get(counter.add.remote())
    counter.leave.remote()
    wait_until(lambda: two.machines["a"].client.actors()[0]["state"] == "dead", 20)
    with pytest.raises(exceptions.ActorDiedError, match="it has ended itself"):
        cm.get(counter.add.remote())


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [(0, exceptions.ActorDiedError, "it has ended itself"), (5, exceptions.ActorUnavailableError, "while it ran")],
)
def test_sys_exit_ends_it_there(two: Machines, status: int, error: type[Exception], words: str) -> None:
    counter = Counter.options(max_restarts=1).remote(3)
    assert cm.get(counter.add.remote()) == 4
    with pytest.raises(error, match=words):
        cm.get(counter.end.remote(status))
    if status:
        assert cm.get(counter.add.remote()) == 4


def test_sys_exit_of_a_task_there_is_as_here(two: Machines, tmp_path: Path) -> None:
    @cm.remote(num_cpus=2, max_retries=1)
    def end() -> None:
        (tmp_path / str(os.getpid())).touch()
        sys.exit(4)

    with pytest.raises(exceptions.WorkerCrashedError, match="ended with exit status 4"):
        cm.get(end.remote())
    assert len(list(tmp_path.iterdir())) == 2


def test_one_that_refuses_calls_while_it_starts_again(
    two: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cellmesh.front_end.dialect.refuses_while_restarting", True)
    counter = Counter.options(max_restarts=1).remote()
    assert cm.get(counter.add.remote()) == 1
    began, queued, repeated = (
        counter.die.remote(),
        counter.add.remote(),
        counter.add.options(max_task_retries=1).remote(),
    )
    for ref, words in ((began, "while it ran"), (queued, "The actor is restarting")):
        with pytest.raises(exceptions.ActorUnavailableError, match=words):
            cm.get(ref)
    assert cm.get(repeated) == 1


def test_a_handle_that_travels_reaches_the_same_actor(two: Machines) -> None:
    @cm.remote
    def add_there(counter: Any, n: int) -> list[int]:
        return cm.get([counter.add.remote() for _ in range(n)])

    counter = Counter.remote()
    assert cm.get(add_there.remote(counter, 10)) == list(range(1, 11))
    assert cm.get(counter.add.remote()) == 11
    assert cm.get(add_there.remote([counter][0], 5)) == list(range(12, 17))


def test_an_actor_at_home_is_called_from_there() -> None:
    with machines(2, cpus_at_home=1) as them:
        here = Counter.remote()
        pid = cm.get(here.where.remote())

        @cm.remote(num_cpus=2)
        def call_it(counters: list[Any]) -> tuple[int, int]:
            return cm.get(counters[0].add.remote(7)), cm.get(counters[0].where.remote())

        assert cm.get(call_it.remote([here])) == (7, pid) and pid in workers(them, "a")


def test_an_actor_made_there_is_called_from_here(two: Machines) -> None:
    @cm.remote
    def make() -> Any:
        return Counter.remote(100)

    counter = cm.get(make.remote())
    assert cm.get([counter.add.remote() for _ in range(5)]) == [101, 102, 103, 104, 105]
    pid = cm.get(counter.where.remote())
    assert pid in workers(two, "b")
    del counter
    wait_until(lambda: pid not in workers(two, "b"), 20)


def test_async_and_concurrent_actors(two: Machines) -> None:
    @cm.remote(max_concurrency=4)
    class Meeting:
        def __init__(self) -> None:
            import threading

            self.all_here = threading.Barrier(4)

        def meet(self) -> int:
            return self.all_here.wait(20)

    @cm.remote
    class Turns:
        def __init__(self) -> None:
            import asyncio

            self.turn = asyncio.Event()

        async def wait(self) -> str:
            await self.turn.wait()
            return "go"

        async def go(self) -> None:
            self.turn.set()

    meeting, turns = Meeting.remote(), Turns.remote()
    assert sorted(cm.get([meeting.meet.remote() for _ in range(4)])) == [0, 1, 2, 3]
    waiting = [turns.wait.remote() for _ in range(20)]
    turns.go.remote()
    assert cm.get(waiting) == ["go"] * 20


def test_the_lost_machine_s_actor_starts_again_elsewhere(three: Machines) -> None:
    counter = Counter.options(max_restarts=-1, max_task_retries=-1).remote()
    pid = cm.get(counter.where.remote())
    there = "b" if pid in workers(three, "b") else "c"
    other = "c" if there == "b" else "b"
    three.part(there)
    assert cm.get(counter.where.remote()) in workers(three, other)
    assert cm.get(counter.add.remote()) == 1


def test_without_restarts_it_is_lost_with_its_machine(two: Machines) -> None:
    counter = Counter.remote()
    cm.get(counter.add.remote())
    two.part("b")
    with pytest.raises(exceptions.ActorDiedError, match="machine"):
        cm.get(counter.add.remote())


def test_many_calls_in_flight_do_not_lose_their_order(two: Machines) -> None:
    counter = Counter.remote()
    cm.get(counter.add.remote(0))
    late = cm.put(1)
    assert cm.get([counter.add.remote(late if i % 3 else 1) for i in range(10_000)]) == list(range(1, 10_001))
    assert not any(isinstance(message, messages.Returned) for message in two.seen)


@cm.remote(max_restarts=-1)
class Walk:
    def __init__(self) -> None:
        self.steps, self.path = cm.load_checkpoint(default=(0, np.zeros(1)))

    def step(self, n: int = 1) -> int:
        self.steps += n
        return int(self.steps)

    def save(self, size: int) -> int:
        cm.save_checkpoint((self.steps, np.full(size, float(self.steps))))
        return os.getpid()

    def look(self) -> tuple[int, float, int]:
        return self.steps, float(self.path[-1]), os.getpid()


@pytest.mark.parametrize("size", [1, 50_000, 3_000_000], ids=["small", "away", "chunks"])
def test_a_checkpoint_survives_the_machine(three: Machines, size: int) -> None:
    walk = Walk.remote()
    cm.get(walk.step.remote(3))
    first = cm.get(walk.save.remote(1))
    cm.get(walk.step.remote(4))
    cm.get(walk.save.remote(size))
    cm.get(walk.step.remote(100))
    home = three.machines["a"]
    there = "b" if first in workers(three, "b") else "c"

    def is_home() -> bool:
        with three.lock:
            remote_node = home.peers[there].remote_node
            slot = remote_node.actor(home.client.actors()[0]["slot"]).checkpoint
            return bool(
                slot >= 0 and remote_node.inspect(slot).size >= 8 * size and remote_node.inspect(slot).place == 0
            )

    wait_until(is_home, 20)
    three.part(there)
    steps, last, pid = cm.get(walk.look.remote())
    assert (steps, last) == (7, 7.0) and pid != first
    assert cm.get(walk.step.remote()) == 8


def test_a_checkpoint_comes_when_nobody_has_a_handle_any_more(two: Machines) -> None:
    walk, held_back = Walk.remote(), []

    def hold_back(here: str, there: str, message: Any) -> bool:
        is_one = isinstance(message, messages.Checkpoint)
        held_back.extend([message] if is_one else [])
        return is_one

    two.is_lost = hold_back
    cm.get(walk.save.remote(2))
    wait_until(lambda: held_back, 20)
    with two.lock:
        del walk
        current().client.flush()
        peer = two.machines["a"].peers["b"]
        peer.receive(held_back[0], b"", lambda: True)
        peer.look()
    wait_until(lambda: all(row["state"] == "dead" for row in two.machines["b"].client.actors()), 20)
    assert two.error is None


def test_a_checkpoint_survives_the_process(two: Machines) -> None:
    walk = Walk.remote()
    cm.get(walk.step.remote(5))
    pid = cm.get(walk.save.remote(2))
    cm.kill(walk, no_restart=False)
    wait_until(lambda: pid not in workers(two, "b"), 20)
    assert cm.get(walk.look.remote())[:2] == (5, 5.0)


def test_its_own_handle_that_comes_from_there_is_the_one_here(two: Machines) -> None:
    counter = Counter.options(max_restarts=1).remote()
    assert cm.get(counter.add.remote()) == 1
    (same,) = cm.get(counter.me.remote())
    assert same == counter
    with pytest.raises(exceptions.ActorUnavailableError):
        cm.get(same.die.remote(), timeout=20)
    assert cm.get([same.add.remote(), counter.add.remote()], timeout=20) == [1, 2]
    pid = cm.get(same.where.remote())
    del counter
    assert cm.get(same.add.remote()) == 3
    del same
    wait_until(lambda: pid not in workers(two, "b"), 20)
    wait_until(lambda: not two.machines["b"].client.actors() and not two.machines["a"].client.actors(), 20)
