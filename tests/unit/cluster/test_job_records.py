"""What a node puts on record of its drivers, with a segment that the test makes up."""

from __future__ import annotations

import os
from typing import Any

import pytest
from cellmesh.objstore._core import BundleState
from cellmesh.scheduler.cluster.agent.job_records import RUN_S, JobRecords
from cellmesh.scheduler.cluster.messages import SESSION_LABEL, GroupRecord, JobRecord, Member, RunRecord
from cellmesh.scheduler.system import processes
from msgspec import msgpack

ME = Member(5, "tcp://10.0.0.1:1", bytes(32), "elm", {}, {SESSION_LABEL: "s1"})
OWNER = os.getpid()


class Node:
    """A segment, and a control store that may have no time."""

    def __init__(self, owner: int = OWNER) -> None:
        self.pids: list[int] = []
        self.n_finished = self.n_elsewhere = 0
        self.takes = True
        self.entries: dict[str, dict[str, Any]] = {"jobs": {}, "runs": {}, "groups": {}}
        self.groups: list[dict[str, Any]] = []
        self.n_told = 0
        self.records = JobRecords(self, ME, owner, self.tell, lambda: self.n_elsewhere, lambda: ME.called)
        self.now = 0.0

    def clients(self) -> list[dict[str, Any]]:
        return [
            {"pid": 1, "role": "worker"},
            {"pid": 2, "role": "remote_node"},
            *({"pid": pid, "role": "driver"} for pid in self.pids),
        ]

    def stats(self) -> dict[str, int]:
        return {"n_finished": self.n_finished, "peak_bytes": 10 * self.n_finished}

    def placements(self) -> list[dict[str, Any]]:
        return self.groups

    def tell(self, table: str, key: str, value: bytes | None) -> bool:
        if self.takes:
            self.n_told += 1
            if value is None:
                del self.entries[table][key]
            else:
                self.entries[table][key] = msgpack.decode(
                    value, type={"jobs": JobRecord, "runs": RunRecord, "groups": GroupRecord}[table]
                )
        return self.takes

    def look(self, seconds: float = 1.0) -> None:
        self.now += seconds
        self.records.look(self.now)

    @property
    def jobs(self) -> list[JobRecord]:
        return list(self.entries["jobs"].values())

    @property
    def runs(self) -> list[RunRecord]:
        return list(self.entries["runs"].values())


def test_the_sessions_driver_comes_works_and_leaves() -> None:
    node = Node()
    node.look()
    assert not node.jobs
    node.pids = [OWNER, OWNER]
    node.look()
    (job,) = node.jobs
    assert (job.node, job.hostname, job.session, job.pid, job.ended) == (
        5,
        "elm",
        "s1",
        OWNER,
        0.0,
    ) and "pytest" in job.program
    assert node.runs == [RunRecord(job)]
    node.look(RUN_S)
    assert node.n_told == 2, "nothing has happened"
    node.n_finished, node.n_elsewhere = 9, 4
    node.look()
    assert node.runs == [RunRecord(job, 9, 4, 90)]
    node.n_finished = 10
    node.look()
    assert node.n_told == 3, "told every minute, not every second"
    node.pids = []
    node.look()
    (ended,) = node.jobs
    assert ended.ended >= ended.started == job.started and node.runs == [RunRecord(ended, 10, 4, 100)]
    node.look(RUN_S)
    assert node.n_told == 5


def test_what_the_control_store_does_not_take_is_told_later() -> None:
    node = Node()
    node.pids, node.takes = [OWNER], False
    node.look()
    node.takes = True
    node.look()
    assert len(node.jobs) == 1 and not node.jobs[0].ended
    node.pids, node.takes = [], False
    node.look()
    node.takes = True
    node.look()
    assert node.jobs[0].ended and node.runs[0].job == node.jobs[0]


def test_a_node_that_leaves_takes_its_drivers_along() -> None:
    node = Node()
    node.pids = [OWNER]
    node.look()
    node.n_finished = 3
    node.records.close()
    assert node.jobs[0].ended and node.runs == [RunRecord(node.jobs[0], 3, 0, 30)]


def test_others_are_drivers_if_they_stay_and_do_not_only_look(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {7: "python", 8: processes.LOOKER, 9: "python"}
    monkeypatch.setattr(processes, "name_of", names.__getitem__)
    node = Node(owner=0)
    node.pids = [7, 8, 9]
    node.look()
    node.look(0.5)
    assert not node.jobs
    node.pids = [7, 8]
    node.look()
    node.look()
    assert [job.pid for job in node.jobs] == [7]


def group(number: int, state: str = "reserved", session: str = "s1", where: int | None = 0) -> dict[str, Any]:
    cpu = {"CPU": 1.0}
    return {
        "state": state,
        "meta": (session, number, ((("CPU", 1.0),),), "PACK", f"g{number}", "here"),
        "bundles": [BundleState((cpu, cpu, where))],
    }


def test_groups_are_on_record_as_long_as_they_are_there_and_no_longer_told_than_needed() -> None:
    node = Node()
    node.groups = [group(1, "pending", where=None), group(2, session="another node's")]
    node.takes = False
    node.look()
    assert not node.entries["groups"]
    node.takes = True
    node.look()
    assert list(node.entries["groups"].values()) == [
        GroupRecord(5, "s1", 1, "g1", "here", "PACK", "pending", [{"CPU": 1.0}], [None])
    ]
    node.groups = [group(1, where=0xABC), group(3)]
    node.look()
    assert {(row.number, row.state, *row.machines) for row in node.entries["groups"].values()} == {
        (1, "reserved", 0xABC),
        (3, "reserved", 0),
    }
    n = node.n_told
    node.look()
    assert node.n_told == n
    node.groups = [group(1, "removed"), group(3)]
    node.takes = False
    node.look()
    node.takes = True
    node.look()
    assert [row.number for row in node.entries["groups"].values()] == [3]
