"""Lets the stop button end a cell that awaits something.

ipykernel answers SIGINT in such a cell by cancelling it, from a callback that it adds to the event loop. But the loop
sleeps, and a callback added by its own thread does not wake it: the cell ends when it would have ended anyway
(ipykernel issue 881, as of ipykernel 7.4). Python can write a byte into a socket at every signal; the loop wakes when
it has something to read.
"""
from __future__ import annotations

import asyncio
import signal
import socket
import threading

NOBODY = -1  # the descriptor that stands for none


class SignalWakeup:
    """Wakes the event loop of the kernel's main thread at every signal."""

    def __init__(self) -> None:
        self._sockets: tuple[socket.socket, socket.socket] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def arm(self) -> None:
        """Called where a cell begins; nothing is done outside a running loop, or if somebody else wakes it."""
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
        ours = self._sockets[1].fileno()
        before = signal.set_wakeup_fd(ours, warn_on_full_buffer=False)
        if before not in (NOBODY, ours):
            signal.set_wakeup_fd(before)

    def disarm(self) -> None:
        """Undo `arm`."""
        if self._sockets is None or self._loop is None:
            return
        reader, writer = self._sockets
        before = signal.set_wakeup_fd(NOBODY)
        if before not in (NOBODY, writer.fileno()):
            signal.set_wakeup_fd(before)
        if not self._loop.is_closed():
            self._loop.remove_reader(reader)
        reader.close()
        writer.close()
        self._sockets = self._loop = None
