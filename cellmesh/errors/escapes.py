"""What classes of the user raise that is no `Exception`: of them, as of any other, it is an error, and ends no process.

KeyboardInterrupt alone is also raised where nobody's code raises it: wherever Python is when Ctrl-C is pressed. And a
child that such a class forks exits as it says.
"""

from __future__ import annotations

import signal
from types import BuiltinFunctionType, CodeType
from typing import Any

from ..session.current import process


def ends_process(error: BaseException) -> bool:
    """Whether an exception is no error: the process has been interrupted, or is a forked child that exits."""
    if isinstance(error, SystemExit):
        return process.is_forked
    return isinstance(error, KeyboardInterrupt) and _is_interrupt(error)


def _is_interrupt(error: KeyboardInterrupt) -> bool:
    """Whether the process has been interrupted; else it is the code at the end of the traceback that raises."""
    tb = error.__traceback__
    if tb is None:
        return True
    handler = _code_of(signal.getsignal(signal.SIGINT))
    while tb.tb_frame.f_code is not handler and tb.tb_next is not None:
        tb = tb.tb_next
    return tb.tb_frame.f_code is handler or not _raises(tb.tb_frame.f_code, tb.tb_lasti)


def _code_of(handler: Any) -> CodeType | None:
    """What a handler in Python runs, as asyncio's."""
    if isinstance(handler, BuiltinFunctionType):
        handler = handler.__self__  # of one that may defer
    handler = getattr(handler, "func", handler)  # of a partial
    return getattr(getattr(handler, "__func__", handler), "__code__", None)


def _raises(code: CodeType, at: int) -> bool:
    """Whether an instruction is a `raise` of something."""
    from opcode import opmap

    return code.co_code[at] == opmap["RAISE_VARARGS"] and code.co_code[at + 1] > 0
