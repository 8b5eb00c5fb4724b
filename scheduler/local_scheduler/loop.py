"""The local scheduler's event loop: descriptors with a handler each, and parts that act at times of their own.

A handler may close other descriptors, and what it opens then may get their numbers. An event is therefore delivered
only to the handler that waited for it.
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

Handler = Callable[[int], None]

if TYPE_CHECKING:  # making a protocol takes as long as importing a module
    from typing import Protocol

    class Timed(Protocol):
        """A part that acts at times of its own."""

        @property
        def deadline(self) -> float | None:
            """When to call `pass_deadline`, on the monotonic clock; None: not before something else has happened."""
            ...

        def pass_deadline(self, now: float) -> None:
            """Do what was due."""
            ...


class Loop:
    """The selector, and the deadlines. Without events and deadlines nothing runs."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._timed: list[Timed] = []

    def watch(self, fd: int, handler: Handler) -> None:
        """Call `handler(fd)` whenever the descriptor can be read."""
        self._selector.register(fd, selectors.EVENT_READ, handler)

    def want_writing(self, fd: int, wanted: bool) -> None:
        """Whether the handler is to be called also when the descriptor can be written."""
        key = self._selector.get_key(fd)
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if wanted else 0)
        if key.events != events:
            self._selector.modify(fd, events, key.data)

    def is_watched(self, fd: int) -> bool:
        return fd in self._selector.get_map()

    def forget(self, fd: int) -> None:
        """Call its handler no more; to be said before the descriptor is closed. Harmless when repeated."""
        if self.is_watched(fd):
            self._selector.unregister(fd)

    def add_timed(self, timed: Timed) -> None:
        self._timed.append(timed)

    def run_once(self) -> None:
        """Wait until something happens or is due, and see to it."""
        deadlines = [deadline for timed in self._timed if (deadline := timed.deadline) is not None]
        self.call_handlers(max(0.0, min(deadlines) - time.monotonic()) if deadlines else None)
        now = time.monotonic()
        for timed in self._timed:
            if (deadline := timed.deadline) is not None and now >= deadline:
                timed.pass_deadline(now)

    def call_handlers(self, timeout_s: float | None) -> None:
        """Wait, and call the handler of each descriptor that is ready."""
        for key, _ in self._selector.select(timeout_s):
            now = self._selector.get_map().get(key.fd)
            if now is not None and now.data == key.data:
                key.data(key.fd)

    def close(self) -> None:
        self._selector.close()


def earliest(*deadlines: float | None) -> float | None:
    """The first of some deadlines, None if there is none."""
    return min((deadline for deadline in deadlines if deadline is not None), default=None)
