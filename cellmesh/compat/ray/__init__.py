"""Ray's core API, with cellmesh behind it: `import cellmesh.compat.ray as ray` runs a core Ray program.

Renames and small adaptations only. To run a script without editing it: `python -m cellmesh.compat.ray script.py`; to
have other people's modules `import ray` find this one: `cellmesh.compat.ray.install()`.
"""
from __future__ import annotations

from typing import Any

from ... import api as _api
from ...actor import method
from ...api import get_actor, timeline
from ...generator import ObjectRefGenerator
from ...ids import ActorID, JobID, NodeID, PlacementGroupID, TaskID, WorkerID
from ...ids import Id as UniqueID
from ...lifecycle import is_initialized, shutdown
from ...objects import get as _get
from ...objects import put as _put
from ...refs import ObjectRef
from .. import missing as _missing
from ..alias import install, uninstall
from . import actor, exceptions, experimental, remote_function, runtime_context, runtime_env, util
from ._init import LoggingConfig, RayContext, init
from .runtime_context import get_runtime_context

__version__ = "2.60.0"  # the Ray whose names these are
ObjectID = ObjectRef
DynamicObjectRefGenerator = ObjectRefGenerator
SCRIPT_MODE, WORKER_MODE, LOCAL_MODE = 0, 1, 2
NODE_ADDRESS = "127.0.0.1"

__all__ = [
    "ActorID", "DynamicObjectRefGenerator", "JobID", "LoggingConfig", "NodeID", "ObjectID", "ObjectRef",
    "ObjectRefGenerator", "PlacementGroupID", "RayContext", "SCRIPT_MODE", "TaskID", "UniqueID", "WORKER_MODE",
    "WorkerID", "actor", "available_resources", "cancel", "cluster_resources", "exceptions", "experimental", "get",
    "get_actor", "get_gpu_ids", "get_runtime_context", "init", "install", "is_initialized", "kill", "method", "nodes",
    "put", "remote", "remote_function", "runtime_context", "runtime_env", "shutdown", "timeline", "uninstall", "util",
    "wait",
]

remote = _api.remote
__getattr__ = _missing.no_such_name("ray")


def get(object_refs: Any, *, timeout: float | None = None, **ignored: Any) -> Any:
    """`cellmesh.get`; Ray says ValueError of what is neither a ref nor a list."""
    if not isinstance(object_refs, (list, ObjectRef)):
        raise ValueError(f"get() needs an ObjectRef or a list of them, not {object_refs!r}")
    return _get(object_refs, timeout)


def put(value: Any, *, _owner: Any = None) -> ObjectRef:
    """`cellmesh.put`; an object needs no owner to live on."""
    return _put(value)


def wait(ray_waitables: list[Any], *, num_returns: int = 1, timeout: float | None = None,
         fetch_local: bool = True) -> tuple[list[Any], list[Any]]:
    """`cellmesh.wait`."""
    return _api.wait(ray_waitables, num_returns=num_returns, timeout=timeout, fetch_local=fetch_local)


def cancel(ray_waitable: Any, *, force: bool = False, recursive: bool = True) -> None:
    """`cellmesh.cancel`; what was put is passed over."""
    if not isinstance(ray_waitable, ObjectRef) or not ray_waitable.client.info(ray_waitable)["put"]:
        _api.cancel(ray_waitable, force=force, recursive=recursive)


def kill(actor: Any, *, no_restart: bool = True) -> None:
    """`cellmesh.kill`; Ray says ValueError of what is no actor."""
    try:
        _api.kill(actor, no_restart=no_restart)
    except TypeError as error:
        raise ValueError(str(error)) from None


def get_gpu_ids() -> list[int] | list[str]:
    """`cellmesh.get_gpu_ids`, as numbers where they are numbers."""
    ids = _api.get_gpu_ids()
    return [int(device) for device in ids] if all(device.isdigit() for device in ids) else ids


def nodes() -> list[dict[str, Any]]:
    """`cellmesh.nodes` with Ray's keys."""
    return [{**row, "alive": row["Alive"], "NodeManagerAddress": NODE_ADDRESS, "NodeManagerHostname": row["NodeName"]}
            for row in _api.nodes()]


def cluster_resources() -> dict[str, float]:
    """`cellmesh.cluster_resources`, with the resource that each node of Ray has."""
    return {**_api.cluster_resources(), f"node:{NODE_ADDRESS}": 1.0}


def available_resources() -> dict[str, float]:
    """`cellmesh.available_resources`, likewise."""
    return {**_api.available_resources(), f"node:{NODE_ADDRESS}": 1.0}
