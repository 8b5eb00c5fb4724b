"""Names of actors: of this session, and in a cluster those that this node's agent knows (see
`scheduler.cluster.agent.requests`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..scheduler.ipc.messages import AGENT_NAMESPACE
from ..session.agent_client import ask

if TYPE_CHECKING:
    from ..objstore._core import Ref
    from ..session.session import Session

GROUP_NAMESPACE = "group "  # and what is the group's own: there its members find each other
FAILED = "an actor's name could not be looked up in the cluster"


def find(of: Session, name: str, namespace: str) -> Ref[Any] | None:
    """The living actor of that name, which is not in this process's segment."""
    kind, *rest = ask(of, FAILED, "find", name, namespace)
    return rest[0] if kind == "actor" else None


def claim(of: Session, name: str, namespace: str) -> bool:
    """Take a name for an actor that is about to be made here; False: one of that name is alive."""
    return bool(ask(of, FAILED, "claim", name, namespace)[0] == "yes")


def names(of: Session) -> list[tuple[str, str]]:
    """(namespace, name) of all actors in the cluster that have names."""
    return list(ask(of, FAILED, "names", "", "")[1:])


def living(of: Session) -> list[tuple[str, str]]:
    """(namespace, name) of the living actors that were given names: of the session, in a cluster of all machines."""
    found = [
        (actor["meta"][2], actor["meta"][1])
        for actor in of.client.actors()
        if actor["state"] != "dead" and actor["meta"] and actor["meta"][1] and actor["meta"][2] != AGENT_NAMESPACE
    ]
    if of.asks_agent:
        found += [entry for entry in names(of) if entry not in found]
    return [entry for entry in found if not entry[0].startswith(GROUP_NAMESPACE)]
