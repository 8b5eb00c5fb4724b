"""What a node puts on record in the control store, for people: which drivers use it, what they have done, and which
placement groups have their home there.

A driver is a *job* as long as it is attached to the segment, and a *run* is what went on meanwhile. Both records are
written when it is first seen and when it has left, by whatever way; that of the run every minute, too, if something has
ended since. If a node is lost, no record says that its drivers have ended: readers know which nodes there are. A
program that only looks says so by the name of its process, and is no driver. Groups are on record as long as they and
their node are.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from ...ipc.fitting import encode
from ...system import processes
from ..messages import SESSION_LABEL, GroupRecord, JobRecord, Member, RunRecord

if TYPE_CHECKING:
    from ....objstore._core import Client

LOOK_S = 1.0
RUN_S = 60.0
MAX_PROGRAM_CHARS = 300

Tell = Callable[[Literal["jobs", "runs", "groups"], str, bytes | None], bool]


class Driver(Struct):
    """One that is attached, or has left and is not yet on record as such."""

    run: RunRecord
    told_at: float = 0.0
    is_new: bool = True


class JobRecords:
    """The records of one node.

    Parameters
    ----------
    client : Client
    me : Member
    owner : int
        The pid of the session's own driver; 0: it has none. It is one as soon as it is seen, others if they stay for a
        look.
    tell : callable (table, key, value) -> bool
        Puts an entry into the control store, or, None, deletes it; False: not now.
    n_elsewhere : callable () -> int
        How many tasks of this node have ended on other ones.
    called : callable () -> str
        What this node is called by now.
    """

    def __init__(
        self,
        client: Client,
        me: Member,
        owner: int,
        tell: Tell,
        n_elsewhere: Callable[[], int],
        called: Callable[[], str],
    ) -> None:
        self._called = called
        self._client, self._me, self._owner, self._tell, self._n_elsewhere = client, me, owner, tell, n_elsewhere
        self._drivers: dict[int, Driver] = {}
        self._left: list[Driver] = []
        self._seen: set[int] = set()
        self._groups: dict[str, bytes] = {}  # as they are on record
        self._look_at = 0.0

    def look(self, now: float) -> None:
        """See which drivers have come and which have left. `now`: seconds, monotonic."""
        if now < self._look_at:
            return
        self._look_at = now + LOOK_S
        pids = {row["pid"] for row in self._client.clients() if row["role"] == "driver"}
        there = {pid for pid in pids if pid in self._drivers or self._is_driver(pid)}
        for pid in there - self._drivers.keys():
            self._drivers[pid] = self._come(pid)
        for pid in self._drivers.keys() - there:
            self._leave(self._drivers.pop(pid))
        self._seen = pids
        for driver in self._drivers.values():
            self._note(driver, now)
        self._left = [driver for driver in self._left if not self._put(driver)]
        self._look_at_groups()

    def close(self) -> None:
        """The node leaves its cluster, and its drivers with it."""
        for driver in self._drivers.values():
            self._leave(driver)
        for driver in self._left:
            self._put(driver)
        self._drivers, self._left = {}, []

    def _look_at_groups(self) -> None:
        there: dict[str, bytes] = {}
        for row in self._client.placements():
            session, number, _, strategy, name, namespace = row["meta"]
            if (
                session == self._me.labels.get(SESSION_LABEL) and row["state"] != "removed"
            ):  # not what is put aside for others
                record = GroupRecord(
                    self._me.node,
                    session,
                    number,
                    name,
                    namespace,
                    strategy,
                    row["state"],
                    [bundle.total for bundle in row["bundles"]],
                    [bundle.node for bundle in row["bundles"]],
                )
                there[f"{self._me.node:x}-{number:08x}"] = encode(record)
        for key, value in there.items():
            if self._groups.get(key) != value and self._tell("groups", key, value):
                self._groups[key] = value
        for key in self._groups.keys() - there.keys():
            if self._tell("groups", key, None):
                del self._groups[key]

    def _is_driver(self, pid: int) -> bool:
        return pid == self._owner or (pid in self._seen and processes.name_of(pid) != processes.LOOKER)

    def _come(self, pid: int) -> Driver:
        job = JobRecord(
            self._me.node,
            self._called(),
            self._me.labels.get(SESSION_LABEL, ""),
            pid,
            processes.command_of(pid)[:MAX_PROGRAM_CHARS],
            processes.notebook_of(pid)[:MAX_PROGRAM_CHARS],
            time.time(),
        )
        return Driver(RunRecord(job))

    def _leave(self, driver: Driver) -> None:
        driver.run = self._run_of(driver, time.time())
        self._left.append(driver)

    def _note(self, driver: Driver, now: float) -> None:
        run = self._run_of(driver)
        if driver.is_new or (now >= driver.told_at + RUN_S and run != driver.run):
            driver.run = run
            if self._put(driver):
                driver.is_new, driver.told_at = False, now

    def _put(self, driver: Driver) -> bool:
        job = driver.run.job
        key = f"{round(job.started * 1e6):016x}-{job.node:x}-{job.pid}"
        is_noted = not (driver.is_new or job.ended) or self._tell("jobs", key, encode(job))
        return is_noted and self._tell("runs", key, encode(driver.run))

    def _run_of(self, driver: Driver, ended: float = 0.0) -> RunRecord:
        stats = self._client.stats()
        job = replace(driver.run.job, ended=ended)
        return RunRecord(job, stats["n_finished"], self._n_elsewhere(), stats["peak_bytes"])
