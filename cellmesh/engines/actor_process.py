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
from .news import Say

MODULE = "cellmesh.engines.actor_process"


class Asked(Struct, frozen=True, array_like=True):
    """A parcel, and the bytes of its blobs."""

    data: bytes
    blobs: list[bytes]


class Answer(Struct, frozen=True, array_like=True):
    """Its outcome; or, `is_said`, what the pocket says meanwhile."""

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
    say : callable (message) -> bool
        Takes what its pocket says.
    ended : callable (code)
        Called once, in a thread, with its exit status or -signal.
    """

    def __init__(self, say: Say, ended: Callable[[int], None]) -> None:
        self._say, self._ended = say, ended
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
        try:
            self._line.send_bytes(encode(Asked(data, [bytes(blob) for blob in blobs])))
        except OSError:
            pass  # it has ended, which is the answer
        if (answer := self._answers.get()) is None:
            self._answers.put(None)
        return answer

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
                    self._say(answer.data)
                else:
                    self._answers.put(Outcome(answer.data, answer.large))
        except (EOFError, OSError):
            pass
        code = self._process.wait()
        self._line.close()
        self._here.close()
        self._ended(code)
        self._answers.put(None)  # behind that: who has waited finds the actor ended


def main(fd: int, parent: int) -> None:
    """Run the process, to its end."""
    processes.die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    set_process_name("cellmesh-actor")
    line, sends = Connection(fd), threading.Lock()
    sys.path[:] = msgpack.decode(line.recv_bytes(), type=list[str])

    def send(answer: Answer) -> bool:
        with sends:
            line.send_bytes(encode(answer))
        return True

    while True:
        try:
            asked = decode_asked(line.recv_bytes())
        except EOFError:
            break
        outcome = pocket.run(asked.data, asked.blobs, lambda message: send(Answer(message, is_said=True)))
        send(Answer(outcome.data, [bytes(large) for large in outcome.large]))
    leaving.run_exit_functions()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
