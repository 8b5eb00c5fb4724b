"""Ray as an engine from outside of its cluster: `init(address="ray://HOST:10001")`, by Ray Client (decision 161).

Ray Client has no streams, makes no promise about what was under way when its line breaks, and can hang then. So it only
carries requests to a *relay* within the cluster, which is what submits there, by `RayEngine`; and it does so in a
process of its own (`client`), which is killed when no answer comes. The next one finds the relay as it was left. What
goes to and fro is numbered (`relay.pieces`, decision 162), so nothing is lost, and nothing is done twice.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from multiprocessing.connection import Connection
from subprocess import Popen, TimeoutExpired
from typing import Any

from ...exceptions import EngineError, EngineUnreachableError
from ..actor.process import command_of
from ..interface import EngineNode, Facts, Gone, Notice
from ..relay.home import RelayEngine
from .client import END_S, HINT, PREFIX, Begin, Over
from .engine import RayEngine
from .joining import NotServed
from .relay import UNASKED_S, WAIT_S

SLOW_S = WAIT_S + 5.0  # without an answer, after which people are told
ANSWER_S = WAIT_S + 50.0  # for a request of `pieces.BATCH_BYTES`
UP_S = 60.0  # for a process to find the relay
AGAIN_S = 1.0  # between two that have not
TRIES = 3  # of the first connection, see `NotServed`
GIVE, TAKE = range(2)  # lanes


class ClientProcess:
    """A process that has Ray Client."""

    def __init__(self, begin: Begin) -> None:
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM) for _ in (GIVE, TAKE)]
        descriptors = [there.fileno() for _, there in pairs]
        command = command_of("cellmesh.engines.ray.client", *descriptors)
        # In a session of its own: it outlives this process by what it takes to have the relay end.
        self._process = Popen(command, pass_fds=descriptors, start_new_session=True)
        self._lanes = [Connection(os.dup(here.fileno())) for here, _ in pairs]
        for here, there in pairs:
            here.close()
            there.close()
        self._lanes[GIVE].send(begin)

    def ask(self, lane: int, request: Any, is_slow: Callable[[], None]) -> Any:
        """The answer; `is_slow` is called if that takes its time. Raises OSError or EOFError: there will be none."""
        self._lanes[lane].send(request)
        if not self._lanes[lane].poll(SLOW_S):
            is_slow()
        return self.answer(lane, ANSWER_S - SLOW_S)

    def answer(self, lane: int, patience_s: float | None) -> Any:
        """What comes next."""
        if not self._lanes[lane].poll(patience_s):
            raise TimeoutError
        return self._lanes[lane].recv()

    def kill(self) -> None:
        """End it, and have the relay stay."""
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        """Have the relay end, and the process."""
        for lane in self._lanes:
            lane.close()
        try:
            self._process.wait(END_S)
        except TimeoutExpired:
            self.kill()


class OutsideEngine(RelayEngine):
    """See above."""

    def __init__(self) -> None:
        super().__init__(RayEngine.can)
        self._address, self._name = "", f"relay-{uuid.uuid4().hex}"
        self._process: ClientProcess | None = None  # None: there is none that answers
        self._mends = threading.Lock()
        self._closes = threading.Event()
        self._slow = set[int]()  # lanes whose request has had no answer for a while
        self._answered_at = 0.0

    def open(self, address: str, options: Mapping[str, Any]) -> tuple[Facts, list[EngineNode]]:
        """Begin."""
        host, _, port = address.removeprefix(PREFIX).rpartition(":")
        if not host or not port.isdecimal():
            raise EngineUnreachableError(f"{address!r} has no port: it is ray://HOST:PORT. {HINT}")
        self._address = address
        found: Any = None
        for _ in range(TRIES):
            process = self._process = ClientProcess(Begin(address, dict(options), self._name, True))
            try:
                found = process.answer(GIVE, None)
            except (EOFError, OSError):
                raise EngineError(f"{address}: the process that has Ray Client ended before it was connected") from None
            if not isinstance(found, NotServed):
                break
            process.kill()
        if isinstance(found, EngineError):
            raise found
        self._answered_at = time.monotonic()
        for carry in (self._give_all, self._take_all):
            threading.Thread(target=carry, name="cellmesh-relay", daemon=True).start()
        return found

    def close(self) -> None:
        """End."""
        with self._changed:
            self._closes.set()
            self._changed.notify_all()
        if (process := self._process) is not None:
            process.end()

    def _give_all(self) -> None:
        while not self._closes.is_set():
            with self._changed:
                self._changed.wait_for(lambda: self._calls or self._closes.is_set())
            if (batch := self.calls()) and (n := self._carried(GIVE, batch)) is not None:
                self.given(n)

    def _take_all(self) -> None:
        while not self._closes.is_set():
            if (batch := self._carried(TAKE, self.n_come)) is not None:
                self.take(batch)

    def _carried(self, lane: int, request: Any) -> Any:
        """The relay's answer; None: there is none, and the line is mended, or will not be."""
        if (process := self._mended()) is None:
            return None
        try:
            answer = process.ask(lane, request, partial(self._note_slow, process, lane))
        except (EOFError, OSError):
            self._broken(process)
            return None
        self._answered_at = time.monotonic()
        if lane in self._slow:
            self._note_quick(lane)
        if isinstance(answer, Over):
            self._over(answer.why)
            return None
        return answer

    def _note_slow(self, process: ClientProcess, lane: int) -> None:
        with self._mends:
            if process is self._process:
                self._slow.add(lane)
                self._tell(Notice(line="slow"))

    def _note_quick(self, lane: int) -> None:
        with self._mends:
            self._slow.discard(lane)
            if not self._slow and self._process is not None:  # else it is broken meanwhile
                self._tell(Notice(line="connected"))

    def _broken(self, process: ClientProcess) -> None:
        with self._mends:
            if process is self._process and not self._closes.is_set():
                self._process = None
                self._slow.clear()
                process.kill()
                text = f"The line to {self._address} is broken. It is tried again; what runs goes on."
                self._tell(Notice(text, "broken"))

    def _mended(self) -> ClientProcess | None:
        """The process; None: it is over."""
        with self._mends:
            while self._process is None and not self._closes.is_set():
                if time.monotonic() > self._answered_at + UNASKED_S:
                    self._over(f"{self._address} has not answered for {UNASKED_S / 60:g} minutes")
                    break
                process = ClientProcess(Begin(self._address, {}, self._name, False))
                try:
                    found = process.answer(GIVE, UP_S)
                except (EOFError, OSError) as error:
                    found = EngineError(str(error))
                if found is None:
                    self._process = process
                    self._tell(Notice(f"The line to {self._address} is there again.", "connected"))
                    break
                process.kill()
                if isinstance(found, Over):
                    self._over(found.why)
                else:
                    self._closes.wait(AGAIN_S)
            return None if self._closes.is_set() else self._process

    def _over(self, why: str) -> None:
        if not self._closes.is_set():
            self._closes.set()
            self._tell(Gone(why))
