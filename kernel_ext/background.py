"""Threads in the background, for what the kernel does beside cells: some for what is soon done (the value of a card,
the error of a cell), now or after a while, and one that hands this to them and publishes.

They live on. A thread of its own for each takes memory that stays: glibc gives threads one of 16 arenas in turn, and
each of them grows by what a thread needs for a moment (4 kB in all for a step of a notebook, measured over 2,400).
ipykernel makes a pair of sockets for each thread that publishes, 37 kB, and keeps it until ten seconds after the thread
has ended.
"""

from __future__ import annotations

import heapq
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from itertools import count

from ..scheduler.sync.threads import ServiceThread
from ..session.notifier import Callers

IDLE_S = 600.0  # after that those that are not needed end


class Delayed:
    """What is to be called after a while, unless it is cancelled before."""

    def __init__(self, run: Callable[[], None], after_s: float) -> None:
        self.at = time.monotonic() + after_s
        self.run: Callable[[], None] | None = run

    def cancel(self) -> None:
        """Do not call it, if that has not begun."""
        self.run = None


class _Threads:
    """The threads, from the first thing that is asked of them to `close`."""

    def __init__(self) -> None:
        # To put something there is one step, also for the main thread, which may be interrupted at any other.
        self._asked: queue.SimpleQueue[Delayed | tuple[Callable[[], None], Future[None]] | None] = queue.SimpleQueue()
        self._callers = Callers("cellmesh-background", IDLE_S)
        self._first = ServiceThread(self._hand_over, "cellmesh-background-first")

    def ask(self, what: Delayed | tuple[Callable[[], None], Future[None]]) -> None:
        self._first.start()
        self._asked.put(what)

    def close(self) -> None:
        self._asked.put(None)
        self._first.start()
        self._first.join()
        self._callers.close()

    def _hand_over(self) -> None:
        waiting: list[tuple[float, int, Delayed]] = []
        numbers = count()
        while True:
            try:
                asked = self._asked.get(timeout=max(0.0, waiting[0][0] - time.monotonic()) if waiting else None)
                if asked is None:
                    return
                if isinstance(asked, Delayed):
                    heapq.heappush(waiting, (asked.at, next(numbers), asked))
                else:
                    _do(*asked)
                del asked  # and with it a ref, or what is shown
            except queue.Empty:
                pass
            while waiting and waiting[0][0] <= time.monotonic():
                delayed = heapq.heappop(waiting)[2]
                run, delayed.run = delayed.run, None
                if run is not None:
                    self._callers.call(run)
                del delayed, run


_threads = _Threads()
_closing = threading.Lock()  # for other threads than the main one, which closes


def in_background(run: Callable[[], None], after_s: float = 0.0) -> Delayed:
    """Have it called by one of the threads, after a while; from any thread. It must not raise.

    Parameters
    ----------
    run : callable
    after_s : float
    """
    delayed = Delayed(run, after_s)
    if threading.current_thread() is threading.main_thread():
        _threads.ask(delayed)
    else:
        with _closing:
            _threads.ask(delayed)
    return delayed


def by_one_thread(run: Callable[[], None]) -> None:
    """Have it called by the thread that does so for all, and wait for that; in the main thread at once. For what is
    done in microseconds; what it raises is raised here.
    """
    if threading.current_thread() is threading.main_thread():
        run()
        return
    done: Future[None] = Future()
    with _closing:
        _threads.ask((run, done))
    done.result()


def close() -> None:
    """End the threads, once what they have begun is done; what is to be called later is not called any more. For the
    main thread. What comes then has new ones.
    """
    global _threads
    with _closing:
        ending, _threads = _threads, _Threads()
    ending.close()


def _do(run: Callable[[], None], done: Future[None]) -> None:
    try:
        done.set_result(run())
    except BaseException as error:  # raised where it was asked for
        done.set_exception(error)
