"""`python -m cellmesh.compat.ray start ...`: Ray's command line, said in cellmesh's.

What Ray's options say of its own processes (dashboards, ports, logs, usage statistics) is passed over.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

# Options of `ray start` -> those of `cellmesh start` that take the same value.
SAME = {
    "--address": "--address",
    "--port": "--port",
    "--node-ip-address": "--host",
    "--num-cpus": "--num-cpus",
    "--num-gpus": "--num-gpus",
    "--memory": "--memory",
    "--object-store-memory": "--object-store-memory",
    "--resources": "--resources",
    "--object-spilling-directory": "--offload-dir",
}
FLAGS = ("--head", "--block")
IGNORED = (
    "--dashboard-host",
    "--dashboard-port",
    "--dashboard-agent-listen-port",
    "--dashboard-agent-grpc-port",
    "--dashboard-grpc-port",
    "--include-dashboard",
    "--node-name",
    "--object-manager-port",
    "--node-manager-port",
    "--gcs-server-port",
    "--min-worker-port",
    "--max-worker-port",
    "--worker-port-list",
    "--ray-client-server-port",
    "--runtime-env-agent-port",
    "--metrics-export-port",
    "--temp-dir",
    "--redis-password",
    "--redis-username",
    "--log-style",
    "--log-color",
    "--system-config",
)
IGNORED_FLAGS = ("--disable-usage-stats", "--no-monitor", "--verbose", "-v", "--no-redirect-output")
PASSED_ON = ("list", "memory", "metrics", "stack", "status", "summary", "timeline")  # they mean the same
COMMANDS = ("start", "stop", *PASSED_ON)


def translated(arguments: Sequence[str]) -> list[str]:
    """The command line of cellmesh for one of Ray's, which begins with a command.

    Raises
    ------
    SystemExit
        It is none of Ray's; argparse has said what is.
    """
    command, *rest = arguments
    return {"start": _start, "stop": _stop}.get(command, lambda rest: [command, *rest])(rest)


def _start(arguments: list[str]) -> list[str]:
    parser = argparse.ArgumentParser(
        prog="python -m cellmesh.compat.ray start", description="`cellmesh start` with Ray's options."
    )
    for option in SAME:
        parser.add_argument(option)
    parser.add_argument("--labels", type=_labels, help="name=value,name=value, or a dict as JSON")
    for flag in FLAGS:
        parser.add_argument(flag, action="store_true")
    _ignore(parser)
    given = vars(parser.parse_args(arguments))
    flags = [flag for flag in FLAGS if given[_name_of(flag)]]
    valued = {ours: given[_name_of(rays)] for rays, ours in {**SAME, "--labels": "--labels"}.items()}
    return [
        "start",
        *flags,
        *(part for option, value in valued.items() if value is not None for part in (option, value)),
    ]


def _stop(arguments: list[str]) -> list[str]:
    parser = argparse.ArgumentParser(
        prog="python -m cellmesh.compat.ray stop", description="`cellmesh stop` with Ray's options."
    )
    parser.add_argument("-f", "--force", action="store_true", help="kill every process at once")
    parser.add_argument("-g", "--grace-period", help="without effect: processes have five seconds")
    _ignore(parser)
    return ["stop", *(["--force"] if parser.parse_args(arguments).force else [])]


def _ignore(parser: argparse.ArgumentParser) -> None:
    for option in IGNORED:
        parser.add_argument(option, help=argparse.SUPPRESS)
    parser.add_argument(*IGNORED_FLAGS, action="store_true", help=argparse.SUPPRESS)


def _name_of(option: str) -> str:
    return option.lstrip("-").replace("-", "_")


def _labels(text: str) -> Any:
    if not text.startswith("{"):
        return text
    try:
        return ",".join(f"{name}={value}" for name, value in json.loads(text).items())
    except json.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a dict as JSON: {error}") from None
