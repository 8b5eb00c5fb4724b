"""Names of actors in a cluster: asked of this node's agent, see `scheduler.cluster.desk`."""
from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from .exceptions import ActorError, ClusterError, GetTimeoutError
from .scheduler.cluster.desk import NAME
from .scheduler.messages import DESK_NAMESPACE

if TYPE_CHECKING:
    from .objstore._core import Ref
    from .session import Session

AGENT_S = 5.0               # an agent that has died is followed by another one within that time
ANSWER_S = 20.0


def find(of: Session, name: str, namespace: str) -> Ref[Any] | None:
    """The living actor of that name on another node."""
    kind, *rest = _ask(of, "find", name, namespace)
    return rest[0] if kind == "actor" else None


def claim(of: Session, name: str, namespace: str) -> bool:
    """Take a name for an actor that is about to be made here; False: one of that name is alive."""
    return bool(_ask(of, "claim", name, namespace)[0] == "yes")


def names(of: Session) -> list[tuple[str, str]]:
    """(namespace, name) of all actors in the cluster that have names."""
    return list(_ask(of, "names", "", "")[1:])


def _ask(of: Session, request: str, *arguments: str) -> tuple[Any, ...]:
    end = time.monotonic() + AGENT_S
    while True:
        desk = of.client.get_actor(NAME, DESK_NAMESPACE)
        try:
            if desk is not None:
                submit = of.client.submitter(of.client.put(("cluster", request, None)), of.resource_class({}, None, request), actor=desk,
                                             max_retries=0, hidden=True)
                answer = of.client.get(submit(*arguments), ANSWER_S)
                break
        except ActorError:
            pass  # the agent has died; its successor is looked for below
        except GetTimeoutError:
            raise ClusterError(f"The cluster's head has not answered within {ANSWER_S:g} s what is asked about an actor's name: "
                               "is it alive? See `cellmesh status`.") from None
        if time.monotonic() > end:
            raise ClusterError("The agent that speaks with the cluster does not run: see `cellmesh logs`.")
        time.sleep(0.02)
    if answer[0] == "error":
        raise ClusterError(f"An actor's name could not be looked up in the cluster: {answer[1]}.")
    return tuple(answer)
