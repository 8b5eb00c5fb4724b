"""Ray's core API, with cellmesh behind it: `import cellmesh.compat.ray as ray` runs a core Ray program. Renames and
small adaptations; never a second implementation.

To run a script without editing it: `python -m cellmesh.compat.ray script.py`; to have other people's modules `import
ray` find this one: `cellmesh.compat.ray.install()`.
"""

from __future__ import annotations

import inspect
from collections import Counter
from importlib import import_module
from typing import TYPE_CHECKING, Any
from typing import TypeVar as _TypeVar

from ... import api as _api
from ...api import timeline
from ...ids import ActorClassID, ActorID, FunctionID, JobID, NodeID, PlacementGroupID, TaskID, WorkerID
from ...ids import Id as UniqueID
from ...objects import get as _get
from ...objects import put as _put
from ...objstore._core import Ref as _Ref
from ...objstore._core import refs_are_plain as _refs_are_plain
from ...startup.init import is_initialized
from ...startup.init import shutdown as _shutdown
from ...submit.actor import ActorHandle
from ...submit.actor_blueprint import method
from ...submit.generator import ObjectRefGenerator
from ...waiting import wait as _wait
from .. import missing as _missing
from ..alias import install, uninstall
from . import (
    actor,
    cloudpickle,
    exceptions,
    experimental,
    job_config,
    remote_function,
    runtime_context,
    runtime_env,
    util,
)
from ._init import RayContext, check_namespace, init
from ._refs import ObjectRef
from ._version import __version__ as __version__
from .job_config import LoggingConfig
from .runtime_context import get_runtime_context

ObjectID = ObjectRef
DynamicObjectRefGenerator = ObjectRefGenerator
SCRIPT_MODE, WORKER_MODE, LOCAL_MODE = 0, 1, 2
NODE_ADDRESS = "127.0.0.1"

__all__ = [
    "SCRIPT_MODE",
    "WORKER_MODE",
    "ActorClassID",
    "ActorID",
    "DynamicObjectRefGenerator",
    "FunctionID",
    "JobID",
    "LoggingConfig",
    "NodeID",
    "ObjectID",
    "ObjectRef",
    "ObjectRefGenerator",
    "PlacementGroupID",
    "RayContext",
    "TaskID",
    "UniqueID",
    "WorkerID",
    "actor",
    "available_resources",
    "cancel",
    "cloudpickle",
    "cluster_resources",
    "cluster_utils",
    "exceptions",
    "experimental",
    "get",
    "get_actor",
    "get_gpu_ids",
    "get_runtime_context",
    "init",
    "install",
    "is_initialized",
    "job_config",
    "kill",
    "method",
    "nodes",
    "put",
    "remote",
    "remote_function",
    "rllib",
    "runtime_context",
    "runtime_env",
    "shutdown",
    "timeline",
    "train",
    "tune",
    "uninstall",
    "util",
    "wait",
]

_refuse = _missing.no_such_name("ray")


def __getattr__(name: str) -> Any:
    if name in (
        "cluster_utils",
        "rllib",
        "train",
        "tune",
    ):  # not before they are asked for: they need what a core program does not
        return import_module(f".{name}", __name__)
    return _refuse(name)


_T = _TypeVar("_T")

_refs_are_plain(True)  # `if ref:` and `ref == other` are common in Ray's programs


def get(object_refs: Any, *, timeout: float | None = None, **ignored: Any) -> Any:
    """`cellmesh.get`; Ray says ValueError of what is neither a ref nor a list."""
    if not isinstance(object_refs, (list, _Ref)):
        raise ValueError(
            f"Invalid type of object refs, {type(object_refs)}, is given: get() needs an ObjectRef or a list of them, "
            f"not {object_refs!r}"
        )
    return _get(
        object_refs,
        None if timeout is not None and timeout < 0 else timeout,  # below 0: for ever, as Ray takes it
        readonly=True,
    )


def put(value: _T, *, _owner: object = None, **ignored: object) -> _Ref[_T]:
    """`cellmesh.put`; an object needs no owner to live on."""
    return _put(value)


def wait(
    ray_waitables: list[Any], *, num_returns: int = 1, timeout: float | None = None, fetch_local: bool = True
) -> tuple[list[Any], list[Any]]:
    """`cellmesh.wait`; Ray takes lists alone."""
    if not isinstance(ray_waitables, list):
        raise TypeError(f"wait() expected a list of ray.ObjectRef or ray.ObjectRefGenerator, not {ray_waitables!r}")
    return _wait(ray_waitables, num_returns=num_returns, timeout=timeout, fetch_local=fetch_local)


def cancel(ray_waitable: Any, *, force: bool = False, recursive: bool = True) -> None:
    """`cellmesh.cancel`; what was put is passed over."""
    if not isinstance(ray_waitable, (_Ref, ObjectRefGenerator)):
        raise TypeError(
            f"ray.cancel() only supported for object refs, not {ray_waitable!r}. For actors, try ray.kill()"
        )
    if isinstance(ray_waitable, ObjectRefGenerator) or not ray_waitable.client.info(ray_waitable)["put"]:
        _api.cancel(ray_waitable, force=force, recursive=recursive)


def kill(actor: Any, *, no_restart: bool = True) -> None:
    """`cellmesh.kill`; Ray says ValueError of what is no actor."""
    try:
        _api.kill(actor, no_restart=no_restart)
    except TypeError:
        raise ValueError(
            f"ray.kill() only supported for actors. For tasks, try ray.cancel(). Got: {type(actor)}"
        ) from None


def get_actor(name: str, namespace: str | None = None) -> ActorHandle[Any]:
    """`cellmesh.get_actor`, in Ray's words."""
    if not isinstance(name, str):
        raise TypeError(f"get_actor() needs the name of an actor, a string, not {name!r}")
    if not name:
        raise ValueError("Please supply a non-empty value to get_actor")
    check_namespace(namespace)
    try:
        return actor.WeakHandle(_api.get_actor(name, namespace))
    except ValueError as error:
        raise ValueError(f"Failed to look up actor with name '{name}': {error}") from None


def _refuse_async(code: Any) -> Any:
    if inspect.iscoroutinefunction(code):
        raise ValueError(
            "'async def' should not be used for remote tasks. You can wrap the async function with "
            "`asyncio.run(f())`, or make it a method of an actor class, whose async methods run concurrently"
        )
    return code


if TYPE_CHECKING:
    from ...api import remote
else:

    def remote(*args: Any, **options: Any) -> Any:
        """`cellmesh.remote`; Ray says ValueError of an async function."""
        if args:
            return _api.remote(*map(_refuse_async, args), **options)
        decorate = _api.remote(**options)
        return lambda code: decorate(_refuse_async(code))


def shutdown(**ignored: Any) -> None:
    """`cellmesh.shutdown`, which waits for the processes to end anyway."""
    _shutdown()


def get_gpu_ids() -> list[int] | list[str]:
    """`cellmesh.get_gpu_ids`, as numbers where they are numbers."""
    ids = _api.get_gpu_ids()
    return [int(device) for device in ids] if all(device.isdigit() for device in ids) else ids


def nodes() -> list[dict[str, Any]]:
    """`cellmesh.nodes` with Ray's keys."""
    found = []
    for row in _api.nodes():
        host, port = _address_of(row)
        found.append(
            {
                **row,
                "alive": row["Alive"],
                "NodeManagerAddress": host,
                "NodeManagerPort": port,
                "NodeManagerHostname": row["NodeName"],
            }
        )
    return found


def _address_of(row: dict[str, Any]) -> tuple[str, int]:
    """Host and port of a node; on a machine alone nobody listens."""
    host, _, port = row["Address"].rpartition(":")
    return host.strip("[]") or NODE_ADDRESS, int(port or 0)


def _with_addresses(amounts: dict[str, float]) -> dict[str, float]:
    """With the resource that each node of Ray has."""
    names = Counter(f"node:{_address_of(row)[0]}" for row in _api.nodes() if row["Alive"])
    return {**amounts, **{name: float(n) for name, n in names.items()}}


def cluster_resources() -> dict[str, float]:
    """`cellmesh.cluster_resources`, with the resource that each node of Ray has."""
    return _with_addresses(_api.cluster_resources())


def available_resources() -> dict[str, float]:
    """`cellmesh.available_resources`, likewise; of what is used up Ray says nothing."""
    return _with_addresses({name: amount for name, amount in _api.available_resources().items() if amount})
