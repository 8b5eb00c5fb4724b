"""Service threads, beside a main thread that Ctrl-C or the stop button may interrupt at any instant.

`threading.Thread.start` waits for the new thread by an Event. An interrupt there may leave it stuck before it has begun
(see `condition.py`), and an interrupt just before or after it leaves the caller in doubt whether the thread runs.
KeyboardInterrupt is raised in the main thread alone, so here a short-lived thread does the starting. It blocks SIGINT,
which the started thread inherits: the signal is for the main thread, which it has to wake.
"""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Callable

from .condition import Condition


class ServiceThread(threading.Thread):
    """A daemon thread that can be started, again, after an interrupt: make it, keep it, then start it.

    Parameters
    ----------
    run : callable
    name : str
    """

    def __init__(self, run: Callable[[], object], name: str) -> None:
        super().__init__(target=run, name=name, daemon=True)
        self._beginning = _thread.allocate_lock()

    def start(self) -> None:
        """Begin; nothing happens if it has begun already. Interrupted, it begins or can be started again."""
        if self.ident is not None:
            return
        errors: list[BaseException] = []
        begun = _thread.allocate_lock()
        begun.acquire()
        _thread.start_new_thread(self._begin, (begun, errors))
        begun.acquire()
        if errors:
            raise errors[0]

    def _begin(self, begun: _thread.LockType, errors: list[BaseException]) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with self._beginning:
                if self.ident is None:
                    super().start()
        except BaseException as error:  # raised where it was asked for
            errors.append(error)
        finally:
            begun.release()

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end, unless it is the calling thread, or has not begun."""
        if self.ident is not None and self is not threading.current_thread():
            super().join(timeout)


class Later(ServiceThread):
    """Calls a function after a while, unless it is cancelled before.

    Parameters
    ----------
    seconds : float
    function : callable
    name : str
    """

    def __init__(self, seconds: float, function: Callable[[], object], name: str) -> None:
        super().__init__(self._run_later, name)
        self._seconds, self._function = seconds, function
        self._is_cancelled = False
        self._cancelling = Condition()

    def cancel(self) -> None:
        """Do not call it, if that has not begun."""
        self._is_cancelled = True
        self._cancelling.notify_all()

    def _run_later(self) -> None:
        if not self._cancelling.wait_for(lambda: self._is_cancelled, self._seconds):
            self._function()
