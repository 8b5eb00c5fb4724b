"""Threads in the background for what is soon done: the value of a card, the error of a cell.

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


def _new() -> Callers:
    return Callers("cellmesh-background", IDLE_S)


_callers = _new()


def in_background(run: Callable[[], None]) -> None:
    """Have it called by one of the threads; from any thread."""
    if threading.current_thread() is not threading.main_thread():
        _callers.call(run)
        return
    handed_over = _thread.allocate_lock()
    handed_over.acquire()
    _thread.start_new_thread(_hand_over, (run, handed_over))  # an interrupt could leave `call` half done
    handed_over.acquire()


def _hand_over(run: Callable[[], None], handed_over: _thread.LockType) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # which is for the main thread
    _callers.call(run)
    handed_over.release()


def close() -> None:
    """End the threads, once what they have begun is done. What comes later has new ones."""
    global _callers
    ending, _callers = _callers, _new()
    ending.close()
