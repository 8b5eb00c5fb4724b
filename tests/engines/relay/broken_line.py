"""`python tests/engines/relay/broken_line.py '{"port": PORT}'`: a TCP line that a test breaks, in a process of its own
as its connections come and go. Prints its address, does the methods whose names it is given, and ends with its standard
input."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading


class BrokenLine:
    """Carries to a port of this machine, until it is told not to. `port`: its own."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._ends: list[socket.socket] = []
        self._carries = threading.Event()
        self._carries.set()
        self._is_cut = False
        threading.Thread(target=self._accept).start()

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

    def _close(self) -> None:
        for end in self._ends:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:  # the other end has
                pass

    def _accept(self) -> None:
        while True:
            here, _ = self._listener.accept()
            if self._is_cut:
                here.close()
                continue
            there = socket.create_connection(("127.0.0.1", self._target))
            self._ends += [here, there]
            for source, target in ((here, there), (there, here)):
                threading.Thread(target=self._carry, args=(source, target)).start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                self._carries.wait()
                target.sendall(data)
            target.shutdown(socket.SHUT_RDWR)
        except OSError:  # it was cut
            pass


if __name__ == "__main__":
    line = BrokenLine(**json.loads(sys.argv[1]))
    print(f"127.0.0.1:{line.port}", flush=True)
    for asked in sys.stdin:
        getattr(line, json.loads(asked)[0])()
    os._exit(0)  # with its threads
