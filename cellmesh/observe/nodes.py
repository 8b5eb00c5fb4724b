"""The machines that the session's tasks can run on: this one, and those of its cluster, as its head knows them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..exceptions import ClusterError
from ..scheduler.ipc.messages import ClusterNode, ClusterReply, ClusterRequest
from ..session.scheduler_client import ask

if TYPE_CHECKING:
    from ..session.session import Session

TIMEOUT_S = 15.0  # the agent answers sooner, whatever its head does, once it has begun


def of_cluster(of: Session, timeout_s: float = TIMEOUT_S) -> list[ClusterNode]:
    """The machines of the session's cluster, this one first; [] where there is none, or nobody says."""
    if not is_clustered(of):
        return []
    try:
        if of.is_worker:  # to which the local scheduler does not speak
            from ..session import agent_client

            return agent_client.machines(of, timeout_s).nodes
        return ask(of.node.link, ClusterRequest, ClusterReply, timeout_s).nodes
    except (LookupError, ClusterError):
        return []


def is_clustered(of: Session) -> bool:
    """Whether the session takes part in a cluster."""
    return of.in_cluster or of.has_left_cluster


def rows(of: Session) -> list[dict[str, Any]]:
    """What `cellmesh.nodes` gives."""
    found = of_cluster(of)
    total, free = of.client.resources()
    stats = of.client.stats()
    here = {
        "NodeID": of.node.session_id,
        "Alive": True,
        "NodeName": os.uname().nodename,
        "Resources": total,
        "SessionDir": of.node.session_dir,
        "Labels": {},
        "State": "alive",
        "ThisNode": True,
        "Number": "",
        "Available": free,
        "Queued": 0,
        "UsedBytes": stats["used_bytes"],
        "StoreBytes": stats["capacity_bytes"],
        "Reason": "",
        "Address": "",
    }
    if not any(row.is_here for row in found):
        return [here, *map(_as_row, found)]
    # Of this machine its segment knows better.
    return [
        _as_row(row)
        | (
            {name: here[name] for name in ("Resources", "SessionDir", "Available", "UsedBytes", "StoreBytes")}
            if row.is_here
            else {}
        )
        for row in found
    ]


def _as_row(row: ClusterNode) -> dict[str, Any]:
    return {
        "NodeID": row.session,
        "Alive": row.state != "dead",
        "NodeName": row.hostname,
        "Resources": row.total,
        "SessionDir": "",
        "Labels": row.labels,
        "State": row.state,
        "ThisNode": row.is_here,
        "Number": row.node,
        "Available": row.free,
        "Queued": row.n_queued,
        "UsedBytes": row.used_bytes,
        "StoreBytes": row.size_bytes,
        "Reason": row.reason,
        "Address": row.address,
    }


def amounts(of: Session, column: str) -> dict[str, float]:
    """What living nodes have of each resource, together."""
    total: Counter[str] = Counter()
    for row in rows(of):
        if row["Alive"]:
            total.update(row[column])
    return dict(total)


def names(nodes: list[ClusterNode]) -> dict[str, str]:
    """What to call each machine, by its number: its name, with the beginning of the number where one that is lost had
    the same name.
    """
    n = Counter(row.hostname for row in nodes)
    return {row.node: row.hostname if n[row.hostname] == 1 else f"{row.hostname} {row.node[:4]}" for row in nodes}


def ids(of: Session) -> dict[int, str]:
    """The ids of nodes by the last 32 bits of their numbers; 0 is this one."""
    return {int(row.node, 16) & 0xFFFFFFFF: row.session for row in of_cluster(of)} | {0: of.node.session_id}


def namer(of: Session) -> Callable[[int], str]:
    """Names of machines by the last 32 bits of their numbers, as events have them; 0 is this one. Asks when it has to,
    once.
    """
    known: dict[int, str] = {}

    def name(number: int) -> str:
        if not known:
            found = of_cluster(of)
            called = names(found)
            known.update({int(node, 16) & 0xFFFFFFFF: text for node, text in called.items()})
            known[0] = next((called[row.node] for row in found if row.is_here), os.uname().nodename)
        return known.setdefault(number, f"a node that is gone, …{number:08x}")

    return name
