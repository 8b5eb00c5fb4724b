"""`Condition`: how our threads wait for each other, where Ctrl-C or the stop button may come at any instant.

Python raises KeyboardInterrupt in the main thread between two instructions of Python code. `threading.Condition`,
`Event`, `Semaphore` and `queue.Queue` are Python code. An interrupt in `threading.Condition.__enter__`, when the lock
has been taken and the caller's `with` does not know it yet, leaves the lock taken for ever; the next thread that needs
it waits for ever. A lock made by C is safe in a `with` statement: Python looks for signals neither before the statement
owns it nor before it lets go (Python 3.14 does, which is mended: decision 168).

So each thread that waits here sleeps in a lock of its own, which no other thread ever waits for. The lock is taken from
the beginning, and `notify_all` releases it (decision 60). An interrupt may lose a wake-up and nothing else: a thread
that waits looks for itself after `LOOK_S`, and the longer it waits the less often: at rest that costs next to nothing.
The owner guards what is waited for: by `with lock:`, or by nothing where it changes in one step.

Python 3.13 has a gap: a jump back on a condition belongs to no `with` and no `try` around it, so an interrupt there
passes by `__exit__` and `finally`. Within them, code that may be interrupted has no `while condition:`, nor a `for`
that ends in an `if`, nor a comprehension with one; `while True:` with a `break`, `continue`, generator expressions
(which are functions) and others are whole. tests/project/test_interrupt_gap.py finds the former.
"""

from __future__ import annotations

import math
import time
from _thread import LockType, allocate_lock
from collections.abc import Callable

LOOK_S, LOOK_MAX_S = 1.0, 4.0  # a wake-up that was lost costs this much, or as long again as the wait has lasted


class Condition:
    """Wakes threads that wait until something is so. Any number of threads may wait and notify."""

    def __init__(self) -> None:
        self._waiting: dict[LockType, None] = {}

    def notify_all(self) -> None:
        """Have every thread that waits look again. Call it after the change."""
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
        look_s = LOOK_S
        try:
            self._waiting[sleeper] = None
            while True:  # with the condition here, Python 3.13 passes by what is in `finally`
                if condition():
                    return True
                left = end - time.monotonic()
                if left <= 0:
                    return False
                look_s = LOOK_S if sleeper.acquire(timeout=min(left, look_s)) else min(2 * look_s, LOOK_MAX_S)
        finally:
            self._waiting.pop(sleeper, None)
