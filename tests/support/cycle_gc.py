"""What of ours only the cyclic garbage collector would free; for tests in this process and, by its source, in
kernels.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from types import CellType, FrameType, FunctionType, MethodType


def is_ours(thing: object) -> bool:
    """Whether it is an instance, a function, a class or a frame of the package's."""
    if isinstance(thing, FunctionType):
        module = thing.__module__
    elif isinstance(thing, FrameType):
        module = thing.f_globals.get("__name__", "")
    elif isinstance(thing, type):
        module = thing.__module__
    elif isinstance(thing, MethodType):
        return is_ours(thing.__func__)
    elif isinstance(thing, CellType):
        return False  # belongs to a function that is found by itself
    else:
        module = type(thing).__module__
    return str(module).partition(".")[0] == "cellmesh"


def left_by(work: Callable[[], object]) -> list[str]:
    """What of ours a piece of work leaves in reference cycles that nothing else refers to, in words; the collector is
    off meanwhile.
    """
    gc.collect()
    gc.disable()
    try:
        work()
        return found()
    finally:
        gc.enable()


def found() -> list[str]:
    """What of ours is garbage now."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        return sorted(
            {
                f"{type(thing).__name__}: {getattr(thing, '__qualname__', repr(thing)[:120])}"
                for thing in gc.garbage
                if is_ours(thing)
            }
        )
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.collect()
