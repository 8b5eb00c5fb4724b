"""Questions to the local scheduler, by a driver."""

from __future__ import annotations

import itertools
from typing import Any, Protocol, TypeVar

from ..scheduler.ipc.messages import Message
from ..scheduler.sync.condition import Condition


class Reply(Protocol):
    """A message that says which question it answers."""

    @property
    def request(self) -> int: ...


R = TypeVar("R", bound=Reply)


class NoAnswerError(LookupError):
    """The process that was asked did not answer in time."""


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
    answered = Condition()

    def listen(message: Message) -> None:
        if isinstance(message, reply_type) and message.request == number:
            replies.append(message)
            answered.notify_all()

    try:
        link.add_listener(listen)
        link.send(question(number))
        if not answered.wait_for(lambda: replies, timeout_s):
            raise NoAnswerError("The local scheduler did not answer.")
    finally:
        link.remove_listener(listen)
    return replies[0]
