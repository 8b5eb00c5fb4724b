"""`ray.cluster_utils`: a cluster of several nodes on this machine, for tests.

Each node is a session without a driver, as `cellmesh start` makes it, in a folder of its own; they end with
`shutdown()` or with the program.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...session.current import current_or_none
from ...startup import init as lifecycle
from .. import missing as _missing
from ._init import RayContext, init

__all__ = ["Cluster", "ClusterNode"]
__getattr__: _missing.NoSuchName = _missing.no_such_name("ray.cluster_utils")

DEFAULTS = {"num_cpus": 1, "num_gpus": 0, "object_store_memory": 150 << 20}  # Ray's
TAKEN = ("num_cpus", "num_gpus", "memory", "resources", "object_store_memory", "labels")
IGNORED = (
    "dashboard",
    "include_",
    "redis_",
    "node_ip_address",
    "node_name",
    "raylet_",
    "plasma_",
    "temp_dir",
    "env_vars",
    "logging",
    "_",
)
LOOK_S = 0.05  # between looks at who has joined


@dataclass(frozen=True)
class ClusterNode:
    """One of the nodes: its session, and the folder that it lies in."""

    session: str
    folder: str
    is_head: bool

    @property
    def node_id(self) -> str:
        """As in `ray.nodes()`."""
        return self.session

    unique_id = node_id

    @property
    def socket(self) -> str:
        """Where a driver joins this node."""
        (found,) = Path(self.folder).glob(f"**/session-{self.session}/node.sock")
        return str(found)


class Cluster:
    """A head with a node, and more nodes, all on this machine.

    Parameters
    ----------
    initialize_head : bool
        Start the head now, with `head_node_args`, which `add_node` takes.
    connect : bool
        And join it as a driver.
    shutdown_at_exit : bool
        End all of it with the program.

    Raises
    ------
    RuntimeError
        It is to be connected without a head, or a node cannot be started.
    """

    def __init__(
        self,
        initialize_head: bool = False,
        connect: bool = False,
        head_node_args: Mapping[str, Any] | None = None,
        shutdown_at_exit: bool = True,
    ) -> None:
        self.head_node: ClusterNode | None = None
        self.worker_nodes: list[ClusterNode] = []
        self.connected: bool = False
        self._root = ""
        self._head_address = ""
        if connect and not initialize_head:
            raise RuntimeError("Cannot connect to uninitialized cluster: Cluster(initialize_head=True, connect=True)")
        if shutdown_at_exit:
            atexit.register(self.shutdown)
        if initialize_head:
            self.add_node(**(head_node_args or {}))
        if connect:
            self.connect()

    @property
    def address(self) -> str | None:
        """What `ray.init(address=...)` takes to join the head's node as a driver; None before there is one."""
        return self.head_node and self.head_node.socket

    gcs_address = address

    def connect(self, namespace: str | None = None) -> RayContext:
        """Join the cluster as a driver."""
        if self.address is None or self.connected:
            raise RuntimeError(
                "the cluster is connected already"
                if self.connected
                else "the cluster has no head: add_node() starts it"
            )
        context = init(address=self.address, namespace=namespace, ignore_reinit_error=True)
        self.connected = True
        return context

    def add_node(self, wait: bool = True, **node_args: Any) -> ClusterNode:
        """Start a node, the first one with the head of the cluster.

        Parameters
        ----------
        wait : bool
            Without effect: a node that is there has joined.
        **node_args
            num_cpus (default 1), num_gpus, memory, resources, object_store_memory (default 150 MiB), labels; what is
            about Ray's own processes is passed over.

        Raises
        ------
        TypeError
            An argument is unknown.
        RuntimeError
            The node does not start.
        """
        if unknown := [
            name
            for name in node_args
            if name not in TAKEN and not name.startswith(IGNORED) and not name.endswith(("_port", "_ports"))
        ]:
            raise TypeError(f"add_node() has no argument {', '.join(map(repr, unknown))}; it takes {', '.join(TAKEN)}")
        given = {
            **DEFAULTS,
            **{name: value for name, value in node_args.items() if name in TAKEN and value is not None},
        }
        self._root = self._root or tempfile.mkdtemp(prefix="cm")  # short: a unix socket's path ends at 107 bytes
        folder = tempfile.mkdtemp(prefix="n", dir=self._root)
        where = ["--address", self._head_address] if self.head_node else ["--head", "--port", "0"]
        told = json.loads(
            self._run(
                folder,
                "start",
                "--json",
                *where,
                *(part for name, value in given.items() for part in _flag(name, value)),
            )
        )
        node = ClusterNode(told["session"], folder, is_head=self.head_node is None)
        if node.is_head:
            self.head_node, self._head_address = node, told["address"]
        else:
            self.worker_nodes.append(node)
        return node

    def remove_node(self, node: ClusterNode, allow_graceful: bool = True) -> None:
        """End a node; with the head's node the whole cluster has ended.

        Parameters
        ----------
        node : ClusterNode
            What `add_node` returned.
        allow_graceful : bool
            False: kill it, so that the others must find out.

        Raises
        ------
        ValueError
            It is none of the nodes, or the one that the driver is connected to, which is shut down then.
        """
        if node not in self.list_all_nodes():
            raise ValueError(f"{node!r} is not, or no longer, a node of this cluster: it has {self.list_all_nodes()}")
        of = current_or_none()
        if of is not None and of.node.session_id == node.session and self.connected:
            lifecycle.shutdown()
            self.connected = False
            raise ValueError(
                "Removing a node that is connected to this driver is not allowed because it would break the driver"
            )
        self._run(node.folder, "stop", *(() if allow_graceful else ("--force",)))
        if node.is_head:
            self.head_node = None
        else:
            self.worker_nodes.remove(node)

    def list_all_nodes(self) -> list[ClusterNode]:
        """The nodes, that of the head first."""
        return [*([self.head_node] if self.head_node else []), *self.worker_nodes]

    def wait_for_nodes(self, timeout: float = 30) -> None:
        """Wait until those nodes are alive, and no others, that were added and not removed.

        Raises
        ------
        TimeoutError
            That is not so within `timeout` seconds.
        """
        end = time.monotonic() + timeout
        wanted = {node.session for node in self.list_all_nodes()}
        while (there := self._alive()) != wanted:
            if time.monotonic() > end:
                raise TimeoutError(
                    f"Timed out while waiting for nodes to join: {sorted(there)} are alive after {timeout:g} s, not "
                    f"{sorted(wanted)}"
                )
            time.sleep(LOOK_S)

    def remaining_processes_alive(self) -> bool:
        """Whether every node that was added and not removed is alive."""
        return self._alive() >= {node.session for node in self.list_all_nodes()}

    def shutdown(self) -> None:
        """End all nodes, the driver's session if it is connected, and remove their folders. May be called twice."""
        atexit.unregister(self.shutdown)
        if self.connected:
            lifecycle.shutdown()
            self.connected = False
        for node in reversed(self.list_all_nodes()):
            self.remove_node(node)
        if self._root:
            shutil.rmtree(self._root)
            self._root = self._head_address = ""

    def _alive(self) -> set[str]:
        if self.head_node is None:
            return set()
        clusters = json.loads(self._run(self.head_node.folder, "status", "--json"))
        return {row["session"] for cluster in clusters for row in cluster.get("nodes", ()) if row["state"] == "alive"}

    def _run(self, folder: str, *arguments: str) -> str:
        """What `cellmesh ARGUMENTS` prints where a node has its folder. The keys of the cluster are common to all."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("CELLMESH_SESSION")}
        done = subprocess.run(
            [sys.executable, "-m", "cellmesh.cli", *arguments],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
            env={**environment, "XDG_RUNTIME_DIR": folder, "XDG_STATE_HOME": os.path.join(self._root, "state")},
        )
        if done.returncode:
            raise RuntimeError(
                f"`cellmesh {' '.join(arguments)}` has failed: {done.stderr.strip() or done.stdout.strip()}"
            )
        return done.stdout


def _flag(name: str, value: Any) -> list[str]:
    if name == "labels":
        value = ",".join(f"{label}={text}" for label, text in value.items())
    elif name == "resources":
        value = json.dumps(value)
    return [f"--{name.replace('_', '-')}", str(value)] if value != "" else []
