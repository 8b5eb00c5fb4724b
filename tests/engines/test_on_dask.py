"""What only a real Dask shows: workers that die and come, a scheduler that goes. Collected where `distributed` is."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from cellmesh.scheduler.system import processes
from engines.clusters import Cluster
from support.flags import Counter, Flag
from support.waiting import wait_until

import cellmesh
from cellmesh.engines import pocket
from cellmesh.exceptions import EngineUnreachableError, NodeDiedError, TaskCancelledError, WorkerCrashedError
from cellmesh.session.current import current

PATIENCE_S = 30.0
LARGE = 1 << 17  # numbers, a megabyte: no parcel takes so much

Start = Callable[..., Cluster]


def endless() -> Iterator[np.ndarray]:
    while True:
        yield np.ones(LARGE)


def cpus_there() -> float:
    """How many the engine has; 0: it is not there yet."""
    return sum(node["Resources"].get("CPU", 0.0) for node in cellmesh.nodes()[1:])


@pytest.mark.parametrize(("max_retries", "size"), [(0, 0), (1, LARGE), (3, 0), (4, LARGE)])
def test_what_kills_its_worker_runs_as_often_as_it_may(
    on_dask: Start, tmp_path: Path, max_retries: int, size: int
) -> None:
    on_dask()

    @cellmesh.remote(max_retries=max_retries)
    def die(runs: Counter, values: np.ndarray) -> None:
        runs.add()
        os.kill(os.getpid(), signal.SIGKILL)

    runs = Counter(tmp_path / "runs")
    with pytest.raises(WorkerCrashedError):
        cellmesh.get(die.remote(runs, np.zeros(size)), timeout=3 * PATIENCE_S)
    assert 1 <= runs.value <= max_retries + 1


def test_a_task_whose_worker_died_once_runs_again(on_dask: Start, tmp_path: Path) -> None:
    on_dask()

    @cellmesh.remote(max_retries=1)
    def die_once(runs: Counter, values: np.ndarray) -> float:
        if runs.add() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return float(values.sum())

    runs = Counter(tmp_path / "runs")
    assert cellmesh.get(die_once.remote(runs, np.ones(LARGE)), timeout=PATIENCE_S) == LARGE
    assert runs.value == 2


def test_dask_keeps_nothing_that_is_not_needed(on_dask: Start, tmp_path: Path) -> None:
    cluster = on_dask()
    goes_on = Flag(tmp_path / "goes_on")

    @cellmesh.remote
    def make(n: int) -> np.ndarray:
        return np.ones(n)

    @cellmesh.remote(max_retries=0)
    def total(values: np.ndarray) -> float:
        return float(values.sum())

    @cellmesh.remote
    def slow() -> None:
        goes_on.wait()

    made = [make.remote(LARGE), cellmesh.put(np.ones(LARGE))]
    assert cellmesh.get([total.remote(ref) for ref in made], timeout=PATIENCE_S) == [LARGE, LARGE]
    assert int(cluster.ask("n_tasks"))
    del made
    wait_until(lambda: cluster.ask("n_tasks") == "0", deadline=PATIENCE_S)
    blocks = [slow.remote() for _ in range(4)]
    wait_until(lambda: cluster.ask("n_tasks") == "4", deadline=PATIENCE_S)
    cellmesh.cancel(blocks.pop())
    wait_until(lambda: cluster.ask("n_tasks") == "3", deadline=PATIENCE_S)
    cellmesh.shutdown()
    wait_until(lambda: cluster.ask("n_tasks") == "0", deadline=PATIENCE_S)
    goes_on.set()


def test_dask_keeps_nothing_of_a_generator_that_has_ended(on_dask: Start) -> None:
    cluster = on_dask()
    items = cellmesh.remote(endless).options(num_returns="streaming", generator_backpressure_num_objects=2).remote()
    refs = [next(items) for _ in range(4)]
    assert [len(cellmesh.get(ref, timeout=PATIENCE_S)) for ref in refs] == [LARGE] * 4
    del items, refs
    wait_until(lambda: cluster.ask("n_tasks") == "0", deadline=PATIENCE_S)
    wait_until(lambda: cluster.ask("n_queues") == "1", deadline=PATIENCE_S)  # of what all tell


def test_a_generator_that_waits_for_its_reader_ends_with_what_stands_for_the_engine(on_dask: Start) -> None:
    on_dask(n_workers=1)
    generator = cellmesh.remote(endless).options(
        num_returns="streaming", generator_backpressure_num_objects=1, max_retries=0
    )
    items = generator.remote()
    assert len(cellmesh.get(next(items), timeout=PATIENCE_S)) == LARGE
    found = processes.session_processes(current().node.session_id)
    os.kill(next(pid for pid in found if processes.name_of(pid) == "cellmesh-engine"), signal.SIGKILL)
    with pytest.raises(NodeDiedError):
        cellmesh.get(list(items), timeout=PATIENCE_S)
    assert cellmesh.get(cellmesh.remote(os.getpid).remote(), timeout=PATIENCE_S) != os.getpid(), "its thread is free"


def test_workers_come_and_go(on_dask: Start) -> None:
    cluster = on_dask()
    wait_until(lambda: cpus_there() == 2.0, deadline=PATIENCE_S)
    cluster.do("scale", n=3)
    wait_until(lambda: cpus_there() == 3.0, deadline=PATIENCE_S)
    cluster.do("scale", n=1)
    wait_until(lambda: cpus_there() == 1.0, deadline=PATIENCE_S)


def test_what_workers_declare_is_what_tasks_may_ask_for(on_dask: Start) -> None:
    on_dask(n_workers=1, threads_per_worker=2, resources={"GPU": 1})

    @cellmesh.remote(num_gpus=1, num_cpus=2)
    def where() -> int:
        return os.getpid()

    assert cellmesh.get(where.remote(), timeout=PATIENCE_S) != os.getpid()


def test_tasks_of_a_worker_with_threads_take_turns(on_dask: Start, tmp_path: Path) -> None:
    on_dask(n_workers=1, threads_per_worker=4)

    @cellmesh.remote
    def alone(folder: Path) -> int:
        mine = folder / "mine"
        mine.touch(exist_ok=False)  # nobody else is here
        print("it is me")
        mine.unlink()
        return 1

    assert sum(cellmesh.get([alone.remote(tmp_path) for _ in range(50)], timeout=PATIENCE_S)) == 50


def test_a_cluster_without_workers_grows_for_tasks(on_dask: Start) -> None:
    cluster = on_dask(n_workers=0)
    cluster.do("adapt", minimum=0, maximum=1, interval="100ms")

    @cellmesh.remote
    def total(values: np.ndarray) -> float:
        return float(values.sum())

    assert cellmesh.get(total.remote(np.ones(LARGE)), timeout=PATIENCE_S) == LARGE


def test_a_scheduler_that_goes_is_told(on_dask: Start) -> None:
    cluster = on_dask(init={"num_cpus": 1})

    @cellmesh.remote(num_cpus=1)
    def here() -> int:
        return 1

    @cellmesh.remote(num_gpus=1)
    def there() -> int:
        return 2

    assert cellmesh.get(here.remote(), timeout=PATIENCE_S) == 1
    cluster.end()
    wait_until(lambda: current().engine.lost, deadline=PATIENCE_S)
    with pytest.raises(EngineUnreachableError, match="'there' asks for more than this machine has"):
        there.remote()
    assert cellmesh.get(here.remote(), timeout=PATIENCE_S) == 1


def test_init_says_that_there_is_no_scheduler() -> None:
    with pytest.raises(EngineUnreachableError, match=r"no Dask scheduler at dask://127\.0\.0\.1:1"):
        cellmesh.init(address="dask://127.0.0.1:1", object_store_memory=64 << 20)
    assert not cellmesh.is_initialized()


def test_what_is_cancelled_while_it_runs_is_not_waited_for(on_dask: Start, tmp_path: Path) -> None:
    on_dask()
    begun, goes_on, ended = (Flag(tmp_path / name) for name in ("begun", "goes_on", "ended"))

    @cellmesh.remote
    def slow() -> None:
        begun.set()
        goes_on.wait()
        ended.set()

    ref = slow.remote()
    begun.wait()
    cellmesh.cancel(ref)
    with pytest.raises(TaskCancelledError):
        cellmesh.get(ref, timeout=PATIENCE_S)
    goes_on.set()
    ended.wait()


def test_after_the_death_of_a_worker_quick_calls_run_alone_and_none_too_often(on_dask: Start, tmp_path: Path) -> None:
    on_dask()

    @cellmesh.remote
    def quick(folder: Path, n: int) -> int:
        if n >= 0:
            with (folder / str(n)).open("a") as runs:
                runs.write(f"{pocket._batch is not None}\n")
        if n == 7:
            os.kill(os.getpid(), signal.SIGKILL)
        return n

    cellmesh.get([quick.remote(tmp_path, -1) for _ in range(40)], timeout=3 * PATIENCE_S)
    refs = [quick.remote(tmp_path, n) for n in range(100)]
    with pytest.raises(WorkerCrashedError):
        cellmesh.get(refs[7], timeout=3 * PATIENCE_S)
    assert cellmesh.get(refs[:7] + refs[8:], timeout=3 * PATIENCE_S) == [n for n in range(100) if n != 7]
    runs = {n: (tmp_path / str(n)).read_text().split() for n in range(100)}
    assert len(runs[7]) == 4, "max_retries + 1"
    assert runs[7][0] == "True"
    assert all(found[1:].count("True") == 0 and len(found) <= 4 for found in runs.values())
