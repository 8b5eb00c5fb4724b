"""Questions to the local scheduler, by a driver."""
from __future__ import annotations

import itertools
from typing import Any, TypeVar

from .scheduler.bell import Bell
from .scheduler.messages import Message

R = TypeVar("R", bound=Message)


class NoAnswerError(LookupError):
    """Whoever was asked did not answer in time."""


_numbers = itertools.count(1)


def ask(link: Any, question: Any, reply_type: type[R], timeout_s: float) -> R:
    """Send `question(number)` and wait for the reply of that number.

    Raises
    ------
    NoAnswerError
        There was none in time.
    """
    number = next(_numbers)
    replies: list[R] = []
    answered = Bell()

    def listen(message: Message) -> None:
        if isinstance(message, reply_type) and message.request == number:
            replies.append(message)
            answered.ring()

    try:
        link.add_listener(listen)
        link.send(question(number))
        if not answered.wait_for(lambda: replies, timeout_s):
            raise NoAnswerError("The local scheduler did not answer.")
    finally:
        link.remove_listener(listen)
    return replies[0]
