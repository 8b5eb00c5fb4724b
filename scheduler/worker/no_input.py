"""`input()` and `breakpoint()` in tasks, which have no keyboard: their errors say what to use instead."""

from __future__ import annotations

import builtins
import os
import sys
from typing import Any

_input = builtins.input


def install() -> None:
    """Put them in the place of Python's own."""
    builtins.input = _asks
    sys.breakpointhook = _stops


def _asks(prompt: object = "", /) -> str:
    """Read a line from standard input, which in a task is empty unless the task has put something else in its place."""
    try:
        return _input(prompt)
    except EOFError:
        raise EOFError(
            "nobody can answer input() in a task: ask before it is submitted, and give it the answer as an argument"
        ) from None


def _stops(*args: Any, **kwargs: Any) -> Any:
    """A debugger that PYTHONBREAKPOINT names may have a way to its user; pdb has none."""
    if os.environ.get("PYTHONBREAKPOINT"):
        return sys.__breakpointhook__(*args, **kwargs)
    raise RuntimeError(
        "nobody can type at a breakpoint() in a task: with the option keep_frames=True its frames are kept when it "
        "fails, for %inspect --pdb in a notebook; f.function(...) calls the plain function, in the process of the "
        "caller"
    )
