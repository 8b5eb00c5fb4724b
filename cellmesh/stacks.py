"""Where processes are now: their Python stacks, asked of the local scheduler."""
from __future__ import annotations

import itertools
import threading
from typing import Any

from .scheduler.messages import STACK_TIMEOUT_S, Message, StackReply, StackRequest

_requests = itertools.count(1)


def stack_of(link: Any, pid: int) -> str:
    """The stacks of a worker's threads.

    Raises
    ------
    LookupError
        The worker does not say; why is in the text.
    """
    request = StackRequest(next(_requests), pid)
    answers: list[StackReply] = []
    answered = threading.Event()

    def listen(message: Message) -> None:
        if isinstance(message, StackReply) and message.request == request.request:
            answers.append(message)
            answered.set()

    forget = link.add_listener(listen)
    try:
        link.send(request)
        if not answered.wait(STACK_TIMEOUT_S + 1.0):
            raise LookupError(f"The worker with pid {pid} did not answer.")
    finally:
        forget()
    if answers[0].error:
        raise LookupError(answers[0].error)
    return answers[0].text
