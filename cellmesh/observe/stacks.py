"""Where processes are now: their Python stacks, asked of the local scheduler."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..scheduler.ipc.messages import STACK_TIMEOUT_S, StackReply, StackRequest
from ..session.scheduler_client import ask


def stack_of(link: Any, pid: int) -> str:
    """The stacks of a worker's threads.

    Raises
    ------
    LookupError
        The worker does not say; why is in the text.
    """
    reply = ask(link, partial(StackRequest, pid=pid), StackReply, STACK_TIMEOUT_S + 1.0)
    if reply.error:
        raise LookupError(reply.error)
    return reply.text
