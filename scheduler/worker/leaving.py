"""How a worker ends that is told to leave: as a Python process does at the end of its program.

Its threads have time to end, and what is registered with `atexit` is run: by the user's code, and by libraries, whose
helper processes then remove what is left of shared memory, semaphores and temporary folders. What Python does after
that, taking modules apart, is left out, as in `multiprocessing`: it would touch all the pages that workers share.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import weakref
from typing import Any

THREADS_S = 1.5  # that threads have to end; a part of the time that the end of a session has for its workers


def begin_anew() -> None:
    """In a process that has just been forked: what is registered for the end of its parent is not for its own.

    What each process does for itself stays: Python's own, for what will be registered there.
    """
    atexit._clear()  # pyright: ignore[reportPrivateUsage] (nothing public does it)
    finalizers: Any = weakref.finalize
    for info in finalizers._registry.values():
        info.atexit = False
    finalizers._registered_with_atexit = False
    if (logging := sys.modules.get("logging")) is not None:
        atexit.register(logging.shutdown)
    if (util := sys.modules.get("multiprocessing.util")) is not None:
        util._finalizer_registry.clear()
        atexit.register(util._exit_function)


def run_exit_functions() -> None:
    """Wait for threads that are no daemons, but not for ever, and run what is registered with `atexit`."""
    # As the interpreter does it. In a thread, so that it can be given up; where Python has begun this process, and not
    # forked it, it would wait there for this thread, too.
    mine: Any = getattr(threading.main_thread(), "_tstate_lock", None)
    getattr(threading, "_shutdown_locks", set[Any]()).discard(mine)
    ending = threading.Thread(
        target=threading._shutdown,  # pyright: ignore (nothing public does it)
        name="cellmesh-leaving",
        daemon=True,
    )
    ending.start()
    ending.join(THREADS_S)
    if ending.is_alive() and (names := _running_threads()):
        print(
            f"[cellmesh: process {os.getpid()} ends, and with it {names}, for which it has waited {THREADS_S:g} s. "
            "Wait for such threads in the task (join), or make them with daemon=True]",
            file=sys.stderr,
        )
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage] (nothing public does it)


def _running_threads() -> str:
    """Those that Python waits for, in words; "" if there are none."""
    mine = (threading.main_thread(), threading.current_thread())
    names = [repr(thread.name) for thread in threading.enumerate() if not thread.daemon and thread not in mine]
    return f"the thread{'s' * (len(names) > 1)} {', '.join(names)}" if names else ""
