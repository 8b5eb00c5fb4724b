"""Tasks that were sent to another machine take their `timeout` and `retry_delay` along."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from cluster.one_process.machines import Machines
from support.flags import Counter, Flag
from support.waiting import wait_until

import cellmesh as cm
from cellmesh.exceptions import TaskCancelledError, TaskTimeoutError

pytestmark = pytest.mark.filterwarnings("ignore::cellmesh.exceptions.InfeasibleResourcesWarning")


@cm.remote(timeout=0.1)
def run_too_long(counter: Counter, blocks: bool = False) -> None:
    counter.add()
    if blocks:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    time.sleep(1000)


@cm.remote(retry_exceptions=True, retry_delay=1000)
def fail(counter: Counter) -> None:
    counter.add()
    raise ValueError("again")


@cm.remote
class Actor:
    def pid(self) -> int:
        return os.getpid()

    @cm.method(timeout=0.1)
    def run_too_long(self) -> None:
        time.sleep(1000)


def test_a_task_there_is_stopped_there(two: Machines, tmp_path: Path) -> None:
    counter = Counter(tmp_path / "runs")
    with pytest.raises(TaskTimeoutError, match=r"'run_too_long' .* was interrupted after") as raised:
        cm.get(run_too_long.remote(counter))
    assert raised.value.limit_s == 0.1 and "in run_too_long" in raised.value.remote_traceback and counter.value == 1


def test_a_task_that_does_not_end_is_killed_there_and_tried_again(two: Machines, tmp_path: Path) -> None:
    two.machines["b"].client.set_timeout_grace(0.05)
    counter = Counter(tmp_path / "runs")
    with pytest.raises(TaskTimeoutError, match=r"'run_too_long' .* its process was killed"):
        cm.get(run_too_long.options(max_retries=2, retry_exceptions=[TimeoutError]).remote(counter, True))
    assert counter.value == 3


def test_a_call_of_an_actor_there(two: Machines) -> None:
    actor = Actor.remote()
    pid = cm.get(actor.pid.remote())
    with pytest.raises(TaskTimeoutError, match=r"Actor.run_too_long"):
        cm.get(actor.run_too_long.remote())
    assert cm.get(actor.pid.remote()) == pid != os.getpid()


def test_a_task_waits_there_for_its_next_attempt_and_can_be_cancelled(two: Machines, tmp_path: Path) -> None:
    def waiting() -> list[dict[str, Any]]:
        return [row for row in two.machines["b"].client.tasks() if row["state"] == "retrying" and row["waits_s"] > 700]

    counter = Counter(tmp_path / "runs")
    ref = fail.remote(counter)
    wait_until(lambda: len(waiting()) == 1, what="it waits there")
    assert counter.value == 1
    with two.lock:
        assert two.machines["b"].client.workers_wanted() == 0
    cm.cancel(ref)
    with pytest.raises(TaskCancelledError):
        cm.get(ref)
    wait_until(lambda: not waiting(), what="nobody waits there any more")


def test_the_time_of_a_task_runs_from_its_beginning_there(two: Machines, tmp_path: Path) -> None:
    """Both places there are taken while it is there."""
    go = Flag(tmp_path / "go")

    @cm.remote
    def hold(begun: Flag) -> None:
        begun.set()
        go.wait()

    begun = [Flag(tmp_path / f"begun {i}") for i in range(2)]
    busy = [hold.remote(each) for each in begun]
    for each in begun:
        each.wait()
    counter = Counter(tmp_path / "runs")
    late = run_too_long.options(timeout=0.3).remote(counter)
    wait_until(lambda: two.machines["a"].waits.get(1) == 1, what="it waits for room there")
    go.set()
    cm.get(busy)
    with pytest.raises(TaskTimeoutError) as raised:
        cm.get(late)
    assert 0.3 <= raised.value.ran_s and counter.value == 1
