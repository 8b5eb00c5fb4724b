"""Warnings that a task would print go to the driver as data, which does not show what its own filters ignore."""

from __future__ import annotations

import sys
import warnings
from typing import TextIO

from ...ipc.fitting import fitting_text
from ...ipc.messages import MAX_TEXT_CHARS
from .log_records import Send


def install(send: Send) -> None:
    """Send what `warnings` shows in this process. What a task records with `catch_warnings` stays there."""
    show_elsewhere = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if file is not None:
            show_elsewhere(message, category, filename, lineno, file, line)
            return
        kinds = [f"{kind.__module__}.{kind.__qualname__}" for kind in category.__mro__]
        text = fitting_text(str(message), MAX_TEXT_CHARS)
        found = {"message": text, "kinds": kinds, "module": _module_of(filename, lineno), "lineno": lineno}
        shown = warnings.formatwarning(message, category, filename, lineno, line)
        send(fitting_text(shown, MAX_TEXT_CHARS), found)

    warnings.showwarning = show


def _module_of(filename: str, lineno: int) -> str:
    """The module of the line that warns, which a filter may name: on the stack as a rule."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage] (inspect would take a hundred times as long)
    while (outer := frame.f_back) is not None:
        if outer.f_code.co_filename == filename and outer.f_lineno == lineno:
            return str(outer.f_globals.get("__name__", ""))
        frame = outer
    return filename.removesuffix(".py")  # as Python does where it is not told
