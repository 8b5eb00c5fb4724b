"""What a process of a session in a cluster asks of its agent, see `scheduler.cluster.agent.requests`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ..exceptions import ActorError, ClusterError, GetTimeoutError, HeadUnreachableError, StoreLimitError
from ..scheduler.ipc.messages import ClusterReply

if TYPE_CHECKING:
    from ..session.session import Session

AGENT_S = 5.0  # an agent that has died is followed by another one within that time
ANSWER_S = 20.0


def ask(
    of: Session, what: str, request: str, *arguments: str | bytes, answer_s: float = 0.0, may_repeat: bool = True
) -> tuple[Any, ...]:
    """The agent's answer.

    Parameters
    ----------
    what : str
        What is wanted, for errors.
    answer_s : float, seconds
        How long to wait for an answer; 0: as long as it may take.
    may_repeat : bool
        Whether to ask the agent's successor when the agent dies before it has answered.

    Raises
    ------
    ClusterError
        There is no answer; the text says why. It is a HeadUnreachableError if that is because of the head.
    StoreLimitError
        The control store has no room for that.
    """
    end, answer_s = time.monotonic() + AGENT_S, answer_s or ANSWER_S
    while True:
        agent = of.agent()
        try:
            if agent is not None:
                function, needs = of.client.put(("cluster", request, None)), of.shape({}, None, request)
                submit = of.client.submitter(function, needs, actor=agent, max_retries=0, hidden=True)
                answer = of.client.get(submit(*arguments), answer_s)
                break
        except ActorError:  # its successor is looked for below
            if not may_repeat:
                raise ClusterError(
                    f"{what}: the agent that speaks with the cluster has died meanwhile. Whether it has "
                    "been done is not known"
                ) from None
        except GetTimeoutError:
            later = "" if may_repeat else " It may be done yet, when the head is back."
            raise HeadUnreachableError(
                f"{what}: the cluster's head has not answered within {answer_s:g} s. Is it "
                f"alive? See `cellmesh status`.{later}"
            ) from None
        if time.monotonic() > end:
            raise ClusterError(f"{what}: the agent that speaks with the cluster does not run, see `cellmesh logs`")
        time.sleep(0.02)
    if answer[0] == "full":
        raise StoreLimitError(f"{what}: {answer[1]}")
    if answer[0] == "gone":
        raise HeadUnreachableError(f"{what}: {answer[1]}")
    if answer[0] == "error":
        raise ClusterError(f"{what}: {answer[1]}")
    return tuple(answer)


def on_record(of: Session, table: str) -> tuple[bytes, ...]:
    """What the control store has in a table of records, the latest first."""
    return ask(of, f"{table} of the cluster cannot be listed", "store", table, "latest", "", b"", b"")[-1]


def machines(of: Session, answer_s: float) -> ClusterReply:
    """The machines of the cluster, as the head knows them."""
    import msgspec

    _, reply = ask(of, "the machines of the cluster cannot be listed", "nodes", answer_s=answer_s)
    return msgspec.msgpack.decode(reply, type=ClusterReply)
