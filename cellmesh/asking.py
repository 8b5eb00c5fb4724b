"""Questions to the local scheduler, by a driver."""
from __future__ import annotations

import itertools
import threading
from typing import Any, TypeVar

from .scheduler.messages import Message

R = TypeVar("R", bound=Message)

_numbers = itertools.count(1)


def ask(link: Any, question: Any, reply_type: type[R], timeout_s: float) -> R:
    """Send `question(number)` and wait for the reply of that number.

    Raises
    ------
    LookupError
        There was none in time.
    """
    number = next(_numbers)
    replies: list[R] = []
    answered = threading.Event()

    def listen(message: Message) -> None:
        if isinstance(message, reply_type) and message.request == number:
            replies.append(message)
            answered.set()

    forget = link.add_listener(listen)
    try:
        link.send(question(number))
        if not answered.wait(timeout_s):
            raise LookupError("The local scheduler did not answer.")
    finally:
        forget()
    return replies[0]
