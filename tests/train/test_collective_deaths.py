"""A rank's process is killed, at each point of a collective: the others raise, and say whose it was."""

from __future__ import annotations

import os
import signal
from typing import Any

import numpy as np
import pytest
from support.waiting import wait_until

import cellmesh as cm
from cellmesh.exceptions import TaskCancelledError, WorkerCrashedError
from cellmesh.train.collective import CollectiveMemory, Communicator
from cellmesh.train.exceptions import GroupBrokenError, RankDiedError
from cellmesh.train.reductions import Reduction

pytestmark = pytest.mark.usefixtures("session")

LARGE = 200_000


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def between_collectives(comm: Communicator, is_victim: bool) -> None:
    if is_victim:
        die()
    comm.all_reduce(np.ones(LARGE))


def while_it_waits(comm: Communicator, is_victim: bool) -> None:
    comm.barrier() if is_victim else comm.recv(np.zeros(1), 1)  # the test kills it


def while_it_reduces(comm: Communicator, is_victim: bool) -> None:
    def add(a: Any, b: Any, *, out: Any) -> None:
        if is_victim:
            die()
        np.add(a, b, out=out)

    comm.all_reduce(np.ones(LARGE), Reduction("sum", add))


def in_the_middle_of_many(comm: Communicator, is_victim: bool) -> None:
    for i in range(100):
        if is_victim and i == 50:
            die()
        comm.all_reduce(np.ones(1000))


def while_it_sends(comm: Communicator, is_victim: bool) -> None:
    if is_victim:
        die()
    comm.recv(np.ones(LARGE), 1)


@cm.remote(max_retries=0)
def run(phase: Any, memory: CollectiveMemory, rank: int, begun: Any) -> tuple[str, int, int]:
    """The error that a rank gets: its kind, the rank that it names, its pid."""
    comm = Communicator(memory, rank)
    pids = np.zeros(comm.n_ranks, np.int64)
    comm.all_gather(pids, np.array([os.getpid()]))
    begun[rank] = os.getpid()
    try:
        phase(comm, rank == 1)
    except RankDiedError as error:
        assert error.pid == pids[error.rank]
        assert f"rank {error.rank} (process {error.pid}) died" in str(error)
        return type(error).__name__, error.rank, error.pid
    return "", -1, -1


@pytest.mark.parametrize(
    "phase", [between_collectives, while_it_waits, while_it_reduces, in_the_middle_of_many, while_it_sends]
)
@pytest.mark.parametrize("n", [2, 3])
def test_the_others_are_told_whose_process_died(phase: Any, n: int) -> None:
    memory = CollectiveMemory(n)
    begun = cm.shared_array(n, int)
    refs = [run.remote(phase, memory, rank, begun) for rank in range(n)]
    if phase is while_it_waits:
        wait_until(lambda: begun.all() and memory.all.barrier.n_waiting == 1)
        os.kill(int(begun[1]), signal.SIGKILL)
    with pytest.raises(WorkerCrashedError):
        cm.get(refs[1])
    for rank in {*range(n)} - {1}:
        kind, who, _ = cm.get(refs[rank], timeout=20)
        assert (kind, who) == ("RankDiedError", 1)


def test_a_rank_that_is_cancelled_ends_the_waiting_of_the_others() -> None:
    @cm.remote
    def wait(memory: CollectiveMemory, rank: int, begun: Any) -> str:
        comm = Communicator(memory, rank)
        begun[rank] = 1
        try:
            comm.recv(np.zeros(1), 1) if rank == 0 else comm.recv(np.zeros(1), 2) if rank == 1 else comm.barrier()
        except GroupBrokenError as error:
            return str(error)
        return ""

    memory, begun = CollectiveMemory(3), cm.shared_array(3, int)
    refs = [wait.remote(memory, rank, begun) for rank in range(3)]
    wait_until(lambda: begun[:2].all())
    cm.cancel(refs[2])
    with pytest.raises(TaskCancelledError):
        cm.get(refs[2])
    memory.abort()  # which whoever runs ranks does when one has ended
    assert "barrier" not in cm.get(refs[0], timeout=20)
    assert "message" in cm.get(refs[1], timeout=20)


def test_a_rank_that_is_interrupted_in_a_collective_ends_the_waiting_of_the_others() -> None:
    @cm.remote
    def wait(memory: CollectiveMemory, rank: int) -> str:
        comm = Communicator(memory, rank)
        if rank == 2:
            return "does not come"
        with pytest.raises(GroupBrokenError) as told:
            comm.barrier()
        return str(told.value)

    memory = CollectiveMemory(3)
    refs = [wait.remote(memory, rank) for rank in range(3)]
    wait_until(lambda: len(memory.waits()) == 2)
    cm.cancel(refs[1])
    with pytest.raises(TaskCancelledError):
        cm.get(refs[1])
    assert "another rank has left the group" in cm.get(refs[0], timeout=20)
