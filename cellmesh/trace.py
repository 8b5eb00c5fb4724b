"""The timeline as a Chrome trace: one row per worker, an arrow from each task to those that depend on it."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .history import TaskHistory, read_history

if TYPE_CHECKING:
    from .objstore._core import Client


def chrome_trace(client: Client) -> list[dict[str, Any]]:
    """Trace events in the JSON array format; times in microseconds since the first event."""
    tasks = {task.seq: task for task in read_history(client)}
    times = [task.submitted_at for task in tasks.values() if task.submitted_at is not None]
    start = min(times, default=0.0)
    ran = [task for task in tasks.values() if task.started_at is not None and task.finished_at is not None]
    rows = [{"ph": "M", "name": "thread_name", "pid": 0, "tid": worker, "args": {"name": f"worker {worker} (pid "
                                                                                         f"{pid})"}}
            for worker, pid in sorted({(task.worker, task.pid) for task in ran})]
    return rows + [_slice(task, start) for task in ran] + [
        event for task in ran for source in task.depends_on if source in tasks
        for event in _arrow(tasks[source], task, start)]


def _microseconds(time: float | None, start: float) -> float:
    return round(((time or start) - start) * 1e6, 3)


def _slice(task: TaskHistory, start: float) -> dict[str, Any]:
    began = _microseconds(task.started_at, start)
    waited = (task.started_at or 0.0) - (task.submitted_at or task.started_at or 0.0)
    return {"ph": "X", "name": task.name, "cat": "actor" if task.actor >= 0 else "task", "pid": 0, "tid": task.worker,
            "ts": began, "dur": _microseconds(task.finished_at, start) - began,
            "args": {"task": task.seq, "state": task.state, "attempt": task.attempt,
                     "waited_ms": round(waited * 1e3, 3), "result_bytes": task.size, "cell": task.origin}}


def _arrow(source: TaskHistory, target: TaskHistory, start: float) -> list[dict[str, Any]]:
    if source.finished_at is None or source.worker < 0:
        return []
    common = {"name": "dependency", "cat": "dependency", "id": f"{source.seq}-{target.seq}", "pid": 0}
    return [{**common, "ph": "s", "tid": source.worker, "ts": _microseconds(source.finished_at, start)},
            {**common, "ph": "f", "bp": "e", "tid": target.worker, "ts": _microseconds(target.started_at, start)}]
