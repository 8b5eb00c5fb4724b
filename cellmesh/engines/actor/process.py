"""A pocket in a process of its own, as its parent has it: for an actor of an engine that has no process for it, or
whose calls are to run at the same time, as an engine has no main thread for that; or for tasks of one environment
(`environment.processes`). What it runs is `child`.
"""

from __future__ import annotations

import itertools
import os
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from subprocess import Popen
from typing import Any

from msgspec import Struct, msgpack

from ..interface import Outcome, Over
from ..news import Line

OURS = str(Path(__file__).parents[3])  # where cellmesh is, as that may have been sent here

LISTENS = -1


class Asked(Struct, frozen=True, array_like=True):
    """A parcel, by its number on this line, and the bytes of its blobs; or, 0, what the pocket is told; or, below, that
    the parcel of that number without its sign is to be interrupted."""

    number: int
    data: bytes
    blobs: list[bytes] = []


class Answer(Struct, frozen=True, array_like=True):
    """Its outcome, without data if it was interrupted; or, 0, what the pocket says meanwhile, with what is large in
    that; or, `LISTENS`, that it wants to hear."""

    number: int
    data: bytes
    large: list[bytes] = []


encode: Callable[[Any], bytes] = msgpack.Encoder().encode
decode_asked: Callable[[Any], Asked] = msgpack.Decoder(Asked).decode
decode_answer: Callable[[Any], Answer] = msgpack.Decoder(Answer).decode


def command_of(module: str, *numbers: int) -> list[str]:
    """The command that calls `main(*numbers)` of one of cellmesh's modules, of the cellmesh that is here."""
    begin = (
        "import sys; ours = sys.argv[1]; ours in sys.path or sys.path.insert(0, ours); "
        f"from {module} import main; main(*map(int, sys.argv[2:]))"
    )
    return [sys.executable, "-P", "-c", begin, OURS, *map(str, numbers)]


class ActorProcess:
    """Such a process.

    Parameters
    ----------
    line : Line
        Takes what its pocket says.
    ended : callable (code)
        Called once, in a thread, with its exit status or -signal.
    """

    def __init__(self, line: Line, ended: Callable[[int], None]) -> None:
        self._engine, self._ended = line, ended
        self._sends, self._lock = threading.Lock(), threading.Lock()
        self._numbers = itertools.count(1)
        self._overs: dict[int, Over] = {}  # of parcels that it has, in order
        self._is_over = False
        self._here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with there:
            fd = there.fileno()
            command = command_of("cellmesh.engines.actor.child", fd, os.getpid())
            self._process = Popen(command, pass_fds=[fd])
        self._line = Connection(os.dup(self._here.fileno()))
        self._line.send_bytes(msgpack.encode(sys.path))
        threading.Thread(target=self._listen, name="cellmesh-actor", daemon=True).start()

    def run(self, data: bytes, blobs: Sequence[Any], over: Over) -> None:
        """Have it run a parcel: the constructor, and then calls. One that does not serve several at a time runs them
        one after the other."""
        self.begin(data, blobs, over)

    def begin(self, data: bytes, blobs: Sequence[Any], over: Over) -> int:
        """As `run`, of a parcel with tasks, too. Returns its number."""
        asked = Asked(next(self._numbers), data, [bytes(blob) for blob in blobs])
        with self._lock:
            if not (is_over := self._is_over):
                self._overs[asked.number] = over
        if is_over:
            over(None)
        else:
            self._send(asked)
        return asked.number

    def interrupt(self, number: int) -> None:
        """Interrupt a parcel with tasks: it has an outcome, or one without data."""
        self._send(Asked(-number, b""))

    def hear(self, message: bytes) -> None:
        """Tell its pocket something."""
        self._send(Asked(0, message))

    def _send(self, asked: Asked) -> None:
        try:
            with self._sends:
                self._line.send_bytes(encode(asked))
        except OSError:
            pass  # it has ended, which is the answer

    def end(self, force: bool) -> None:
        """End it, now, or when it has run what it has."""
        if force:
            self._process.kill()
        else:
            try:
                self._here.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # it has ended

    def _listen(self) -> None:
        try:
            while True:
                answer = decode_answer(self._line.recv_bytes())
                if answer.number == LISTENS:
                    self._engine.listen()
                    continue
                if not answer.number:
                    self._engine.say(answer.data, answer.large)
                    continue
                with self._lock:
                    over = self._overs.pop(answer.number)
                over(Outcome(answer.data, answer.large))
        except (EOFError, OSError):
            pass
        code = self._process.wait()
        self._line.close()
        self._here.close()
        self._ended(code)
        with self._lock:
            self._is_over = True
            overs, self._overs = self._overs, {}
        for over in overs.values():  # behind that: who hears of it finds the actor ended
            over(None)
