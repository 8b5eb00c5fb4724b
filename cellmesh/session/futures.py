"""Futures of `concurrent.futures` that our threads complete while the main thread, which may be interrupted, looks at
them.
"""

from __future__ import annotations

import threading
from concurrent import futures
from typing import TYPE_CHECKING, TypeVar

T = TypeVar("T")
E = TypeVar("E", bound=BaseException)


def without_frames(error: E) -> E:
    """An error that a future is to carry, and what it came from, without tracebacks.

    Their frames, and those that called them, have the future, so each would be a reference cycle.
    """
    seen: set[int] = set()
    part: BaseException | None = error
    while part is not None and id(part) not in seen:
        seen.add(id(part))
        part.__traceback__ = None
        part = part.__cause__ or part.__context__
    return error


class _Condition(threading.Condition):
    """One whose `with` takes its lock by the lock's own methods, which an interrupt cannot break; see
    `scheduler/sync/condition.py`.
    """

    if not TYPE_CHECKING:  # what the properties return is called as the methods would be

        @property
        def __enter__(self):
            return self._lock.__enter__

        @property
        def __exit__(self):  # noqa: PLE0302  (what it returns takes the arguments)
            return self._lock.__exit__


class Future(futures.Future[T]):
    """A future whose lock an interrupt in `result()` does not leave taken; a thread that completes it would wait for
    ever.

    Notes
    -----
    `concurrent.futures.wait` and `as_completed` take the lock in their own way, which an interrupt can still break.
    """

    def __init__(self) -> None:
        super().__init__()
        self._condition = _Condition()
