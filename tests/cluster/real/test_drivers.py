"""Jobs and runs: which drivers use the machines of a cluster, and which have."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from cellmesh.scheduler.cluster.messages import JobRecord, RunRecord
from cellmesh.scheduler.ipc.messages import ClusterNode
from msgspec import msgpack
from support.drivers import ends_well, program, says, serving
from support.real_machines import Machine
from support.real_machines import machines as real_machines
from support.waiting import wait_until

import cellmesh as cm
from cellmesh.observe import drivers
from cellmesh.observe import nodes as machines

JOINED = """
import sys, cellmesh as cm
cm.init(sys.argv[1])
print("there", flush=True)
sys.stdin.readline()
"""


def test_drivers_of_all_machines_are_listed_while_they_are_there_and_afterwards() -> None:
    with real_machines(Machine(), Machine()) as (here, mine):
        head = here.head()
        first = program(
            mine,
            head,
            here.run("token"),
            """
            cm.get([part.remote(i) for i in range(20)])
            row, = cm.state.list_jobs()
            assert (
                (row["pid"], row["state"], row["ended"]) == (os.getpid(), "running", "")
                and "-c" in row["program"]
                and row["started"]
            ), row
            while (run := cm.state.list_runs()[0])["tasks"] < 20:  # workers count in batches
                time.sleep(0.01)
            assert run["state"] == "running" and run["node"].startswith(os.uname().nodename), run
            print(os.getpid())
        """,
        )
        ended = int(ends_well(first).split()[-1])
        (socket,) = Path(here.folder).glob("cellmesh*/session-*/node.sock")
        joined = here.python("-c", JOINED, str(socket))
        assert says(joined) == "there"
        second = program(
            mine,
            head,
            here.run("token"),
            dedent(f"""
            def wait_for_jobs(*pids):  # those of both machines are told by their agents, one after the other
                end, there = time.monotonic() + 30, None
                while there != set(pids):
                    time.sleep(0.05)
                    rows = cm.state.list_jobs()
                    there = {{row["pid"] for row in rows if row["state"] != "ended"}}
                    assert time.monotonic() < end, (pids, rows)
            wait_for_jobs(os.getpid(), {joined.pid})
            print("begun", flush=True)
            sys.stdin.readline()
            wait_for_jobs(os.getpid())
            print("has left", flush=True)
            sys.stdin.readline()
            assert len(cm.state.list_jobs()) == 3  # answered by its next life
        """),
        )
        assert says(second) == "begun"
        joined.communicate("\n", timeout=30)
        second.stdin.write("\n")
        second.stdin.flush()
        assert says(second) == "has left"
        os.kill(serving(here), signal.SIGKILL)  # its next life knows them, too
        second.stdin.write("\n")
        ends_well(second)

        def listed(what: str) -> list[dict[str, Any]]:
            return list(here.json("list", what)[0][what])

        wait_until(lambda: all(row["state"] == "ended" for row in listed("jobs")), 20, "the last one has left")
        pids = [row["pid"] for row in listed("jobs")]
        assert sorted(pids[:2]) == sorted([second.pid, joined.pid]) and pids[2:] == [ended], (
            "the latest first, and no command that only looks"
        )
        runs = listed("runs")
        assert [row["state"] for row in runs] == ["ended"] * 3 and runs[2]["tasks"] >= 20 and runs[2]["seconds"] >= 0


def test_a_lost_machine_s_drivers_are_lost_unless_another_agent_has_told_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def record(node: int, session: str, pid: int, started: float, ended: float = 0.0) -> bytes:
        return msgpack.encode(
            RunRecord(JobRecord(node, f"h{node}", session, pid, "program", "", started, ended), 5, 2, 100)
        )

    nodes = [
        ClusterNode("1", "s1", "elm", "alive", True, {}, {}, {}),
        ClusterNode("2", "s2", "oak", "dead", False, {}, {}, {}),
    ]
    kept = (
        record(1, "s1", 10, 50.0),
        record(2, "s1", 10, 40.0),
        record(2, "s2", 11, 30.0),
        record(2, "s2", 12, 20.0, 25.0),
        record(3, "s3", 13, 10.0),
    )
    monkeypatch.setattr(machines, "of_cluster", lambda of: nodes)
    monkeypatch.setattr(drivers, "_on_record", lambda of, table: kept)
    with cm.init(num_cpus=1, object_store_memory=64 << 20):
        here, *rows = cm.state.list_runs()
    assert (here["node"], here["state"]) == ("elm", "running"), "it is not on record yet"
    assert [(row["node"], row["state"], row["seconds"] is None) for row in rows] == [
        ("elm", "running", False),
        ("oak", "lost", True),
        ("oak", "ended", False),
        ("h3", "lost", True),
    ]
