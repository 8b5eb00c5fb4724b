"""Futures of `concurrent.futures` that our threads complete while the main thread, which may be interrupted, looks at them."""
from __future__ import annotations

import threading
from concurrent import futures
from typing import Any, TypeVar

T = TypeVar("T")


class _Condition(threading.Condition):
    """One whose `with` takes its lock by the lock's own methods, which an interrupt cannot break; see `scheduler/bell.py`."""

    @property
    def __enter__(self) -> Any:
        return self._lock.__enter__  # type: ignore[attr-defined]

    @property
    def __exit__(self) -> Any:
        return self._lock.__exit__  # type: ignore[attr-defined]


class Future(futures.Future[T]):
    """A future whose lock is not left taken by who was interrupted in `result()`; whoever completes it would wait for ever.

    Notes
    -----
    `concurrent.futures.wait` and `as_completed` take the lock in their own way, which an interrupt can still break.
    """

    def __init__(self) -> None:
        super().__init__()
        self._condition = _Condition()
