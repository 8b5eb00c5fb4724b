"""Idle means idle: after every kind of work no process of the session runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest
from cellmesh.scheduler.local_scheduler import oom
from cellmesh.scheduler.system import memory, processes
from support.waiting import wait_until_at_rest

import cellmesh
from cellmesh.session.current import current

pytestmark = pytest.mark.timeout(120)
MB = 1 << 20
kept: list[object] = []  # what is there still while the session rests


@pytest.fixture
def cm() -> Iterator[ModuleType]:
    """A session that must come to rest after the test, its driver included."""
    cellmesh.init(num_cpus=2, object_store_memory=1 << 30)
    yield cellmesh
    wait_until_session_is_at_rest()
    kept.clear()
    cellmesh.shutdown()


def wait_until_session_is_at_rest() -> None:
    wait_until_at_rest(lambda: [os.getpid(), *processes.session_processes(current().node.session_id)])


def test_while_others_have_filled_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    share = max((usage.used + 200 * MB) / usage.total for usage in memory.usages())
    monkeypatch.setenv(oom.VARIABLE, str(share))
    cellmesh.init(num_cpus=1)
    try:
        assert cellmesh.get(cellmesh.remote(lambda: 1).remote()) == 1
        wait_until_session_is_at_rest()
    finally:
        cellmesh.shutdown()


def test_after_a_peak_with_small_values_among_large_ones(cm: ModuleType) -> None:
    client = current().client
    large, small = [], []
    for i in range(50):
        large.append(cm.put(np.ones(16 * MB, np.uint8)))
        small += [cm.put(bytes([i]) * 3000) for _ in range(40)]
    del large[:], small[::2]
    client.flush()
    assert len(small) == 1000


def test_after_objects_went_to_disk(cm: ModuleType) -> None:
    refs = [cm.put(np.full(100 * MB, i, np.uint8)) for i in range(14)]
    assert [int(cm.get(ref)[0]) for ref in refs] == list(range(14))


def test_after_errors_cancels_and_lost_workers(cm: ModuleType) -> None:
    @cm.remote(max_retries=0)
    def does(what: str) -> None:
        if what == "fails":
            raise ValueError(what)
        if what == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        while what == "runs":
            time.sleep(0.01)

    for what, error in (("fails", ValueError), ("dies", cm.exceptions.WorkerCrashedError)):
        for ref in [does.remote(what) for _ in range(5)]:
            with pytest.raises(error):
                cm.get(ref, timeout=30)
    refs = [does.remote("runs") for _ in range(6)]
    for ref in refs:
        cm.cancel(ref)
    for ref in refs:
        with pytest.raises(cm.exceptions.TaskCancelledError):
            cm.get(ref, timeout=30)


def test_after_actors_that_ended_and_beside_some_that_live(cm: ModuleType) -> None:
    @cm.remote
    class Plain:
        def call(self) -> int:
            return 1

    @cm.remote
    class Async:
        async def call(self) -> int:
            return 1

    alive = [Plain.remote(), Plain.options(max_concurrency=3).remote(), Async.remote()]
    ended = [Plain.remote(), Async.remote()]
    assert cm.get([actor.call.remote() for actor in alive + ended], timeout=30) == [1] * 5
    cm.kill(ended.pop())
    del ended[:]
    assert cm.get([actor.call.remote() for actor in alive], timeout=30) == [1] * 3
    kept.append(alive)


def test_with_a_generator_that_is_not_read_on(cm: ModuleType) -> None:
    @cm.remote(num_returns="streaming", generator_backpressure_num_objects=2)
    def items() -> Iterator[int]:
        yield from range(1000)

    stream = items.remote()
    assert [cm.get(next(stream)) for _ in range(5)] == list(range(5))
    kept.append(stream)


def test_with_tasks_that_wait_for_each_other_and_for_room(cm: ModuleType) -> None:
    @cm.remote
    def waits(refs: list) -> int:
        return cm.get(refs[0])

    @cm.remote(num_cpus=2)
    def never() -> None:
        os.read(os.pipe()[0], 1)

    blocked = never.remote()
    kept[:] = [blocked, waits.remote([blocked]), never.remote()]


def test_the_doctor_tells_of_a_process_that_does_not_rest(cm: ModuleType) -> None:
    @cm.remote
    class Beats:
        def __init__(self) -> None:
            self.ends = threading.Event()
            self.thread = threading.Thread(target=self.beat)
            self.thread.start()

        def beat(self) -> None:
            while not self.ends.wait(0.001):
                continue

        def beats(self) -> bool:
            return self.thread.is_alive()

        def end(self) -> None:
            self.ends.set()
            self.thread.join()

    def problems() -> list[str]:
        said = subprocess.run(
            [sys.executable, "-m", "cellmesh.cli", "doctor", "--json"], capture_output=True, text=True
        ).stdout
        return [row["problem"] for row in json.loads(said) if row["what"].endswith("nothing is to do")]

    actor = Beats.remote()
    cm.get(actor.beats.remote(), timeout=30)
    (problem,) = problems()
    assert "(cm:Beats) has run" in problem
    cm.get(actor.end.remote(), timeout=30)
    assert problems() == [""]
