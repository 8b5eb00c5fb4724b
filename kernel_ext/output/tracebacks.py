"""Tracebacks that IPython shows end at the user's frame, for every exception: for a KeyboardInterrupt in a `get` that
waits, for a TypeError of a call that does not fit. The traceback of a cell that a magic runs here begins in the cell.

The exceptions of cellmesh have IPython's hook `_render_traceback_` and need no extension. Python's exceptions have no
hook that several libraries could share. So this module wraps two methods of the shell's formatter object, through which
the formatter gets tracebacks. `%debug` and `sys.last_traceback` still have every frame.

IPython formats the error of a cell twice, to show it and to remember it. That takes 10 ms and more, so it is done once.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from types import TracebackType
from typing import Any

from ...tracebacks import up_to_users_frame

# What is said with Python's and other libraries' errors: of a class, in these words. A ref says most of it itself, but
# not of a call: a type that has better words for that is `callable`, which libraries ask.
ADVICE: tuple[tuple[type[Exception], re.Pattern[str], str], ...] = (
    (
        ValueError,
        re.compile(r"read-only|not writeable"),
        "A view that all readers share (readonly=True) is read-only: value.copy() may be changed.",
    ),
    (
        TypeError,
        re.compile(r"^'(cellmesh\.)?ObjectRef' object is not callable"),
        "It is a future: it stands for a value that a task makes. %fetch replaces it with that, cellmesh.get(ref) "
        "gives it; a function of a %%remote cell that is to be called here is defined at the top of the cell, not in "
        "a branch.",
    ),
    (
        TypeError,
        re.compile(r"^Object of type ObjectRef is not JSON serializable"),
        "It is a future: it stands for a value that a task makes. json.dumps(cellmesh.get(...)) takes dicts, lists "
        "and tuples with futures, or json.dumps(..., default=cellmesh.get).",
    ),
    (
        TypeError,
        re.compile(r"^a coroutine was expected, got ObjectRef\("),
        "It is a future, which is awaited as it is. Where a coroutine must be: create_task(asyncio.wait_for(ref, "
        "None)).",
    ),
)
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
        self._installed: dict[str, tuple[Callable[..., Any], Any]] = {}  # name: the new one, what was there before
        self._last: tuple[Any, ...] = ()  # what has been formatted, and the lines

    def install(self) -> None:
        """Begin."""
        self._wrap("structured_traceback", self._structured)
        self._wrap("get_parts_of_chained_exception", self._parts)

    def uninstall(self) -> None:
        """Undo `install`. A wrapper that others have put around it since stays, and passes everything on."""
        for name, (replacement, before) in self._installed.items():
            if vars(self._formatter).get(name) is not replacement:
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

    def _structured(
        self,
        original: Callable[..., Any],
        etype: Any,
        evalue: Any,
        etb: Any = None,
        tb_offset: int | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        if (begun := _from_the_cell(etb)) is not etb:
            etb, tb_offset = begun, 0
        etb = _shortened(etb, evalue)
        what = (evalue, _places(etb), self._formatter.tb_offset if tb_offset is None else tb_offset, args, kwargs)
        if not (self._last and self._last[0] is evalue and self._last[1:-1] == what[1:]):
            lines = original(etype, evalue, etb, tb_offset, *args, **kwargs)
            if isinstance(evalue, INTERRUPTS) and not str(evalue) and len(lines) > 1:
                lines = lines[:-1]  # "KeyboardInterrupt: " once more, and nothing behind it
            if isinstance(evalue, RuntimeError) and str(evalue).startswith(
                "Error calling __set_name__ on 'RemoteFunction'"
            ):
                lines = [
                    *lines,
                    f"\n{evalue.__cause__}",
                ]  # which has no frame of the user's; of Python 3.12 it is the error itself
            for kind, words, advice in ADVICE:
                if isinstance(evalue, kind) and words.search(str(evalue)):
                    lines = [*lines, f"\n{advice}"]
            self._last = (*what, lines)
        return self._last[-1]

    def _parts(self, original: Callable[..., Any], evalue: Any) -> Any:
        """The class, the value and the traceback of an exception's cause.

        None if there is no cause, or no code of the user's in its traceback.
        """
        parts = original(evalue)
        if not parts or not isinstance(parts[2], TracebackType):
            return parts
        if up_to_users_frame(parts[2], interrupted=True) is None:
            return None  # how we learned of what the error itself says
        return (*parts[:2], _shortened(parts[2], parts[1]))


def _from_the_cell(tb: Any) -> Any:
    """The traceback from the cell's own code on, of a `%%remote` or `%%actor` cell that runs here.

    The frames before are IPython's line that calls the magic, and those of cellmesh.
    """
    from ..cells.task import RUNNERS

    begin = entry = tb
    while isinstance(entry, TracebackType):
        if entry.tb_frame.f_code in RUNNERS and entry.tb_next is not None:
            begin = entry.tb_next
        entry = entry.tb_next
    return begin


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
