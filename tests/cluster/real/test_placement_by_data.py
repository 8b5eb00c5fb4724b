"""Which tasks go where: to what they read, and away again from where they find no room."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cellmesh.scheduler.cluster import messages
from cluster.one_process.machines import machines
from support.drivers import ends_well, program, says
from support.real_machines import Machine
from support.real_machines import machines as real_machines
from support.waiting import wait_until

import cellmesh as cm

pytestmark = pytest.mark.filterwarnings("ignore::cellmesh.exceptions.InfeasibleResourcesWarning")


@cm.remote
def make(i: int) -> Any:
    return np.full(200_000, float(os.getppid()))


@cm.remote
def read(values: Any) -> bool:
    return bool((values == float(os.getppid())).all())


@cm.remote
def wait_for(path: str) -> int:
    Path(f"{path}-{os.getpid()}").touch()
    while not os.path.exists(path):
        time.sleep(0.01)
    return os.getppid()


@cm.remote
def parent_pid() -> int:
    return os.getppid()


def test_tasks_go_where_their_arguments_lie() -> None:
    """Eight results of 1.6 MB on two machines; who reads them runs beside them, in whatever order they wait: no byte
    moves.
    """
    with machines(3) as three:
        three.machines["a"].most = 4
        with three.lock:  # nothing is sent before all of them wait
            made = [make.remote(i) for i in range(8)]
        cm.wait(made, num_returns=8)
        with three.lock:
            answers = [read.remote(made[i]) for i in (3, 6, 0, 7, 1, 4, 2, 5)]
        assert all(cm.get(answers))
        assert not [message for message in three.seen if isinstance(message, messages.Chunk)]
        with three.lock:
            home = read.remote(cm.put(np.zeros(200_000)))
            rows = [row for row in three.machines["a"].client.surplus() if row.near]
        assert not cm.get(home)
        assert [set(row.near) for row in rows] == [{-1}]  # what lies at home has to be moved, wherever it is read


def test_what_waits_there_comes_back_and_goes_elsewhere(tmp_path: Path) -> None:
    with machines(3) as three:
        three.routes = {"a": ["b"]}
        path = str(tmp_path / "go")
        busy = [wait_for.remote(path) for _ in range(2)]
        wait_until(lambda: len(list(tmp_path.iterdir())) == 2, what="both have begun")
        waiting = [parent_pid.remote() for _ in range(6)]
        there = three.machines["a"].peers["b"].tasks_out
        said = three.machines["a"].waits
        wait_until(lambda: said.get(1) == 6, what="b says that six of our tasks find no room")
        with three.lock:
            three.routes = {"a": ["c"]}
            there.take_back(1, 7)
        elsewhere = set(cm.get(waiting))
        Path(path).touch()
        assert len(elsewhere) == 1 and not elsewhere & set(cm.get(busy))
        wait_until(lambda: said.get(1) == 0, what="b says that none do any more")


def test_tasks_that_have_begun_are_not_taken_back(tmp_path: Path) -> None:
    with machines(2) as two:
        path = str(tmp_path / "go")
        busy = [wait_for.remote(path) for _ in range(2)]
        there = two.machines["a"].peers["b"].tasks_out
        wait_until(lambda: len(list(tmp_path.iterdir())) == 2, what="both have begun")
        with two.lock:
            there._queued = dict.fromkeys(there._tasks)  # as if b had just said so, and they had begun meanwhile
            there.take_back(1, 2)
        wait_until(lambda: any(isinstance(message, messages.GiveBack) for message in two.seen), what="b has read it")
        Path(path).touch()
        assert len(cm.get(busy)) == 2
        assert not [message for message in two.seen if isinstance(message, messages.Returned)]


def test_work_leaves_a_node_that_has_become_full() -> None:
    """A node's own user takes its only CPU for a minute: what another driver has sent there runs elsewhere, in
    seconds.
    """
    with real_machines(Machine(), Machine()) as (here, mine):
        head = here.head()
        driver = program(
            mine,
            head,
            here.run("token"),
            """
            wait_for_nodes(2)
            refs = [part.remote(i) for i in range(400)]
            print("begun", flush=True)
            assert sum(values[0] for values, _ in cm.get(refs, timeout=50)) == sum(range(400))
            print("done", flush=True)
        """,
        )
        assert says(driver) == "begun"
        own = here.python(
            "-c",
            """
import time
import cellmesh as cm
cm.init(address="local")

@cm.remote
def stay(seconds):
    print("stays", flush=True)
    time.sleep(seconds)

ref = stay.remote(60)
time.sleep(60)
""",
        )
        assert says(own)
        ends_well(driver)
        own.kill()
        own.communicate()
