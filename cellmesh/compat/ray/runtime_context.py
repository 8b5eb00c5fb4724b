"""`ray.runtime_context`: the methods are cellmesh's, older programs use properties, which are ids with `hex()`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from ...ids import ActorID, Id, JobID, NodeID, PlacementGroupID, TaskID, WorkerID
from ...observe import nodes as machines
from ...session.current import current
from ...submit.placement_groups import get_current_placement_group
from ...tasks import runtime_context as _ours
from .. import missing as _missing
from ._ids import task_id_of, worker_id_of

__all__ = ["RuntimeContext", "get_runtime_context"]
__getattr__: _missing.NoSuchName = _missing.no_such_name("ray.runtime_context")

NOT_USERS = {"cellmesh", "asyncio", "threading"}  # packages from which a task's function is called


def _as(kind: type[Id], getter: Callable[[Any], str | None]) -> property:
    def get(self: Any) -> Id | None:
        found = getter(self)
        return None if found is None else kind(found)

    return property(get, doc=getter.__doc__)


def _function_name() -> str:
    """The function that the caller's task runs, as Ray names it: "module.f", "module.Actor.method"; a script is the
    module of its name.
    """
    frame, found = sys._getframe(2), None
    while frame is not None and _root_of(frame) not in NOT_USERS:
        found, frame = frame, frame.f_back
    if found is None:
        return ""
    module = found.f_globals.get("__name__")
    if module == "__main__":
        module = Path(found.f_code.co_filename).stem
    return f"{module}.{found.f_code.co_qualname.rpartition('<locals>.')[2]}"


def _root_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__")).partition(".")[0]


class RuntimeContext(_ours.RuntimeContext):
    """`cellmesh`'s, with Ray's older spelling."""

    def get_worker_id(self) -> str:
        """The process's id."""
        return worker_id_of(int(super().get_worker_id()))

    def get_task_id(self) -> str | None:
        """That of the running task; None in the driver."""
        number = super().get_task_id()
        return None if number is None else task_id_of(int(number))

    def get_task_function_name(self) -> str | None:
        """The function of the running task, with its module; None in the driver."""
        return None if self.get_task_id() is None else _function_name()

    def get(self) -> dict[str, Any]:
        """Ids and the namespace; of a task and an actor only where the caller is in one."""
        found = {
            "job_id": self.job_id,
            "node_id": self.node_id,
            "namespace": self.namespace,
            "task_id": self.task_id,
            "actor_id": self.actor_id,
        }
        return {name: value for name, value in found.items() if value is not None}

    job_id: property = _as(JobID, _ours.RuntimeContext.get_job_id)
    node_id: property = _as(NodeID, _ours.RuntimeContext.get_node_id)
    worker_id: property = _as(WorkerID, get_worker_id)
    task_id: property = _as(TaskID, get_task_id)
    actor_id: property = _as(ActorID, _ours.RuntimeContext.get_actor_id)

    def get_resource_ids(self) -> dict[str, list[str]]:
        """The accelerators that the task or actor was given."""
        return self.get_accelerator_ids()

    def get_session_name(self) -> str:
        """The id of the session."""
        return self.get_job_id()

    def get_runtime_env_string(self) -> str:
        """`runtime_env` as JSON."""
        return json.dumps(self.runtime_env, default=repr)

    def get_placement_group_id(self) -> str | None:
        """That of the group that the caller runs in."""
        group = get_current_placement_group()
        return None if group is None else group.id.hex()

    @property
    def current_placement_group_id(self) -> PlacementGroupID | None:
        """That of the group that the caller runs in."""
        found = self.get_placement_group_id()
        return None if found is None else PlacementGroupID(found)

    def get_temp_dir(self) -> str:
        """Where the session keeps its files."""
        return str(self._session.node.session_dir)

    def get_node_labels(self) -> dict[str, str]:
        """Those of the caller's node; without a cluster it has none."""
        return next((row["Labels"] for row in machines.rows(self._session) if row["ThisNode"]), {})

    @property
    def gcs_address(self) -> str:
        """Where the session is."""
        return str(self._session.node.session_dir)


def get_runtime_context() -> RuntimeContext:
    """Where the caller runs."""
    return RuntimeContext(current())
