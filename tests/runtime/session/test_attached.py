"""Who the other processes are that hold an object: what the tables say of them, without asking them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest
from support.flags import Flag
from support.waiting import wait_until

import cellmesh
from cellmesh.exceptions import ObjectStoreFullError
from cellmesh.observe import processes
from cellmesh.session.current import running
from cellmesh.text import in_one_line

pytestmark = pytest.mark.timeout(90)
LARGE = 1 << 20


@cellmesh.remote
def keep(holder: list, go: Flag) -> None:
    held = holder[0]
    go.wait()
    del held


@cellmesh.remote(num_cpus=0)
class Keeper:
    def __init__(self, holder: list) -> None:
        self.held = holder[0]

    def again(self, go: Flag) -> None:
        go.wait()


def holders_of(cm: ModuleType, ref: object) -> str:
    """The part of `memory()` that says who holds it."""
    line = next(line for line in cm.state.memory(exact=True).splitlines() if ref.hex() in line)
    return line.partition(" refs in ")[2].partition(", used by")[0]


def test_workers_are_told_by_their_task_or_actor(cm: ModuleType, flag: Callable[[str], Flag]) -> None:
    ref = cm.put(bytes(LARGE))
    task = keep.options(name="a task\n\x1b[31mof \u202emine").remote([ref], flag("go"))
    actor = Keeper.remote([ref])
    wait_until(lambda: holders_of(cm, ref).count("pid") == 3)
    wait_until(lambda: "(worker, actor Keeper)" in holders_of(cm, ref))  # its constructor was a task that ran
    assert f"pid {os.getpid()} (this driver)" in holders_of(cm, ref)
    assert "(worker, runs a task\ufffd\ufffd[31mof \ufffdmine)" in holders_of(cm, ref), (
        "a name is a name, whatever it is"
    )
    call = actor.again.remote(flag("go"))
    wait_until(lambda: "(worker, runs Keeper.again)" in holders_of(cm, ref))
    assert {row["name"] for row in cm.state.list_workers(filters=[("role", "=", "worker"), ("task", "!=", 0)])} >= {
        "Keeper.again"
    }
    flag("go").set()
    cm.get([task, call])
    wait_until(lambda: holders_of(cm, ref).count("pid") == 2, what="the task has let go")


def test_the_error_of_a_full_store_says_who_holds_what_fills_it(flag: Callable[[str], Flag]) -> None:
    with (
        cellmesh.init(num_cpus=1, object_store_memory=64 << 20, offload_limit=0) as session,
        pytest.raises(ObjectStoreFullError) as full,
    ):
        ref = cellmesh.put(np.zeros(40 << 20, "u1"))
        actor = Keeper.remote([ref])
        wait_until(lambda: holders_of(cellmesh, ref).count("pid") == 2)
        cellmesh.put(np.zeros(40 << 20, "u1"))
    assert "(worker, actor Keeper)" in str(full.value) and session is not None and actor is not None


OTHER = """
import sys
import cellmesh
cellmesh.init(address=sys.argv[1])
ref = cellmesh.put(bytes(1 << 20))
print(ref.hex(), flush=True)
sys.stdin.read()
"""


def test_another_driver_is_told_by_its_notebook_and_one_that_has_ended_as_such(cm: ModuleType) -> None:
    client = running().client
    other = subprocess.Popen(
        [sys.executable, "-c", OTHER, running().node.address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "JPY_SESSION_NAME": "/home/me/analysis of\tjune.ipynb"},
    )
    with other:
        name = other.stdout.readline().strip()
        shown = next(line for line in cm.state.memory(exact=True).splitlines() if name in line)
        assert f"refs in pid {other.pid} (driver, notebook analysis of\ufffdjune.ipynb), used by" in shown
        row = next(row for row in processes.rows(client) if row["pid"] == other.pid)
        other.send_signal(signal.SIGKILL)
    assert processes.in_words(row) == f"pid {other.pid} (has ended)"
    assert processes.holders_in_words([1, 255], {1: row}).endswith("(has ended), a process that has ended")
    assert processes.holders_in_words([], {}) == "no process"


@pytest.mark.parametrize(
    "text, shown",
    [("f", "f"), ("a\r\nb", "a\ufffd\ufffdb"), ("x" * 81, "x" * 77 + "..."), ("zażółć <b>", "zażółć <b>")],
)
def test_names_stay_in_their_line(text: str, shown: str) -> None:
    assert in_one_line(text) == shown
