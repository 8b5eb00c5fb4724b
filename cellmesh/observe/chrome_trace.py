"""The timeline as a Chrome trace, for Perfetto and chrome://tracing: one row per worker, or several where an actor
serves calls at the same time, and an arrow from each task to those that depend on it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from .history import TaskHistory, read_history

if TYPE_CHECKING:
    from ..objstore._core import Client

LANES = 1000  # rows that a worker can have; its first one is its number times this


def chrome_trace(client: Client) -> list[dict[str, Any]]:
    """Trace events in the JSON array format; times in microseconds since the first event. What still runs ends now."""
    return trace_of(read_history(client), time.time())


def trace_of(history: list[TaskHistory], now: float) -> list[dict[str, Any]]:
    """Likewise of these tasks; pure."""
    tasks = {task.seq: task for task in history}
    start = min((task.submitted_at for task in history if task.submitted_at is not None), default=0.0)
    ran = [task for task in history if task.started_at is not None]
    ends = {task.seq: max(task.finished_at or now, task.started_at or 0.0) for task in ran}
    rows = _rows(ran, ends)
    pids = {task.worker: task.pid for task in ran}
    names = [{"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "cellmesh"}}]
    for row in sorted(set(rows.values())):
        worker = row // LANES
        names += [
            {
                "ph": "M",
                "name": "thread_name",
                "pid": 0,
                "tid": row,
                "args": {"name": f"worker {worker} (pid {pids[worker]})"},
            },
            {"ph": "M", "name": "thread_sort_index", "pid": 0, "tid": row, "args": {"sort_index": row}},
        ]
    slices = [part for task in ran for part in _slices(task, rows[task.seq], start, ends[task.seq])]
    arrows = [
        event
        for task in ran
        for source in task.depends_on
        if source in rows
        for event in _arrow(tasks[source], task, rows, start)
    ]
    return names + slices + arrows


def _rows(ran: list[TaskHistory], ends: dict[int, float]) -> dict[int, int]:
    """For each task its row: slices of a row lie beside or within each other, they never cross."""
    rows: dict[int, int] = {}
    open_ends: dict[int, list[list[float]]] = {}  # per worker and lane: the ends of the slices that enclose the present
    for task in sorted(ran, key=lambda task: (task.started_at, -ends[task.seq])):
        lanes = open_ends.setdefault(task.worker, [])
        for lane in lanes:
            while lane and lane[-1] <= (task.started_at or 0.0):
                lane.pop()
        fitting = (i for i, lane in enumerate(lanes) if not lane or ends[task.seq] <= lane[-1])
        number = next(fitting, len(lanes))
        if number == len(lanes):
            lanes.append([])
        lanes[number].append(ends[task.seq])
        rows[task.seq] = task.worker * LANES + min(number, LANES - 1)
    return rows


def _microseconds(moment: float, start: float) -> float:
    return round((moment - start) * 1e6, 3)


def _slices(task: TaskHistory, row: int, start: float, end: float) -> list[dict[str, Any]]:
    """A task, and in it what loading its code and arguments took, if that was long."""
    started = task.started_at or 0.0
    whole = {
        "ph": "X",
        "name": task.name,
        "cat": "actor" if task.actor >= 0 else "task",
        "pid": 0,
        "tid": row,
        "ts": _microseconds(started, start),
        "dur": _microseconds(end, started),
        "args": {
            "task": task.seq,
            "state": task.state,
            "attempt": task.attempt,
            "waited_ms": round((started - (task.submitted_at or started)) * 1e3, 3),
            "result_bytes": task.size,
            "cell": task.origin,
        },
    }
    if task.called_at is None:
        return [whole]
    return [
        whole,
        {
            "ph": "X",
            "name": "arguments",
            "cat": "arguments",
            "pid": 0,
            "tid": row,
            "ts": whole["ts"],
            "dur": _microseconds(min(task.called_at, end), started),
            "args": {"task": task.seq},
        },
    ]


def _arrow(source: TaskHistory, target: TaskHistory, rows: dict[int, int], start: float) -> list[dict[str, Any]]:
    if source.finished_at is None:
        return []
    common = {"name": "dependency", "cat": "dependency", "id": f"{source.seq}-{target.seq}", "pid": 0}
    # An arrow belongs to the slice around its end point: it leaves within its source, not when that is over.
    leaves = max(source.started_at or 0.0, source.finished_at - 1e-8)
    return [
        {**common, "ph": "s", "tid": rows[source.seq], "ts": _microseconds(leaves, start)},
        {**common, "ph": "f", "bp": "e", "tid": rows[target.seq], "ts": _microseconds(target.started_at or 0.0, start)},
    ]
