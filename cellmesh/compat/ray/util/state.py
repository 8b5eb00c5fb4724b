"""`ray.util.state`: cellmesh's listings with Ray's columns and words."""

from __future__ import annotations

import fnmatch
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .... import state as _ours
from ....objstore._core import Ref
from ....observe import selecting as _selecting
from ....session.current import running as _running
from ....submit import placement_groups as _placement
from ... import missing as _missing
from .._ids import task_id_of, worker_id_of

__all__ = [
    "get_actor",
    "get_job",
    "get_log",
    "get_node",
    "get_objects",
    "get_placement_group",
    "get_task",
    "get_worker",
    "list_actors",
    "list_jobs",
    "list_logs",
    "list_nodes",
    "list_objects",
    "list_placement_groups",
    "list_tasks",
    "list_workers",
    "summarize_actors",
    "summarize_objects",
    "summarize_tasks",
]
__getattr__: _missing.NoSuchName = _missing.no_such_name("ray.util.state")

_TASK_STATES = {
    "waiting": "PENDING_ARGS_AVAIL",
    "queued": "PENDING_NODE_ASSIGNMENT",
    "sent": "SUBMITTED_TO_WORKER",
    "retrying": "PENDING_NODE_ASSIGNMENT",
    "running": "RUNNING",
    "blocked": "RUNNING_IN_RAY_GET",
    "finished": "FINISHED",
}  # all others: FAILED
_ACTOR_STATES = {"pending": "PENDING_CREATION", "alive": "ALIVE", "restarting": "RESTARTING", "dead": "DEAD"}


class Row(dict[str, Any]):
    """A row whose columns are attributes too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"no column {name!r}: there are {', '.join(self)}") from None


def _task(row: dict[str, Any]) -> Row:
    return Row(
        task_id=task_id_of(row["task"]),
        name=row["name"],
        state=_TASK_STATES.get(row["detail"] or row["state"], "FAILED"),
        func_or_class_name=row["name"],
        type="NORMAL_TASK" if row["actor"] < 0 else "ACTOR_TASK",
        attempt_number=row["attempt"],
        worker_pid=row["pid"] or None,
        actor_id=row["actor_id"],
        job_id=_node_id(),
        node_id=_node_id(),
        parent_task_id=task_id_of(row["parent"]) if row["parent"] else None,
    )


def _actor(row: dict[str, Any]) -> Row:
    return Row(
        actor_id=row["id"],
        class_name=row["class_name"],
        state=_ACTOR_STATES[row["state"]],
        name=row["name"],
        ray_namespace=row["namespace"],
        pid=row["pid"],
        job_id=_node_id(),
        node_id=_node_id(),
    )


def _object(row: dict[str, Any]) -> Row:
    return Row(
        object_id=row["id"],
        object_size=row["size"],
        task_status="FINISHED" if row["state"] != "pending" else "RUNNING",
        reference_type="LOCAL_REFERENCE" if row["held_by"] else "USED_BY_PENDING_TASK",
        pid=row["held_by"][0] if row["held_by"] else None,
        call_site=row["made_by"],
        ip="127.0.0.1",
    )


def _worker(row: dict[str, Any]) -> Row:
    return Row(
        worker_id=worker_id_of(row["index"]),
        worker_type=row["role"].upper(),
        pid=row["pid"],
        is_alive=True,
        node_id=_node_id(),
        ip="127.0.0.1",
    )


def _node(row: dict[str, Any]) -> Row:
    return Row(
        node_id=row["NodeID"],
        node_name=row["NodeName"],
        node_ip="127.0.0.1",
        is_head_node=True,
        state="ALIVE",
        resources_total=row["Resources"],
    )


def _placement_group(row: dict[str, Any]) -> Row:
    return Row(
        placement_group_id=row["id"],
        name=row["name"],
        state=_placement.STATES[row["state"]],
        bundles=row["bundles"],
        creator_job_id=_node_id(),
    )


def _node_id() -> str:
    return _running().node.session_id


def _job(row: dict[str, Any]) -> Row:
    status = {"running": "RUNNING", "ended": "SUCCEEDED", "lost": "FAILED"}[row["state"]]
    return Row(
        job_id=_node_id(),
        submission_id=None,
        type="DRIVER",
        status=status,
        entrypoint=row["program"],
        driver_info={"id": str(row["pid"]), "pid": str(row["pid"])},
    )


def _lister(ours: Callable[..., Any], convert: Callable[[dict[str, Any]], Row]) -> Callable[..., list[Row]]:
    def list_rows(
        address: str | None = None,
        filters: Sequence[tuple[str, str, Any]] | None = None,
        limit: int = 100,
        **ignored: Any,
    ) -> list[Row]:
        """The rows that pass all filters, (column, "=" or "!=", value)."""
        return _selecting.selected(map(convert, ours(limit=_ours.EVERY)), filters or (), limit)

    return list_rows


def _tasks(limit: int) -> list[dict[str, Any]]:
    ids = {row["actor"]: row["id"] for row in _ours.list_actors(limit=limit)}
    return [{**row, "actor_id": ids.get(row["actor"])} for row in _ours.list_tasks(limit=limit)]


list_tasks: Callable[..., list[Row]] = _lister(_tasks, _task)
list_actors: Callable[..., list[Row]] = _lister(_ours.list_actors, _actor)
list_objects: Callable[..., list[Row]] = _lister(_ours.list_objects, _object)
list_workers: Callable[..., list[Row]] = _lister(_ours.list_workers, _worker)
list_nodes: Callable[..., list[Row]] = _lister(_ours.list_nodes, _node)
list_jobs: Callable[..., list[Row]] = _lister(_ours.list_jobs, _job)
list_placement_groups: Callable[..., list[Row]] = _lister(_ours.list_placement_groups, _placement_group)


def _getter(list_rows: Callable[..., list[Row]], column: str) -> Callable[..., Row | None]:
    def get_row(id: str | Ref[Any], **ignored: Any) -> Row | None:
        """The row of that id, None if there is none; of a ref, that of its task."""
        id = task_id_of(id.creator) if isinstance(id, Ref) else id
        return next(iter(list_rows(filters=[(column, "=", id)], limit=1)), None)

    return get_row


get_task: Callable[..., Row | None] = _getter(list_tasks, "task_id")
get_actor: Callable[..., Row | None] = _getter(list_actors, "actor_id")
get_worker: Callable[..., Row | None] = _getter(list_workers, "worker_id")
get_job: Callable[..., Row | None] = _getter(list_jobs, "job_id")
get_node: Callable[..., Row | None] = _getter(list_nodes, "node_id")
get_placement_group: Callable[..., Row | None] = _getter(list_placement_groups, "placement_group_id")


def get_objects(id: str, **ignored: Any) -> list[Row]:
    """What is known of an object."""
    return list_objects(filters=[("object_id", "=", id)])


def list_logs(glob_filter: str | None = None, **ignored: Any) -> dict[str, list[str]]:
    """The names of the files in `init(log_dir=...)`, which `cellmesh.init` takes."""
    names = (os.path.basename(row["path"]) for row in _ours.list_logs())
    return {"worker_out": [name for name in names if fnmatch.fnmatch(name, glob_filter or "*")]}


def get_log(
    *,
    filename: str | None = None,
    actor_id: str | None = None,
    task_id: str | None = None,
    pid: int | None = None,
    tail: int = -1,
    **ignored: Any,
) -> Iterator[str]:
    """What was printed, line by line."""
    if filename is not None:
        pid = next((row["pid"] for row in _ours.list_logs() if os.path.basename(row["path"]) == filename), -1)
    task = None if task_id is None else int(task_id, 16)
    return iter(_ours.get_log(task, actor=actor_id, pid=pid, tail=tail).splitlines(keepends=True))


def _summary(rows: list[Row], column: str) -> dict[str, Any]:
    counts = Counter((row[column], row["state"]) for row in rows)
    found: dict[str, Any] = {}
    for (name, state), n in counts.items():
        found.setdefault(name, {column: name, "state_counts": {}})["state_counts"][state] = n
    return found


def summarize_tasks(**ignored: Any) -> dict[str, Any]:
    """How many tasks of each function are in each state."""
    rows = list_tasks(limit=_ours.EVERY)
    return {
        "cluster": {
            "summary": _summary(rows, "func_or_class_name"),
            "summary_by": "func_name",
            "total_tasks": sum(row["type"] == "NORMAL_TASK" for row in rows),
            "total_actor_tasks": sum(row["type"] == "ACTOR_TASK" for row in rows),
        }
    }


def summarize_actors(**ignored: Any) -> dict[str, Any]:
    """How many actors of each class are in each state."""
    rows = list_actors(limit=_ours.EVERY)
    return {"cluster": {"summary": _summary(rows, "class_name"), "summary_by": "class", "total_actors": len(rows)}}


def summarize_objects(**ignored: Any) -> dict[str, Any]:
    """How many objects there are, and how large."""
    rows = list_objects(limit=_ours.EVERY)
    size = sum(row["object_size"] for row in rows)
    return {"cluster": {"total_objects": len(rows), "total_size_mb": size / (1 << 20)}}
