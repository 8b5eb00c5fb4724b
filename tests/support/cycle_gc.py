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


GONE_S = 1.0  # what has been let go of is gone by then


def held() -> int:
    """Bytes in the store of this process's session."""
    from cellmesh.session.current import current

    return current().client.stats()["used_bytes"]


def until_gone(n_bytes: int) -> None:
    """Wait until the store has `n_bytes` at most, no actor lives, their processes have ended and all CPUs are free.

    Raises
    ------
    AssertionError
        When that is not so after `GONE_S`.
    """
    from support.waiting import wait_until

    import cellmesh
    from cellmesh.session.current import current

    client = current().client

    def left() -> dict[str, object]:
        cpus = cellmesh.cluster_resources()["CPU"] - cellmesh.available_resources().get("CPU", 0.0)
        actors = [row["state"] for row in client.actors() if row["state"] != "dead"]
        pids = [row["pid"] for row in client.clients() if row["role"] == "worker" and row["actor"] >= 0]
        found = {"bytes": max(0, held() - n_bytes), "CPUs": cpus, "actors": actors, "processes of actors": pids}
        return {name: what for name, what in found.items() if what}

    try:
        wait_until(lambda: not left(), GONE_S)
    except AssertionError:
        if still := left():
            raise AssertionError(f"not gone after {GONE_S:g} s: {still}") from None


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
