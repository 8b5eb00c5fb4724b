"""What only a real Dask shows of actors: workers that die under them, threads that they keep or give back."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cellmesh.scheduler.system import processes
from engines.clusters import Cluster
from support.flags import Flag
from support.waiting import wait_until

import cellmesh
from cellmesh.exceptions import ActorDiedError, ActorUnavailableError, ObjectLostError
from cellmesh.session.current import current

PATIENCE_S = 30.0
Start = Callable[..., Cluster]


class Counter:
    def __init__(self) -> None:
        self.n, self.saved = cellmesh.load_checkpoint(default=(0, np.zeros(0)))

    def add(self) -> int:
        self.n += 1
        return self.n

    def save(self) -> None:
        cellmesh.save_checkpoint((self.n, np.ones(1 << 17)))

    def where(self) -> tuple[int, int]:
        return os.getpid(), os.getppid()

    def wait(self, begun: Flag, goes_on: Flag) -> None:
        begun.set()
        goes_on.wait()


@cellmesh.remote
def one() -> int:
    return 1


def get(what: Any) -> Any:
    return cellmesh.get(what, timeout=PATIENCE_S)


def is_there(pid: int) -> bool:
    """Whether it runs: where it has no parent any more, nobody may have taken note of its end."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_one_whose_worker_dies_begins_again_with_its_checkpoint(on_dask: Start, tmp_path: Path) -> None:
    on_dask()
    counter = cellmesh.remote(Counter).options(max_restarts=1).remote()
    get([counter.add.remote(), counter.save.remote()])
    begun, never = Flag(tmp_path / "begun"), Flag(tmp_path / "never")
    actor, worker = get(counter.where.remote())
    waits = counter.wait.remote(begun, never)
    begun.wait()
    os.kill(worker, signal.SIGKILL)
    with pytest.raises(ActorUnavailableError):
        get(waits)
    assert get(counter.add.remote()) == 2
    wait_until(lambda: not is_there(actor), PATIENCE_S)
    os.kill(get(counter.where.remote())[1], signal.SIGKILL)
    with pytest.raises(ActorDiedError, match="machine where it lived was lost"):
        wait_until(lambda: get(counter.add.remote()) < 0, PATIENCE_S)


def test_one_whose_argument_is_lost_is_told(on_dask: Start) -> None:
    on_dask()

    @cellmesh.remote(max_retries=0)
    def make() -> tuple[int, np.ndarray]:
        return os.getpid(), np.ones(1 << 17)

    @cellmesh.remote
    class Holds:
        def __init__(self, made: tuple[int, np.ndarray]) -> None:
            self.made = made

        def total(self) -> float:
            return float(self.made[1].sum())

    ref = make.options(num_returns=1).remote()
    os.kill(get(ref)[0], signal.SIGKILL)
    holds = Holds.remote(ref)
    with pytest.raises(ObjectLostError, match="argument of the actor is gone"):
        get(holds.total.remote())


def test_it_gives_its_thread_back_or_keeps_it(on_dask: Start) -> None:
    on_dask(n_workers=1)
    counters = cellmesh.remote(Counter)
    idle = counters.remote()
    assert get(idle.add.remote()) == 1
    assert get(one.remote()) == 1
    keeps = counters.options(num_cpus=1).remote()
    assert get([keeps.add.remote(), idle.add.remote()]) == [1, 2]
    waits = one.remote()
    assert cellmesh.wait([waits], timeout=0.5)[0] == []
    del keeps
    assert get(waits) == 1


def test_what_it_makes_comes_while_actors_keep_all_threads(on_dask: Start) -> None:
    on_dask(n_workers=1)

    @cellmesh.remote(num_cpus=1)
    class Makes:
        def make(self, n: int) -> np.ndarray:
            return np.ones(n)

        def total(self, values: np.ndarray) -> float:
            return float(values.sum())

    makes = Makes.remote()
    ref = makes.make.remote(1 << 17)
    assert get(ref).sum() == 1 << 17
    assert get(makes.total.remote(ref)) == 1 << 17


def test_it_ends_with_what_stands_for_the_engine_and_its_thread_is_free(on_dask: Start) -> None:
    on_dask(n_workers=1)
    lost = cellmesh.remote(Counter).options(num_cpus=1).remote()
    pid, _ = get(lost.where.remote())
    found = processes.session_processes(current().node.session_id)
    os.kill(next(pid for pid in found if processes.name_of(pid) == "cellmesh-engine"), signal.SIGKILL)
    wait_until(lambda: not is_there(pid), PATIENCE_S)
    with pytest.raises(ActorDiedError, match="machine where it lived was lost"):
        get(lost.add.remote())
    again = cellmesh.remote(Counter).options(num_cpus=1).remote()
    assert get(again.add.remote()) == 1


def test_one_that_waits_for_a_thread_is_killed(on_dask: Start) -> None:
    on_dask(n_workers=1)
    counters = cellmesh.remote(Counter).options(num_cpus=1)
    keeps = counters.remote()
    assert get(keeps.add.remote()) == 1
    waits = counters.remote()
    ref = waits.add.remote()
    cellmesh.kill(waits)
    with pytest.raises(ActorDiedError):
        get(ref)
    assert get(keeps.add.remote()) == 2


def test_dask_keeps_nothing_of_actors_that_have_ended(on_dask: Start) -> None:
    cluster = on_dask()
    counters = [cellmesh.remote(Counter).remote() for _ in range(3)]
    pids = [get(counter.where.remote())[0] for counter in counters]
    cellmesh.kill(counters.pop())
    counters.clear()
    wait_until(lambda: not any(is_there(pid) for pid in pids), PATIENCE_S)
    wait_until(lambda: cluster.ask("n_tasks") == "0", deadline=PATIENCE_S)
    wait_until(lambda: cluster.ask("n_queues") == "1", deadline=PATIENCE_S)  # of what hosts tell
