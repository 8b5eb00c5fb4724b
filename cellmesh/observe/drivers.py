"""The programs that use a session, or in a cluster those of all machines, and what they have done: for listings."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from msgspec import msgpack
from msgspec.structs import replace

from ..scheduler.cluster.messages import JobRecord, RunRecord
from ..scheduler.system import processes
from . import nodes

if TYPE_CHECKING:
    from ..session.session import Session

Row = dict[str, Any]


def jobs(of: Session) -> list[Row]:
    """A row for each driver, the latest first; in a cluster those of all machines, and the last ones that have left.

    Raises
    ------
    ClusterError
        The head does not answer.
    """
    known = [RunRecord(msgpack.decode(value, type=JobRecord)) for value in _on_record(of, "jobs")]
    return [
        {
            "pid": run.job.pid,
            "program": run.job.program,
            "notebook": run.job.notebook,
            "node": node,
            "state": state,
            "started": _date(run.job.started),
            "ended": _date(run.job.ended),
        }
        for run, node, state in _seen(of, known)
    ]


def runs(of: Session) -> list[Row]:
    """Likewise, what went on while they were there."""
    known = [msgpack.decode(value, type=RunRecord) for value in _on_record(of, "runs")]
    now, stats = time.time(), of.client.stats()
    known = [
        replace(run, n_tasks=stats["n_finished"], peak_bytes=stats["peak_bytes"])
        if run.job.session == of.node.session_id and not run.job.ended
        else run
        for run in known
    ]
    rows = []
    for run, node, state in _seen(of, known):
        job = run.job
        seconds = round((job.ended or now) - job.started, 3) if job.started and state != "lost" else None
        rows.append(
            {
                "program": job.notebook or job.program,
                "node": node,
                "state": state,
                "started": _date(job.started),
                "seconds": seconds,
                "tasks": run.n_tasks,
                "elsewhere": run.n_elsewhere,
                "peak_bytes": run.peak_bytes,
            }
        )
    return rows


def _on_record(of: Session, table: str) -> tuple[bytes, ...]:
    """What the control store has, the latest first."""
    from ..session import agent_client

    return agent_client.on_record(of, table) if nodes.is_clustered(of) else ()


def _seen(of: Session, known: list[RunRecord]) -> list[tuple[RunRecord, str, str]]:
    """Each with the name of its machine and its state. A driver whose agent has died is on record twice, by another
    node: the later one counts."""
    found = nodes.of_cluster(of)
    names, members = nodes.names(found), {row.node for row in found if row.state != "dead"}
    running: set[tuple[str, int]] = set()
    rows = []
    for run in known:
        job, node = run.job, f"{run.job.node:x}"
        state = "ended" if job.ended else "running" if node in members else "lost"
        if state != "lost" or (job.session, job.pid) not in running:
            rows.append((run, names.get(node, job.hostname), state))
        if state == "running":
            running.add((job.session, job.pid))
    new = [run for run in _here(of) if (run.job.session, run.job.pid) not in running]
    here = next((names[row.node] for row in found if row.is_here), os.uname().nodename)
    return [*((run, here, "running") for run in new), *rows]


def _here(of: Session) -> list[RunRecord]:
    """The drivers of this session."""
    stats = of.client.stats()
    pids = sorted({row["pid"] for row in of.client.clients() if row["role"] == "driver"})
    found = []
    for pid in pids:
        if processes.name_of(pid) != processes.LOOKER:
            job = JobRecord(
                0,
                os.uname().nodename,
                of.node.session_id,
                pid,
                processes.command_of(pid),
                processes.notebook_of(pid),
                of.started_at if pid == os.getpid() else 0.0,
            )
            found.append(RunRecord(job, stats["n_finished"], 0, stats["peak_bytes"]))
    return found


def _date(seconds: float) -> str:
    """Local time; "" for 0, which nobody knows."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds)) if seconds else ""
