"""`ray.init` and what it returns."""

from __future__ import annotations

import os
import platform
import re
import signal
import sys
import threading
from typing import Any

from ... import front_end
from ...session.current import current, current_or_none
from ...startup import init as lifecycle
from ...startup import init_arguments
from ...startup.context import Context
from ._version import __version__

# What belongs to Ray's own processes: dashboards, logs, ports, nodes. Nothing is there that it could mean.
IGNORED = {
    "include_dashboard",
    "dashboard_host",
    "dashboard_port",
    "job_config",
    "configure_logging",
    "logging_level",
    "logging_format",
    "logging_config",
    "enable_resource_isolation",
    "system_reserved_cpu",
    "system_reserved_memory",
    "cgroup_path",
    "proxy_server_url",
    "storage",
}
TAKEN = {
    "address",
    "num_cpus",
    "num_gpus",
    "memory",
    "resources",
    "object_store_memory",
    "namespace",
    "log_to_driver",
    "runtime_env",
    "object_spilling_directory",
    "labels",
    "_memory",
}
RENAMED = {"object_spilling_directory": "offload_dir", "_memory": "memory"}


def check_namespace(namespace: Any) -> None:
    """As Ray tells what a namespace is.

    Raises
    ------
    TypeError, ValueError
        It is no text, or an empty one.
    """
    if namespace is not None and not isinstance(namespace, str):
        raise TypeError(f"namespace must be None or a string, not {namespace!r}")
    if namespace == "":
        raise ValueError('"" is not a valid namespace. Pass None to not specify a namespace.')


def _without_numbers(line: str) -> object:
    """Lines that differ in digits alone are equal for Ray, unless it is told that all differ."""
    return object() if os.environ.get("RAY_DEDUP_LOGS") == "0" else re.sub(r"\d+", "", line)


def _repeated(name: str, pid: int, line: str, count: int, n_workers: int) -> tuple[str, str]:
    return f"({name} pid={pid})", f"{line} [repeated {count}x across cluster]"


class RayProgram(front_end.Program):
    """What tasks print looks as with Ray."""

    folding = front_end.Folding(_without_numbers, _repeated)

    def label_of(self, name: str, origin: int) -> str:
        """What Ray writes before a line that an actor prints: its class alone, "(Actor pid=...)"."""
        return name.partition(".")[0]


def _print_as_ray() -> None:
    """A notebook keeps its own front end, which shows more."""
    if type(front_end.current) is front_end.Program:
        front_end.current = RayProgram()


def _end_on_sigterm() -> None:
    """Have SIGTERM end the driver by SystemExit, so that `finally` and `atexit` run; a handler of the program's
    stays.
    """
    of = current_or_none()
    is_worker = of is not None and of.is_worker
    if (
        not is_worker
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    ):
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(number))


class RayContext(Context):
    """What `ray.init` returns: `cellmesh.init`'s context with Ray's attributes."""

    dashboard_url = ""
    ray_commit = ""
    python_version: str = platform.python_version()

    def __init__(self, context: Context) -> None:
        super().__init__(context._session)

    @property
    def ray_version(self) -> str:
        """The Ray whose names these are."""
        return __version__

    @property
    def address_info(self) -> dict[str, Any]:
        """Where the session is."""
        found = super().address_info
        return {
            **found,
            "node_ip_address": "127.0.0.1",
            "raylet_socket_name": found["address"],
            "session_name": found["node_id"],
            "gcs_address": found["address"],
        }


def init(
    address: str | None = None, *, ignore_reinit_error: bool = False, local_mode: bool = False, **arguments: Any
) -> RayContext:
    """`cellmesh.init` with Ray's arguments; those about its dashboard, logs and ports are ignored.

    Raises
    ------
    RuntimeError
        `init` has been called already, or an argument is not one of Ray's.
    TypeError, ValueError
        An argument has a value that it does not take.
    """
    if unknown := [name for name in arguments if name not in IGNORED | TAKEN and not name.startswith("_")]:
        raise RuntimeError(
            f"Unknown keyword argument(s) to init: {', '.join(unknown)}. It takes address, "
            f"ignore_reinit_error, {', '.join(sorted(TAKEN - {'address'}))}"
        )
    if address is not None and address.startswith("ray://"):
        raise ValueError(
            f"init(address={address!r}): a program runs on that Ray cluster by cellmesh.init(address={address!r}) in "
            'place of this call, and on a cluster of cellmesh\'s, which `cellmesh start --head` begins, by "tcp://HOST:PORT"'
        )
    if local_mode:
        raise ValueError("local_mode=True is not supported, as in today's Ray: call the plain functions to debug them")
    if not ignore_reinit_error and lifecycle.is_initialized() and not current().is_worker:
        raise RuntimeError(
            "Maybe you called ray.init twice by accident? A session runs already: call ray.shutdown() "
            "first, or pass ignore_reinit_error=True"
        )
    config = arguments.get("job_config")
    if config is not None:  # what stands in the call counts
        arguments = {"namespace": config.ray_namespace, "runtime_env": config.runtime_env or None} | {
            name: value for name, value in arguments.items() if value is not None
        }
    check_namespace(arguments.get("namespace"))
    _end_on_sigterm()
    _print_as_ray()
    taken = {RENAMED.get(name, name): value for name, value in arguments.items() if name in TAKEN and value is not None}
    if not init_arguments.asked_cluster({"address": address}):
        taken.pop("labels", None)  # one node has nothing to choose from
    return RayContext(lifecycle.init(address, ignore_reinit_error=ignore_reinit_error, **taken))
