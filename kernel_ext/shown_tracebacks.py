"""Tracebacks that IPython shows end at the user's frame, whatever exception it is: KeyboardInterrupt in a `get` that waits,
TypeError for a call that does not fit.

Our own exceptions have IPython's hook `_render_traceback_` and need no extension. For Python's exceptions there is no
hook that several libraries could share, so the two methods through which IPython's formatter is given tracebacks are
wrapped in the one object of the shell. `%debug` and `sys.last_traceback` still have every frame.

IPython formats the error of a cell twice, to show it and to remember it; that takes 10 ms and more, so it is done once.
"""
from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from types import TracebackType
from typing import Any

from ..tracebacks import up_to_users_frame


READ_ONLY = re.compile(r"read-only|not writeable")  # as numpy and pandas say of an array
INTERRUPTS = (KeyboardInterrupt, asyncio.CancelledError)


class ShownTracebacks:
    """Has a formatter show tracebacks without the frames of this package at their end.

    Parameters
    ----------
    formatter : IPython.core.ultratb.AutoFormattedTB
        A shell's `InteractiveTB`.
    """

    def __init__(self, formatter: Any) -> None:
        self._formatter = formatter
        self._installed: dict[str, tuple[Callable[..., Any], Any]] = {}  # name: ours, what the object had before
        self._last: tuple[Any, ...] = ()  # what has been formatted, and the lines

    def install(self) -> None:
        """Begin."""
        self._wrap("structured_traceback", self._structured)
        self._wrap("get_parts_of_chained_exception", self._parts)

    def uninstall(self) -> None:
        """Undo `install`. What somebody else has wrapped since stays, and passes through."""
        for name, (ours, before) in self._installed.items():
            if vars(self._formatter).get(name) is not ours:
                continue
            if before is None:
                delattr(self._formatter, name)
            else:
                setattr(self._formatter, name, before)
        self._installed.clear()
        self.forget()

    def forget(self, result: object = None) -> None:
        """A cell has ended: its error is not formatted any more, and may go."""
        self._last = ()

    def _wrap(self, name: str, change: Callable[..., Any]) -> None:
        original, before = getattr(self._formatter, name), vars(self._formatter).get(name)

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return change(original, *args, **kwargs) if name in self._installed else original(*args, **kwargs)

        self._installed[name] = wrapper, before
        setattr(self._formatter, name, wrapper)

    def _structured(self, original: Callable[..., Any], etype: Any, evalue: Any, etb: Any = None,
                    tb_offset: int | None = None, *args: Any, **kwargs: Any) -> Any:
        etb = _shortened(etb, evalue)
        what = (evalue, _places(etb), self._formatter.tb_offset if tb_offset is None else tb_offset, args, kwargs)
        if not (self._last and self._last[0] is evalue and self._last[1:-1] == what[1:]):
            lines = original(etype, evalue, etb, tb_offset, *args, **kwargs)
            if isinstance(evalue, INTERRUPTS) and not str(evalue) and len(lines) > 1:
                lines = lines[:-1]  # "KeyboardInterrupt: " once more, and nothing behind it
            elif isinstance(evalue, ValueError) and READ_ONLY.search(str(evalue)):
                lines = [*lines, "\nWhat cellmesh.get() and %fetch return lies in shared memory and is read-only: value.copy() may be "
                                 "changed."]
            self._last = (*what, lines)
        return self._last[-1]

    def _parts(self, original: Callable[..., Any], evalue: Any) -> Any:
        """Of an exception's cause: its class, itself, its traceback; None if there is none, or none of the user's code in it."""
        parts = original(evalue)
        if not parts or not isinstance(parts[2], TracebackType):
            return parts
        if up_to_users_frame(parts[2], interrupted=True) is None:
            return None  # how we learned of what the error itself says
        return (*parts[:2], _shortened(parts[2], parts[1]))


def _shortened(tb: Any, error: Any) -> Any:
    if not isinstance(tb, TracebackType):  # IPython passes lists and tuples as well
        return tb
    return up_to_users_frame(tb, interrupted=isinstance(error, INTERRUPTS))


def _places(tb: Any) -> Any:
    """What tells a traceback from another of the same exception."""
    places = []
    while isinstance(tb, TracebackType):
        places.append((tb.tb_frame, tb.tb_lasti))
        tb = tb.tb_next
    return places or tb
