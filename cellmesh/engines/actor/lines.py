"""The line of an actor's calls in front of its process: which of them are handed over, and which wait. Pure.

What waits here has not begun for certain, so it is passed over when it is cancelled, and when the process has ended it
runs in the actor's next life. What was handed over may have begun.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class Lines(Generic[T]):
    """One for each concurrency group of the actor, of which so many calls are handed over at a time.

    Parameters
    ----------
    limits : sequence of int
        As of `Parcel`.
    """

    def __init__(self, limits: Sequence[int] = ()) -> None:
        self._room = list(limits) or [1]
        self._waiting: list[deque[T]] = [deque() for _ in self._room]

    def __len__(self) -> int:
        return sum(map(len, self._waiting))

    def add(self, call: T, group: int) -> None:
        """It is the last of its group."""
        self._waiting[group].append(call)

    def next(self) -> T | None:
        """One that is handed over now."""
        for group, waiting in enumerate(self._waiting):
            if waiting and self._room[group]:
                self._room[group] -= 1
                return waiting.popleft()
        return None

    def ended(self, group: int) -> None:
        """One that was handed over has ended."""
        self._room[group] += 1

    def take_out(self, is_meant: Callable[[T], bool]) -> list[T]:
        """These do not wait any more."""
        found = [call for waiting in self._waiting for call in waiting if is_meant(call)]
        self._waiting = [deque(call for call in waiting if not is_meant(call)) for waiting in self._waiting]
        return found
