"""A TCP line that a test breaks."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class BrokenLine:
    """Carries to a port of this machine, until it is told not to. `port`: its own."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._ends: list[socket.socket] = []
        self._carries = threading.Event()
        self._carries.set()
        self._is_cut = self._is_over = False
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def cut(self) -> None:
        """Close what there is, and whatever comes."""
        self._is_cut = True
        self._close()

    def hold(self) -> None:
        """Carry nothing, and close nothing."""
        self._carries.clear()

    def mend(self) -> None:
        """Carry again."""
        self._is_cut = False
        self._carries.set()

    def end(self) -> None:
        """It is not there any more."""
        self._is_over = True
        self._carries.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._close()
        for thread in self._threads:
            thread.join()
        self._listener.close()
        for end in self._ends:
            end.close()

    def _close(self) -> None:
        for end in self._ends:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:  # the other end has
                pass

    def _accept(self) -> None:
        while not self._is_over:
            try:
                here, _ = self._listener.accept()
            except OSError:
                return
            if self._is_cut:
                here.close()
                continue
            there = socket.create_connection(("127.0.0.1", self._target))
            self._ends += [here, there]
            for source, target in ((here, there), (there, here)):
                self._threads.append(threading.Thread(target=self._carry, args=(source, target)))
                self._threads[-1].start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                self._carries.wait()
                target.sendall(data)
            target.shutdown(socket.SHUT_RDWR)
        except OSError:  # it was cut
            pass


@contextmanager
def broken_line(port: int) -> Iterator[BrokenLine]:
    """One to that port."""
    line = BrokenLine(port)
    try:
        yield line
    finally:
        line.end()
