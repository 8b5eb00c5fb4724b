"""`Bell`: what our threads wait for each other with, where Ctrl-C or the stop button may come at any instant.

Python raises KeyboardInterrupt in the main thread between two instructions of Python code. `threading.Event`,
`Condition`, `Semaphore` and `queue.Queue` are Python code: an interrupt in `Condition.__enter__`, when the lock has been
taken and the caller's `with` does not know it yet, leaves it taken for ever, and the next one who touches it, another
thread perhaps, waits for ever. A lock made by C is safe in a `with` statement: Python looks for signals neither before
the statement owns it nor before it lets go.

So who waits here sleeps in a lock of its own that nobody else ever needs: it is taken from the beginning, and ringing
releases it. An interrupt may lose a wake-up, never more, and who waits looks for itself every `LOOK_S`. What the
condition looks at is guarded by its owner: by `with lock:`, or by nothing where it is changed in one step.
"""
from __future__ import annotations

import math
import time
from _thread import LockType, allocate_lock
from collections.abc import Callable

LOOK_S = 1.0  # a wake-up that was lost costs this much


class Bell:
    """Wakes those who wait until something is so; for any number of threads on both sides."""

    def __init__(self) -> None:
        self._waiting: dict[LockType, None] = {}

    def ring(self) -> None:
        """Have everybody who waits look again. Call it after the change."""
        for sleeper in list(self._waiting):
            try:
                sleeper.release()
            except RuntimeError:  # it has been woken already
                continue

    def wait_for(self, condition: Callable[[], object], timeout_s: float | None = None) -> bool:
        """Wait until `condition()`, called in this thread without a lock, is true; whether it became so in time."""
        end = math.inf if timeout_s is None else time.monotonic() + timeout_s
        sleeper = allocate_lock()
        sleeper.acquire()
        try:
            self._waiting[sleeper] = None
            while not condition():
                left = end - time.monotonic()
                if left <= 0:
                    return False
                sleeper.acquire(timeout=min(left, LOOK_S))
            return True
        finally:
            self._waiting.pop(sleeper, None)
