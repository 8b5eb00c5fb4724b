"""The connections of a node whose only other machine is an engine: a process of this machine that stands for it, and,
in place of a head, `engine_head`; see `shell.Network`.

The process is started by the agent and ends with it. When it ends by itself the engine is a lost machine; another
process is started, and is another machine.
"""

from __future__ import annotations

import math
import os
import secrets
import select
import socket
import time
from collections import deque
from typing import TYPE_CHECKING

from msgspec import structs

from ...ipc.messages import EngineErrorKind, EngineLine, EngineState
from ...ipc.spawn import spawn
from ...ipc.transport import ConnectionLost, ProtocolError
from ...local_scheduler.policy import backoff_s, tells_failure
from ...system import processes
from .. import messages
from ..engine import EngineDown, EngineSays, EngineUp, EngineUsed, FromEngine
from ..net import shared_frames
from ..net.line import Line
from ..store.control_store import ControlStore
from . import engine_head, events

if TYPE_CHECKING:
    from ...ipc.messages import SessionConfig
    from ..store.control_store import Changes
    from .printing import Printing
    from .shell import Shell

END_S = 0.3  # for the process to end by itself, less than the agent has
NOWHERE = "tcp://"  # all members have an address, and nobody connects to these


class _InMemory:
    """What the control store keeps for a session with an engine goes with its agent."""

    warning = ""

    def load(self) -> dict[str, bytes]:
        return {}

    def commit(self, changes: Changes, life: bytes | None) -> None:
        pass

    def close(self) -> None:
        pass


class EngineLinks:
    """The line to the engine's process.

    Parameters
    ----------
    config : SessionConfig
        Says which engine.
    """

    def __init__(self, config: SessionConfig) -> None:
        assert config.engine is not None
        self._config, self._module = config, config.engine.module
        self._called = config.engine.address.partition(":")[0]
        self.hostname = socket.gethostname()[:256]
        self.endpoint, self.key = NOWHERE, secrets.token_bytes(32)
        self.poll = select.poll()
        self._head = engine_head.EngineHead()
        self._store = ControlStore(_InMemory())
        self._store.begin_life()
        self._said: deque[messages.FromHead] = deque()  # by the head, and not yet told
        self._attempt = self._connected = 0
        self._line: Line | None = None
        self._pid = self._node = 0
        self._reason = ""
        self._kind: EngineErrorKind = "other"
        self._state: EngineState | None = None  # that drivers were told last
        self._n_failures, self._start_at = 0, 0.0  # in a row; when the next process is started

    # ---- what the shell has done
    @property
    def deadline(self) -> float:
        """When to call `tick` at the latest."""
        if self._said or self._attempt != self._connected:
            return 0.0
        return math.inf if self._line is not None else self._start_at

    def tick(self, now: float) -> None:
        """Some time has passed."""
        if self._line is None and self._connected and now >= self._start_at:
            self._start()

    def connect(self, attempt: int) -> None:
        """There is always a head."""
        self._attempt = attempt

    def tell(self, message: messages.ToHead) -> None:
        """Send to the head."""
        if isinstance(message, messages.StoreRequest):
            self._said.append(self._store.perform(message))
        else:
            self._said += engine_head.heard(self._head, message)

    def add(self, member: messages.Member) -> None:
        """That node may be sent to, and heard."""

    def remove(self, node: int) -> None:
        """Not any more."""

    def send(self, node: int, message: messages.Message, frame: bytes | None = None) -> None:
        """Send to the engine; what is for an earlier one goes nowhere."""
        if self._line is not None and node == self._node:
            self._line.send(message, frame)
            self._poll_line()

    def room(self, node: int) -> int:
        """How many bytes go to a node at once."""
        return self._line.room() if self._line is not None and node == self._node else 1

    def probe(self, node: int, endpoint: str) -> None:
        """See whether anything listens at a node's address: this machine sees when the process ends."""

    # ---- what arrives
    def receive(self, shell: Shell, printing: Printing) -> None:
        """Give the shell all that has arrived, but what is about the output of tasks."""
        if self._attempt != self._connected:
            self._connected = self._attempt
            shell.step(events.Connected(self._attempt))
        if (line := self._line) is not None:
            if line.has_backlog:
                if line.flush() and self._node:
                    shell.congested(self._node, False)
                self._poll_line()
            self._hear(line, shell, printing)
        while self._said:
            shell.step(events.HeadSaid(self._attempt, self._said.popleft()))

    def _hear(self, line: Line, shell: Shell, printing: Printing) -> None:
        try:
            for message, frame in line.receive_ready():
                self._heard(message, frame, shell, printing)
        except ConnectionLost:
            self._lost(shell, printing, self._reason or "its process has ended")
        except ProtocolError as error:
            self._lost(shell, printing, f"its process says what is no message: {error}")

    def _heard(
        self,
        message: messages.ToPeer | EngineUp | EngineUsed | EngineSays | EngineDown,
        frame: messages.Frame,
        shell: Shell,
        printing: Printing,
    ) -> None:
        match message:
            case EngineUp(name, nodes, grows, lacks, dashboard):
                total: messages.Shares = {}
                for node in nodes:
                    for kind, amount in node.total.items():
                        total[kind] = total.get(kind, 0) + amount
                self._node = self._node or secrets.randbits(62) | 1
                member = messages.Member(self._node, NOWHERE, self.key, name, total)
                self._n_failures = 0
                said = engine_head.up(self._head, member, nodes, grows, "placement groups" not in lacks)
                state = EngineState(name, lacks, window=self._head.window, dashboard=dashboard)
                self._tell(shell, state, "connected")
                self._said += said
                while self._said:  # it is a member before it says anything
                    shell.step(events.HeadSaid(self._attempt, self._said.popleft()))
            case EngineUsed(used):
                self._head.used = used
            case EngineSays(text, line):
                if text:
                    shell.tell_drivers(text)
                if line is not None and self._state is not None:
                    self._tell(shell, self._state, line)
            case EngineDown(reason, kind):
                self._reason, self._kind = reason, kind
            case messages.Output() | messages.Died() | messages.Flush() | messages.Flushed():
                printing.heard(self._node, message)
            case _:
                shell.receive(self._node, message, frame)

    def _tell(self, shell: Shell, state: EngineState, line: EngineLine) -> None:
        """Tell drivers, if there is something new; `line`: in that state since now, unless it was before."""
        since = self._state.since if self._state is not None and self._state.line == line else time.time()
        state = structs.replace(state, line=line, since=since)
        if state != self._state:
            self._state = state
            shell.tell_engine(state)

    # ---- its process
    def _start(self) -> None:
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        frames = shared_frames.make()
        with there:
            self._pid = spawn(self._module, self._config, there.fileno(), frames)
        self._line = Line(here, FromEngine, shared_frames.SharedFrames(frames, is_first=True))
        os.close(frames)
        self._reason, self._kind = "", "other"
        self.poll.register(here.fileno(), select.POLLIN)

    def _poll_line(self) -> None:
        if (line := self._line) is not None:
            self.poll.modify(line.fileno(), select.POLLIN | (select.POLLOUT if line.has_backlog else 0))

    def _lost(self, shell: Shell, printing: Printing, reason: str) -> None:
        self._end()
        self._n_failures += 1
        if self._node:
            printing.lost(self._node)
            if self._state is not None:
                self._tell(shell, self._state, "lost")
        else:  # it was tried in vain
            was_there = self._state is not None and not self._state.lost
            state = self._state or EngineState(self._called)
            self._tell(shell, structs.replace(state, lost=reason, kind=self._kind), "lost")
            if was_there or tells_failure(self._n_failures):
                shell.tell_drivers(f"The engine cannot be used: {reason}. It is tried again.")
        self._node = 0
        self._said += engine_head.down(self._head, reason)
        self._start_at = time.monotonic() + backoff_s(self._n_failures)

    def _end(self) -> None:
        if self._line is not None:
            self.poll.unregister(self._line.fileno())
            self._line.close()
            self._line = None
            if not processes.end_politely(self._pid, END_S):
                processes.kill_quietly(self._pid)
            os.waitpid(self._pid, 0)

    def close(self) -> None:
        """End the process."""
        self._end()
