"""Threads for what takes a moment: the value of a card, the error of a cell.

They live on. A thread of its own for each takes memory that stays: glibc gives threads one of 16 arenas in turn, and
each of them grows by what a thread needs for a moment (4 kB in all for a step of a notebook, measured over 2,400).
"""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Callable

from ..session.notifier import Callers

IDLE_S = 600.0  # after that they end

_callers = Callers("cellmesh-card", IDLE_S)


def soon(run: Callable[[], None]) -> None:
    """Have it called by one of the threads; from any thread."""
    if threading.current_thread() is threading.main_thread():
        _thread.start_new_thread(_call, (run,))  # an interrupt could leave `call` half done
    else:
        _callers.call(run)


def _call(run: Callable[[], None]) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # which is for the main thread
    _callers.call(run)
