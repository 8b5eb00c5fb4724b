"""`ray.runtime_context`: the methods are cellmesh's, older programs use properties, which are ids with `hex()`."""
from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ... import machines
from ... import runtime_context as _ours
from ...ids import ActorID, Id, JobID, NodeID, PlacementGroupID, TaskID, WorkerID
from ...placement import get_current_placement_group
from ...session import current
from .. import missing as _missing

__all__ = ["RuntimeContext", "get_runtime_context"]
__getattr__ = _missing.no_such_name("ray.runtime_context")


def _as(kind: type[Id], getter: Callable[[Any], str | None]) -> property:
    def get(self: Any) -> Id | None:
        found = getter(self)
        return None if found is None else kind(found)
    return property(get, doc=getter.__doc__)


class RuntimeContext(_ours.RuntimeContext):
    """`cellmesh`'s, with Ray's older spelling."""

    job_id = _as(JobID, _ours.RuntimeContext.get_job_id)
    node_id = _as(NodeID, _ours.RuntimeContext.get_node_id)
    worker_id = _as(WorkerID, _ours.RuntimeContext.get_worker_id)
    task_id = _as(TaskID, _ours.RuntimeContext.get_task_id)
    actor_id = _as(ActorID, _ours.RuntimeContext.get_actor_id)

    get_resource_ids = _ours.RuntimeContext.get_accelerator_ids
    get_session_name = _ours.RuntimeContext.get_job_id
    get_task_function_name = _ours.RuntimeContext.get_task_name

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
