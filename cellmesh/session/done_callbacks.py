"""`ref.add_done_callback`: functions that are called when a task has ended, as those of `concurrent.futures`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ..refs import ObjectRef
from .notifier import notifier_of

Function = Callable[[ObjectRef], object]


class DoneCallback:
    """A function and the ref that it is called with; one that was added twice is equal."""

    __slots__ = ("_function", "_ref")

    def __init__(self, ref: ObjectRef, function: Function) -> None:
        self._ref, self._function = ref, function

    def __call__(self) -> None:
        try:
            self._function(self._ref)
        except Exception:  # of a user's function, about which nobody else would hear
            logging.getLogger("cellmesh").exception("exception calling callback for %r", self._ref)

    def __eq__(self, other: object) -> bool:
        return type(other) is DoneCallback and other._ref == self._ref and other._function == self._function

    def __hash__(self) -> int:
        return hash((self._ref, self._function))


def add(ref: ObjectRef, function: Function) -> None:
    """Have `function(ref)` called when the ref is ready, or when the session has ended; at once if it is."""
    if not callable(function):
        raise TypeError(f"add_done_callback() needs a function that takes the ref, not {function!r}")
    callback, loop = DoneCallback(ref, function), _loop_of(function)
    if not ref.done():
        notifier_of(ref).add(ref, loop, callback)
    elif loop is not None:
        loop.call_soon(callback)
    else:
        callback()


def remove(ref: ObjectRef, function: Function) -> int:
    """Forget a function; how often it had been added."""
    return 0 if ref.done() else notifier_of(ref).discard(ref, DoneCallback(ref, function))


def _loop_of(function: Function) -> asyncio.AbstractEventLoop | None:
    """`asyncio.wait` adds a function of its own, which may run nowhere but in its loop; None for all others: in a
    notebook every cell runs in a loop, which calls nothing before the cell has ended."""
    is_asyncios = (getattr(function, "__module__", None) or "").partition(".")[0] == "asyncio"
    return asyncio._get_running_loop() if is_asyncios else None
