"""The stop button ends a cell that awaits something, at any moment.

ipykernel answers SIGINT in such a cell by a callback on the event loop that cancels the cell. But the loop sleeps, and
a callback that its own thread adds does not wake it. The cell would end when it would have ended anyway (ipykernel
issue 881, as of ipykernel 7.4). So Python writes a byte into a socket at every signal, and the loop wakes up to read
it.

There is a short time in which the cell is a task of the loop already, and ipykernel does not watch over it yet. A
SIGINT then ends ipykernel's handling of the request, which tells the front end that the cell has ended. The task would
still run, and nothing could stop it. `was_interrupted_before` finds such a cell.

What then becomes of the tasks that the cell has submitted is decided in `events`.
"""

from __future__ import annotations

import _thread
import asyncio
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

NONE = -1  # the descriptor that stands for none
AGAIN_S = 0.01  # the cell runs by then


def was_interrupted_before() -> bool:
    """Whether a cell that begins to run has been interrupted.

    Its request is over then, and between requests SIGINT is ignored.
    """
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    ):
        return False
    try:
        return asyncio.current_task() is not None
    except RuntimeError:  # no loop runs
        return False


@contextmanager
def held_back() -> Iterator[None]:
    """Hold a SIGINT back: it comes again when this is over.

    IPython takes a KeyboardInterrupt in a callback before a cell for the callback's error, and goes on to the cell.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    pressed: list[int] = []
    signal.signal(signal.SIGINT, lambda signum, frame: pressed.append(signum))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if pressed:
            press_again()


def press_again() -> None:
    """Send the main thread a SIGINT soon.

    If it were sent to the process, the sending thread might take it, and the main thread would sleep on.
    """
    main_thread = threading.main_thread().ident
    assert main_thread is not None

    def press() -> None:
        time.sleep(AGAIN_S)
        signal.pthread_kill(main_thread, signal.SIGINT)

    # Not a ServiceThread, whose start waits: the interrupt would come in there, and be lost with the unraisable error.
    _thread.start_new_thread(press, ())


class LostInterrupts:
    """Sends a KeyboardInterrupt again that was raised in a destructor or in the callback of a weak reference.

    Python can only report such an exception.
    """

    def __init__(self) -> None:
        self._before: Callable[[Any], Any] = sys.__unraisablehook__
        self._is_on = False

    def install(self) -> None:
        """Begin."""
        self._is_on, self._before = True, sys.unraisablehook
        sys.unraisablehook = self

    def uninstall(self) -> None:
        """Undo `install`. If another hook has been put before this one since, this one passes everything on."""
        self._is_on = False
        if sys.unraisablehook is self:
            sys.unraisablehook = self._before

    def __call__(self, unraisable: Any) -> None:
        if self._is_on and unraisable.exc_type is KeyboardInterrupt:
            press_again()
        else:
            self._before(unraisable)


class SignalWakeup:
    """Wakes the event loop of the kernel's main thread at every signal."""

    def __init__(self) -> None:
        self._sockets: tuple[socket.socket, socket.socket] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def arm(self) -> None:
        """Called where a cell begins; nothing is done outside a running loop, or if something else wakes it."""
        if threading.current_thread() is not threading.main_thread():
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # a terminal
            return
        if self._loop is not loop:
            self.disarm()
            self._sockets = reader, writer = socket.socketpair()
            reader.setblocking(False)
            writer.setblocking(False)
            loop.add_reader(reader, reader.recv, 4096)
            self._loop = loop
        assert self._sockets is not None
        own = self._sockets[1].fileno()
        before = signal.set_wakeup_fd(own, warn_on_full_buffer=False)
        if before not in (NONE, own):
            signal.set_wakeup_fd(before)

    def disarm(self) -> None:
        """Undo `arm`."""
        if self._sockets is None or self._loop is None:
            return
        reader, writer = self._sockets
        before = signal.set_wakeup_fd(NONE)
        if before not in (NONE, writer.fileno()):
            signal.set_wakeup_fd(before)
        if not self._loop.is_closed():
            self._loop.remove_reader(reader)
        reader.close()
        writer.close()
        self._sockets = self._loop = None
