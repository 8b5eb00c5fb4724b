"""`python -m cellmesh.engines.actor.process LINE PARENT`: a pocket in a process of its own, for an actor of an engine
that has no process for it, or whose calls are to run at the same time, as an engine has no main thread for that; or
for tasks of one environment (`environment.processes`). It ends with its parent, and when that closes the line.

Beside it `ActorProcess`, by which the parent has it.
"""

from __future__ import annotations

import itertools
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import Connection
from queue import SimpleQueue
from subprocess import Popen
from typing import Any, NoReturn

from msgspec import Struct, msgpack

from ...objstore._core import set_process_name
from ...scheduler.system import processes
from ...scheduler.worker import leaving
from .. import pocket
from ..interface import Outcome, Over
from ..news import Line
from ..parcels import decode_work
from .serving import ServingPocket, or_end

MODULE = "cellmesh.engines.actor.process"


class Asked(Struct, frozen=True, array_like=True):
    """A parcel, by its number on this line, and the bytes of its blobs; or, 0, what the pocket is told; or, below, that
    the parcel of that number without its sign is to be interrupted."""

    number: int
    data: bytes
    blobs: list[bytes] = []


class Answer(Struct, frozen=True, array_like=True):
    """Its outcome, without data if it was interrupted; or, 0, what the pocket says meanwhile, with what is large in
    that."""

    number: int
    data: bytes
    large: list[bytes] = []


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
        self._sends, self._lock = threading.Lock(), threading.Lock()
        self._numbers = itertools.count(1)
        self._overs: dict[int, Over] = {}  # of parcels that it has, in order
        self._is_over = False
        self._here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with there:
            fd = there.fileno()
            command = [sys.executable, "-P", "-m", MODULE, str(fd), str(os.getpid())]
            self._process = Popen(command, pass_fds=[fd])
        self._line = Connection(os.dup(self._here.fileno()))
        self._line.send_bytes(msgpack.encode(sys.path))
        threading.Thread(target=self._listen, name="cellmesh-actor", daemon=True).start()

    def run(self, data: bytes, blobs: Sequence[Any], over: Over) -> int:
        """Have it run a parcel: the constructor, and then calls; or tasks. One that does not serve several at a time
        runs them one after the other. Returns the parcel's number."""
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
        self.send(Answer(0, message, [bytes(one) for one in large]))
        return True

    def answer(self, number: int, outcome: Outcome) -> None:
        """Tell what has become of a parcel."""
        self.send(Answer(number, outcome.data, [bytes(large) for large in outcome.large]))


class _Actor:
    """In that process: what its parent asks for.

    Parameters
    ----------
    line : _ToParent
    """

    def __init__(self, line: _ToParent) -> None:
        self._line = line
        self._parcels: SimpleQueue[Asked | None] = SimpleQueue()  # for the main thread
        self._running = self._to_interrupt = 0  # numbers of parcels
        self._served: ServingPocket | None = None
        self._main = threading.get_ident()
        signal.signal(signal.SIGINT, self.interrupt)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])  # which Ray blocks in what it begins

    def run(self) -> None:
        """Run parcels in the main thread, to the end; if it takes several calls at a time, the first alone."""
        while (asked := self._parcels.get()) is not None:
            outcome = self._run(asked)
            here = pocket.here()
            if isinstance(here, ServingPocket) and here.serves:
                here.attend(self._line)
                self._served = here
            self._line.answer(asked.number, outcome)
            if self._served is not None:
                self._served.serve()

    def _run(self, asked: Asked) -> Outcome:
        try:
            try:
                self._running = asked.number
                if self._to_interrupt != asked.number:
                    return pocket.run(asked.data, asked.blobs, self._line, ServingPocket)
            finally:
                self._running = 0
        except KeyboardInterrupt:
            pass
        return Outcome(b"")

    def interrupt(self, number: int, frame: Any) -> None:
        """A signal handler: interrupts the parcel that is to be."""
        if self._running and self._running == self._to_interrupt:
            pocket.interrupt()

    def hear(self) -> None:
        """In another thread."""
        try:
            while True:
                asked = decode_asked(self._line.connection.recv_bytes())
                if asked.number < 0:
                    self._to_interrupt = -asked.number
                    signal.pthread_kill(self._main, signal.SIGINT)
                elif not asked.number:
                    pocket.hear(asked.data or None)
                elif self._served is None:
                    self._parcels.put(asked)
                else:
                    over = partial(self._line.answer, asked.number)
                    self._served.begin(decode_work(asked.data), asked.blobs, over)
        except EOFError:
            pass
        if self._served is None:
            self._parcels.put(None)
        else:
            self._served.wait()
            _leave()


def _leave() -> NoReturn:
    leaving.run_exit_functions()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def main(fd: int, parent: int) -> None:
    """Run the process, to its end."""
    processes.die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    set_process_name("cellmesh-actor")
    line = _ToParent(Connection(fd))
    sys.path[:] = msgpack.decode(line.connection.recv_bytes(), type=list[str])
    actor = _Actor(line)
    threading.Thread(target=or_end, args=(actor.hear,), name="cellmesh-parcels", daemon=True).start()
    actor.run()
    _leave()


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
