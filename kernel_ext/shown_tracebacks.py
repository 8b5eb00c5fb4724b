"""Tracebacks that IPython shows end at the user's frame, whatever exception it is: KeyboardInterrupt in a `get` that waits,
TypeError for a call that does not fit.

Our own exceptions have IPython's hook `_render_traceback_` and need no extension. For Python's exceptions there is no
hook that several libraries could share, so the two methods through which IPython's formatter is given tracebacks are
wrapped in the one object of the shell. `%debug` and `sys.last_traceback` still have every frame.
"""
from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any

from ..tracebacks import up_to_users_frame


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

    def _wrap(self, name: str, change: Callable[..., Any]) -> None:
        original, before = getattr(self._formatter, name), vars(self._formatter).get(name)

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return change(original, *args, **kwargs) if name in self._installed else original(*args, **kwargs)

        self._installed[name] = wrapper, before
        setattr(self._formatter, name, wrapper)

    def _structured(self, original: Callable[..., Any], etype: Any, evalue: Any, etb: Any = None, *args: Any,
                    **kwargs: Any) -> Any:
        lines = original(etype, evalue, _shortened(etb), *args, **kwargs)
        if isinstance(evalue, KeyboardInterrupt | asyncio.CancelledError) and not str(evalue) and len(lines) > 1:
            return lines[:-1]  # "KeyboardInterrupt: " once more, and nothing behind it
        return lines

    def _parts(self, original: Callable[..., Any], evalue: Any) -> Any:
        """Of an exception's cause: its class, itself, its traceback."""
        parts = original(evalue)
        return (*parts[:2], _shortened(parts[2])) if parts else parts


def _shortened(tb: Any) -> Any:
    return up_to_users_frame(tb) if isinstance(tb, TracebackType) else tb  # IPython passes lists and tuples as well
