"""Interrupts at every instant of a piece of Python code, one after the other, without chance.

A real SIGINT only leaves a note; Python looks at it between certain instructions, and raises KeyboardInterrupt there.
Here a tracing function leaves the note before the n-th instruction, for every n. It is C, as a tracing function in
Python would find its own note.
"""

from __future__ import annotations

import ctypes
import itertools
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from cellmesh.objstore._core import deferring

_leave_note: Any = ctypes.pythonapi["PyErr_SetInterrupt"]  # a function object of our own
_leave_note.argtypes = [ctypes.py_object] * 3  # as a tracing function is called
_leave_note.restype = None


def interrupted_everywhere(action: Callable[[], object]) -> Iterator[int]:
    """Call `action()` again and again, each time interrupted one instruction later, until there is none left.

    Yields the number of the instruction after each call. `action` may let KeyboardInterrupt through.
    """
    for number in itertools.count(1):
        if not _interrupted(action, number):
            assert number > 1, "there was no instruction to interrupt"
            return
        yield number


def _interrupted(action: Callable[[], object], number: int) -> bool:
    left = number

    def count(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal left
        frame.f_trace_opcodes = True
        left -= event == "opcode"
        if left != 0:
            return count
        outer = frame.f_back
        while outer is not None:  # `count` is Python, too: in a caller it would look where the caller does not
            if outer.f_trace is count:
                outer.f_trace = _leave_note
            outer = outer.f_back
        return _leave_note

    def interrupt(signum: int, frame: FrameType | None) -> None:
        sys.settrace(None)
        while frame is not None:
            if frame.f_trace in (count, _leave_note):
                frame.f_trace = None
            frame = frame.f_back
        raise KeyboardInterrupt

    def report(unraisable: Any) -> None:
        if unraisable.exc_type is not KeyboardInterrupt:  # in a destructor, say: nobody can catch it
            hook(unraisable)

    handler, tracing, hook = signal.signal(signal.SIGINT, deferring(interrupt)), sys.gettrace(), sys.unraisablehook
    sys.unraisablehook = report
    try:
        sys._getframe().f_trace_opcodes = True  # Python 3.12 looks when tracing begins whether any frame wants them
        sys.settrace(count)
        action()
        sys.settrace(tracing)  # here Python looks at what was noted last
    except KeyboardInterrupt:
        assert left <= 0
    finally:
        sys.settrace(tracing)
        sys.unraisablehook = hook
        signal.signal(signal.SIGINT, handler)
    return left <= 0
