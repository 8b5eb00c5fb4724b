"""Names of actors in a cluster: asked of this node's agent, see `scheduler.cluster.desk`."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .cluster_desk import ask

if TYPE_CHECKING:
    from .objstore._core import Ref
    from .session import Session

FAILED = "an actor's name could not be looked up in the cluster"


def find(of: Session, name: str, namespace: str) -> Ref[Any] | None:
    """The living actor of that name on another node."""
    kind, *rest = ask(of, FAILED, "find", name, namespace)
    return rest[0] if kind == "actor" else None


def claim(of: Session, name: str, namespace: str) -> bool:
    """Take a name for an actor that is about to be made here; False: one of that name is alive."""
    return bool(ask(of, FAILED, "claim", name, namespace)[0] == "yes")


def names(of: Session) -> list[tuple[str, str]]:
    """(namespace, name) of all actors in the cluster that have names."""
    return list(ask(of, FAILED, "names", "", "")[1:])
