"""`python -m cellmesh.engines.actor_process LINE PARENT`: a pocket in a process of its own, for an actor of an engine
that has no process for it. It ends with its parent, and when that closes the line.

Beside it `ActorProcess`, by which the parent has it.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from queue import SimpleQueue
from subprocess import Popen
from typing import Any

from msgspec import Struct, msgpack

from ..objstore._core import set_process_name
from ..scheduler.system import processes
from ..scheduler.worker import leaving
from . import pocket
from .interface import Outcome
from .news import Line

MODULE = "cellmesh.engines.actor_process"


class Asked(Struct, frozen=True, array_like=True):
    """A parcel, and the bytes of its blobs; or, `is_said`, what its pocket is told while it runs one."""

    data: bytes
    blobs: list[bytes] = []
    is_said: bool = False


class Answer(Struct, frozen=True, array_like=True):
    """Its outcome; or, `is_said`, what the pocket says meanwhile, with what is large in that."""

    data: bytes
    large: list[bytes] = []
    is_said: bool = False


encode: Callable[[Any], bytes] = msgpack.Encoder().encode
decode_asked: Callable[[Any], Asked] = msgpack.Decoder(Asked).decode
decode_answer: Callable[[Any], Answer] = msgpack.Decoder(Answer).decode


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
        self._sends = threading.Lock()
        self._answers: SimpleQueue[Outcome | None] = SimpleQueue()
        self._here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with there:
            fd = there.fileno()
            command = [sys.executable, "-P", "-m", MODULE, str(fd), str(os.getpid())]
            self._process = Popen(command, pass_fds=[fd])
        self._line = Connection(os.dup(self._here.fileno()))
        self._line.send_bytes(msgpack.encode(sys.path))
        threading.Thread(target=self._listen, name="cellmesh-actor", daemon=True).start()

    def run(self, data: bytes, blobs: Sequence[Any]) -> Outcome | None:
        """Have it run a parcel, one at a time; None: it has ended."""
        self._send(Asked(data, [bytes(blob) for blob in blobs]))
        if (answer := self._answers.get()) is None:
            self._answers.put(None)
        return answer

    def hear(self, message: bytes) -> None:
        """Tell its pocket something while it runs one."""
        self._send(Asked(message, is_said=True))

    def _send(self, asked: Asked) -> None:
        try:
            with self._sends:
                self._line.send_bytes(encode(asked))
        except OSError:
            pass  # it has ended, which is the answer

    def end(self, force: bool) -> None:
        """End it, now, or when it has run what it runs."""
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
                if answer.is_said:
                    self._engine.say(answer.data, answer.large)
                else:
                    self._answers.put(Outcome(answer.data, answer.large))
        except (EOFError, OSError):
            pass
        code = self._process.wait()
        self._line.close()
        self._here.close()
        self._ended(code)
        self._answers.put(None)  # behind that: who has waited finds the actor ended


class _ToParent(Line):
    """In that process: the line to the one that has it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._sends = threading.Lock()

    def send(self, answer: Answer) -> None:
        """Send it."""
        with self._sends:
            self.connection.send_bytes(encode(answer))

    def say(self, message: bytes, large: Sequence[bytes]) -> bool:
        """Tell what the pocket says."""
        self.send(Answer(message, [bytes(one) for one in large], is_said=True))
        return True


def _hear(connection: Connection, parcels: SimpleQueue[Asked | None]) -> None:
    try:
        while True:
            asked = decode_asked(connection.recv_bytes())
            if asked.is_said:
                pocket.hear(asked.data)
            else:
                parcels.put(asked)
    except EOFError:
        parcels.put(None)


def main(fd: int, parent: int) -> None:
    """Run the process, to its end."""
    processes.die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    set_process_name("cellmesh-actor")
    line, parcels = _ToParent(Connection(fd)), SimpleQueue[Asked | None]()
    sys.path[:] = msgpack.decode(line.connection.recv_bytes(), type=list[str])
    threading.Thread(target=_hear, args=(line.connection, parcels), name="cellmesh-parcels", daemon=True).start()
    while (asked := parcels.get()) is not None:
        outcome = pocket.run(asked.data, asked.blobs, line)
        line.send(Answer(outcome.data, [bytes(large) for large in outcome.large]))
    leaving.run_exit_functions()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
