"""`ray.init` and what it returns."""
from __future__ import annotations

import platform
from dataclasses import dataclass, field
from typing import Any

from ... import lifecycle, session, startup
from ...context import Context

# What belongs to Ray's own processes: dashboards, logs, ports, nodes. Nothing is there that it could mean.
IGNORED = {"include_dashboard", "dashboard_host", "dashboard_port", "job_config", "configure_logging", "logging_level",
           "logging_format", "logging_config", "enable_resource_isolation", "system_reserved_cpu",
           "system_reserved_memory", "storage"}
TAKEN = {"address", "num_cpus", "num_gpus", "memory", "resources", "object_store_memory", "namespace", "log_to_driver",
         "runtime_env", "object_spilling_directory", "labels"}
RENAMED = {"object_spilling_directory": "offload_dir"}


@dataclass
class LoggingConfig:
    """Accepted by `init`, and without effect: what tasks print goes to the driver as it is."""

    encoding: str = "TEXT"
    log_level: str = "INFO"
    additional_log_standard_attrs: list[str] = field(default_factory=list)


class RayContext(Context):
    """What `ray.init` returns: `cellmesh.init`'s context with Ray's attributes."""

    dashboard_url = ""
    ray_commit = ""
    python_version = platform.python_version()

    def __init__(self, context: Context) -> None:
        super().__init__(context._session)

    @property
    def ray_version(self) -> str:
        """The Ray whose names these are."""
        from . import __version__
        return __version__

    @property
    def address_info(self) -> dict[str, Any]:
        """Where the session is."""
        found = super().address_info
        return {**found, "node_ip_address": "127.0.0.1", "raylet_socket_name": found["address"],
                "session_name": found["node_id"], "gcs_address": found["address"]}


def init(address: str | None = None, *, ignore_reinit_error: bool = False, local_mode: bool = False,
         **arguments: Any) -> RayContext:
    """`cellmesh.init` with Ray's arguments; those about its dashboard, logs and ports are ignored.

    Raises
    ------
    RuntimeError
        `init` has been called already, or an argument is not one of Ray's.
    """
    if unknown := [name for name in arguments if name not in IGNORED | TAKEN and not name.startswith("_")]:
        raise RuntimeError(f"Unknown keyword argument(s) to init: {', '.join(unknown)}. It takes address, "
                           f"ignore_reinit_error, {', '.join(sorted(TAKEN - {'address'}))}")
    if local_mode:
        raise ValueError("local_mode=True is not supported, as in today's Ray: call the plain functions to debug them")
    if not ignore_reinit_error and lifecycle.is_initialized() and not session.current().is_worker:
        raise RuntimeError("Maybe you called ray.init twice by accident? A session runs already: call ray.shutdown() "
                           "first, or pass ignore_reinit_error=True")
    taken = {RENAMED.get(name, name): value for name, value in arguments.items() if name in TAKEN and value is not None}
    if not startup.asked_cluster({"address": address}):
        taken.pop("labels", None)  # one node has nothing to choose from
    return RayContext(lifecycle.init(address, ignore_reinit_error=ignore_reinit_error, **taken))
