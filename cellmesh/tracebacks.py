"""Tracebacks as people read them: a worker's with the source lines and cells that only the notebook knows, the caller's
without the frames of this package at its end.
"""
from __future__ import annotations

import linecache
import re
import sys
import traceback
from types import TracebackType
from typing import Any

_FRAME = re.compile(r'^ {2}File "(?P<file>.+)", line (?P<line>\d+),? in ')
# What leads from a worker's loop into the user's code.
_INNER = re.compile(r"(scheduler/worker|kernel_ext|cellmesh|asyncio|concurrent/futures)/\w+\.py$"
                    r"|/(threading|selectors)\.py$")
_PACKAGE = __name__.partition(".")[0]
# What stands between the user's code and ours (a magic, a `with`), or below ours (a wait).
_GLUE = {"IPython", "asyncio", "concurrent", "contextlib", "queue", "selectors", "threading"}


# ---- of workers
def with_source_lines(text: str) -> str:
    """A worker's traceback with what only this process knows: the lines of notebook cells, and which cells they are."""
    lines = text.split("\n")
    filled = []
    for i, line in enumerate(lines):
        frame = _FRAME.match(line)
        if frame is None:
            filled.append(line)
            continue
        file = frame["file"]
        filled.append(line.replace(file, _label_of(file), 1))
        if not (i + 1 < len(lines) and lines[i + 1].startswith("    ")):
            source = linecache.getline(file, int(frame["line"])).strip()
            if source:
                filled.append(f"    {source}")
    return "\n".join(filled)


def readable_stack(text: str) -> str:
    """The stack of a worker, as its `faulthandler` dumps it, for the author of the code that runs there."""
    frames = [line for line in text.splitlines() if _FRAME.match(line)]
    while frames and _INNER.search(_FRAME.match(frames[0])["file"]):  # type: ignore[index]
        frames.pop(0)
    return with_source_lines("\n".join(frames))


def _label_of(file: str) -> str:
    """"Cell In[3]" for the file name that IPython compiles that cell with; other names as they are."""
    shell = _ipython()
    named = shell.compile.format_code_name(file) if shell is not None else None
    return " ".join(named) if named else file


def _ipython() -> Any:
    """IPython's shell if this is its process."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


# ---- of the caller
def rendered(error: BaseException) -> list[str]:
    """What IPython shows of an error that this package has raised: the traceback ends where the user's code does."""
    shell, tb = _ipython(), up_to_users_frame(error.__traceback__)
    if shell is None:
        return traceback.format_exception(type(error), error, tb)
    return shell.InteractiveTB.structured_traceback(type(error), error, tb)


def up_to_users_frame(tb: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames of this package at its end; as it is if it does not end in this package."""
    entries = []
    while tb is not None:
        entries.append(tb)
        tb = tb.tb_next
    n_kept = len(entries)
    while n_kept and (is_ours(entries[n_kept - 1]) or _module(entries[n_kept - 1]) in _GLUE):
        n_kept -= 1
    if not any(is_ours(entry) for entry in entries[n_kept:]):
        n_kept = len(entries)
    end = None
    for entry in reversed(entries[:n_kept]):
        end = TracebackType(end, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return end


def is_ours(tb: TracebackType) -> bool:
    """Whether an entry of a traceback is code of this package."""
    return _module(tb) == _PACKAGE


def _module(tb: TracebackType) -> str:
    return str(tb.tb_frame.f_globals.get("__name__")).partition(".")[0]
