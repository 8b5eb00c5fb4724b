"""One row of a graph in words, and where its task ran. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..panel_messages import FIRST_REMOTE_WORKER, NO_WORKER, Kind, State
from .remote import seen_times
from .tables import NEVER

if TYPE_CHECKING:
    from .model import Graph


def describe(graph: Graph, row: int) -> dict[str, Any]:
    """One row in words; the times that do not exist are None.

    `ready` is when the last of its dependencies that are there came.

    Raises
    ------
    IndexError
        When there is no such row.
    """
    if not 0 <= row < graph.n_rows:
        raise IndexError(f"the graph has no row {row}")
    entries, at = graph.entries, int(graph.rows.entry[row])
    parent = int(entries.parent[at])
    cell = int(entries.cell[at])
    worker = int(entries.worker[at])
    sources = graph.edges.source[: graph.edges.n][graph.edges.target[: graph.edges.n] == row]
    targets = graph.edges.target[: graph.edges.n][graph.edges.source[: graph.edges.n] == row]
    remote = _describe_remote(graph, at) if entries.node[at] else {"node": 0}
    ready = max(entries.submitted[at], entries.finished[graph.rows.entry[sources]].max(initial=0))
    return {
        "row": row,
        "seq": int(entries.seq[at]),
        "function": graph.functions[entries.function[at]],
        "kind": Kind(entries.kind[at]).name.lower(),
        "state": State(entries.state[at]).name.lower(),
        "cell": cell,
        "actor": int(entries.actor[at]) - 1 if entries.actor[at] else None,
        "worker": worker if worker != NO_WORKER else None,
        "pid": int(graph.worker_lives.pid[worker]) if worker != NO_WORKER and not remote["node"] else None,
        **{
            name: _or_none(graph.seconds(getattr(entries, name)[at : at + 1])[0])
            for name in ("submitted", "started", "finished")
        },
        "ready": _or_none(graph.seconds(np.array([ready]))[0]),
        "called": _or_none(graph.called(graph.order[row : row + 1])[0]),
        "size": _or_none(entries.size[at]),
        "freed": bool(entries.gone[at]),
        "parent": int(entries.row[parent]) if parent >= 0 and entries.row[parent] >= 0 else None,
        "depends_on": sources.tolist()[:100],
        "needed_by": targets.tolist()[:100],
        **remote,
    }


def _describe_remote(graph: Graph, at: int) -> dict[str, Any]:
    """What differs for a task on another machine: its process is one of that machine."""
    workers, *times = there(graph, np.array([at]))
    node, pid = (
        graph.remote.workers[int(workers[0]) - FIRST_REMOTE_WORKER] if workers[0] >= FIRST_REMOTE_WORKER else (0, 0)
    )
    return {
        "node": node,
        "pid_there": pid,
        **{name: _or_none(time[0]) for name, time in zip(("sent", "started", "ended"), times, strict=True)},
    }


def there(graph: Graph, entries: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """For entries that ran on other machines: the workers' numbers, and when they were sent, began and ended. What has
    not begun there, as far as is known, is queued."""
    columns = graph.entries
    started, ran = columns.started[entries], columns.ran[entries]
    began, ended = seen_times(started, ran, columns.began[entries], columns.ended[entries])
    began = np.where(columns.state[entries] == State.QUEUED, NEVER, began)
    pids = np.where(ran >= started, columns.pid_there[entries], 0)
    return (
        graph.remote.workers_of(columns.node[entries], pids),
        graph.seconds(started),
        graph.seconds(began),
        graph.seconds(ended),
    )


def _or_none(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
