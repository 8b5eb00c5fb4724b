"""The frames of a task that has failed, as text: its local variables where it failed, for `%inspect --pdb`.

Off by default (`FrontEnd.keep_frames`), and then a failing task pays nothing. Frames are described in the worker, at
the moment of the failure, within limits of time and size; large values by type and shape. The text travels with the
error.
"""

from __future__ import annotations

import reprlib
import time
import types
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from ..tracebacks import is_ours

N_FRAMES = 20  # the innermost
N_VARIABLES = 40  # of a frame
VALUE_CHARS = 500
TOTAL_CHARS = 100_000
TIME_S = 0.5  # for all together; a `__repr__` that has begun is waited for

Frames = tuple[tuple[str, str], ...]
_NOT_DATA = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type)


def describe(tb: TracebackType | None, clock: Callable[[], float] = time.monotonic) -> Frames:
    """The user's frames of a traceback, the innermost last: where each is, and its variables, a line for each."""
    entries = []
    while tb is not None:
        if not is_ours(tb):
            entries.append(tb)
        tb = tb.tb_next
    end = clock() + TIME_S
    found: list[tuple[str, str]] = []
    n_chars = 0
    for entry in reversed(entries[-N_FRAMES:]):  # what is nearest to the error first, should the time not suffice
        code = entry.tb_frame.f_code
        text = _variables(entry.tb_frame.f_locals, lambda before=n_chars: clock() > end or before > TOTAL_CHARS)
        n_chars += len(text)
        found.append((f'  File "{code.co_filename}", line {entry.tb_lineno}, in {code.co_name}', text))
    return tuple(reversed(found))


def _variables(variables: Mapping[str, Any], is_enough: Callable[[], bool]) -> str:
    shown = {
        name: value
        for name, value in list(variables.items())
        if not name.startswith("__") and not isinstance(value, _NOT_DATA)
    }
    lines = []
    for name, value in shown.items():
        if len(lines) == N_VARIABLES or is_enough():
            lines.append(f"… {len(shown) - len(lines)} more")
            break
        lines.append(f"{name} = {value_in_words(value)}")
    return "\n".join(lines)


class _Repr(reprlib.Repr):
    def __init__(self, shape_above: int) -> None:
        super().__init__()
        self.shape_above = shape_above
        self.maxstring = self.maxother = VALUE_CHARS
        self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = self.maxdict = 20
        self.maxlevel = 4

    def repr1(self, x: Any, level: int) -> str:
        return _shape_of(x, self.shape_above) or super().repr1(x, level)

    def repr_instance(self, x: Any, level: int) -> str:
        try:
            return _cut(repr(x))
        except Exception as problem:  # the user's __repr__
            return f"<{type(x).__name__} whose __repr__ raised {type(problem).__name__}>"


def value_in_words(value: Any, shape_above: int = 100) -> str:
    """A value in at most `VALUE_CHARS` characters; of arrays and tables with more items than so many, the shape.

    Never raises what an `Exception` is.
    """
    return _cut(_Repr(shape_above).repr(value))


def _shape_of(value: Any, above: int) -> str:
    """What an array or a table with more than so many items is."""
    shape = getattr(type(value), "shape", None) and getattr(value, "shape", None)
    if not isinstance(shape, tuple) or not all(type(n) is int for n in shape):
        return ""
    n_items = 1
    for n in shape:
        n_items *= n
    if not shape or n_items <= above:
        return ""
    kind = getattr(value, "dtype", "")
    return f"<{type(value).__name__} of shape {' × '.join(map(str, shape))}{f', {kind}' if str(kind) else ''}>"


def _cut(text: str) -> str:
    return text if len(text) <= VALUE_CHARS else f"{text[: VALUE_CHARS - 1]}…"
