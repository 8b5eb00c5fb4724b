"""Tracebacks as people read them: a worker's with the source lines and cells that only the notebook knows, the caller's
without the frames of this package at its end.
"""

from __future__ import annotations

import linecache
import re
import sys
import sysconfig
import traceback
from functools import cache
from types import TracebackType
from typing import Any

_FRAME = re.compile(r'^ {2}File "(?P<file>.+)", line (?P<line>\d+),? in ')
_LAST_PLACE = re.compile(r"\((?P<file>/\S+?):(?P<line>\d+): .*\)$")
_PLACE = re.compile(r"(?P<file>.+?):(?P<line>\d+) in (?P<function>[^:]+)(?:: (?P<text>.*))?")
# What leads from a worker's loop into the user's code.
_INNER = re.compile(
    r"(scheduler/worker|kernel_ext|cellmesh|asyncio|concurrent/futures)/\w+\.py$"
    r"|/(threading|selectors)\.py$"
)
_PACKAGE = __name__.partition(".")[0]
# What stands between the user's code and ours (a magic, a `with`), or below ours (a wait).
_GLUE = {"IPython", "asyncio", "concurrent", "contextlib", "queue", "selectors", "threading"}


# ---- of workers
def readable_traceback(text: str) -> str:
    """A worker's traceback for the author of the code: libraries' frames folded, except one that raised; with source
    lines.
    """
    shown: list[str] = []
    library: list[tuple[str, list[str]]] = []  # frames that follow each other: whose, and the lines of each
    for line in [*text.split("\n"), None]:
        frame = _FRAME.match(line) if line is not None else None
        if line is not None and frame is not None and (owner := library_of(frame["file"])):
            library.append((owner, [line]))
        elif library and line is not None and line.startswith(("    ", "  [")):
            library[-1][1].append(line)
        else:
            n_folded = len(library) - (frame is None)
            if n_folded > 1:
                names = dict.fromkeys(owner for owner, _ in library[:n_folded])
                library[:n_folded] = [("", [f"  [... {n_folded} frames of {', '.join(names)}]"])]
            shown += [part for _, lines in library for part in lines]
            library.clear()
            shown += [line] if line is not None else []
    return with_source_lines("\n".join(shown))


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


def readable_place(place: str) -> str:
    """A line of code, written `file:number in function: text`, with what only this process knows of it."""
    found = _PLACE.fullmatch(place)
    if found is None:
        return place
    file, line = found["file"], int(found["line"])
    text = found["text"] or linecache.getline(file, line).strip()
    return f"{_label_of(file)}, line {line}, in {found['function']}" + (f": {text}" if text else "")


def with_readable_place(text: str) -> str:
    """A text that ends in a line of code, written `(file:number: text)`; where that is of a cell, as of the cell."""
    found = _LAST_PLACE.search(text)
    if found is None or (label := _label_of(found["file"])) == found["file"]:
        return text
    line = int(found["line"])
    return f"{text[: found.start()]}({label}, line {line}: {linecache.getline(found['file'], line).strip()})"


def readable_stack(text: str) -> str:
    """The stack of a worker, as its `faulthandler` dumps it, for the author of the code that runs there.

    Other threads are shown if code of the user's runs in them.
    """
    shown: list[str] = []
    for thread in text.split("\n\n"):
        frames = [(frame["file"], line) for line in thread.splitlines() if (frame := _FRAME.match(line))]
        while frames and _INNER.search(frames[0][0]):
            frames.pop(0)
        stack = with_source_lines("\n".join(line for _, line in frames))
        if thread.startswith("Current thread"):  # which comes last
            shown.insert(0, stack)
        elif not all(library_of(file) for file, _ in frames):
            shown.append(stack)
    return "\n\nIn another thread:\n".join(filter(None, shown))


@cache
def library_of(file: str) -> str:
    """Which library a file belongs to, "" if to none."""
    for name in ("purelib", "platlib", "stdlib"):
        folder = f"{sysconfig.get_path(name)}/"
        if file.startswith(folder):
            return file.removeprefix(folder).partition("/")[0].removesuffix(".py") if name != "stdlib" else "Python"
    if file.startswith("<frozen "):
        return "Python"
    package, slash, _ = file.partition("/")
    if not slash or not package:
        return ""
    # Files of compiled modules have no path, as in "zmq/backend/cython/_zmq.py".
    origin = str(getattr(sys.modules.get(package), "__file__", None))
    compiled = file.endswith((".pyx", ".pxi", ".pxd")) or (origin.startswith("/") and library_of(origin))
    return package if compiled else ""


def _label_of(file: str) -> str:
    """ "Cell In[3]" for the file name that IPython compiles that cell with; other names as they are."""
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


def up_to_users_frame(tb: TracebackType | None, *, interrupted: bool = False) -> TracebackType | None:
    """The traceback without the frames of this package at its end; as it is if it does not end in this package.

    With `interrupted`, what the package called in other libraries goes too, and so do waits of the user's own: where in
    them the stop button happened to find it says nothing, and IPython takes up to half a second to show such frames.
    """
    entries = []
    while tb is not None:
        entries.append(tb)
        tb = tb.tb_next
    n_kept = len(entries)
    while interrupted and n_kept and _module(entries[n_kept - 1]) in _GLUE:
        n_kept -= 1
    for number in reversed(range(n_kept)):
        if is_ours(entries[number]):
            n_kept = number
        elif not (_module(entries[number]) in _GLUE or (interrupted and _is_library(entries[number]))):
            break
    if n_kept < len(entries):
        while n_kept and _module(entries[n_kept - 1]) in _GLUE:
            n_kept -= 1
    end = None
    for entry in reversed(entries[:n_kept]):
        end = TracebackType(end, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return end


def from_users_frame(tb: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames of this package at its beginning; None if there are no others."""
    while tb is not None and is_ours(tb):
        tb = tb.tb_next
    return tb


def is_ours(tb: TracebackType) -> bool:
    """Whether an entry of a traceback is code of this package."""
    return _module(tb) == _PACKAGE


def _is_library(tb: TracebackType) -> bool:
    """Whether an entry is code of the standard library, of an installed package, or generated by one."""
    variables, file = tb.tb_frame.f_globals, tb.tb_frame.f_code.co_filename
    return variables.get("__name__") != "__main__" and (file.startswith("<") or bool(library_of(file)))


def _module(tb: TracebackType) -> str:
    return str(tb.tb_frame.f_globals.get("__name__")).partition(".")[0]
