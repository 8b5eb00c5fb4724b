"""A pocket in a process of its own, see `process`, which begins it. It ends with its parent, and when that closes the
line.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from functools import partial
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, NoReturn

from msgspec import msgpack

from ...objstore._core import deferring, set_process_name
from ...scheduler.system import processes
from ...scheduler.worker import leaving
from .. import pocket
from ..interface import Outcome
from ..news import Line
from ..parcels import Large, decode_work
from .calling import or_end
from .process import LISTENS, Answer, Asked, decode_asked, encode
from .serving import ServingPocket


class _ToParent(Line):
    """The line to the process that has it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._sends = threading.Lock()

    def send(self, answer: Answer) -> None:
        """Send it."""
        with self._sends:
            self.connection.send_bytes(encode(answer))

    def say(self, message: bytes, large: Sequence[Large]) -> bool:
        """Tell what the pocket says."""
        self.send(Answer(0, message, [bytes(one) for one in large]))
        return True

    def listen(self) -> None:
        """The parent is to, as a task wants it that has begun."""
        self.send(Answer(LISTENS, b""))

    def answer(self, number: int, outcome: Outcome) -> None:
        """Tell what has become of a parcel."""
        self.send(Answer(number, outcome.data, [bytes(large) for large in outcome.large]))


class _Actor:
    """What its parent asks for.

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
        signal.signal(signal.SIGINT, deferring(self.interrupt))
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
