"""`python -m cellmesh.engines.process LINE FRAMES CONFIG PARENT`: stands for an engine towards the session's agent.

Started by the agent, with descriptors of the line to it, of the memory for its frames, and of the `SessionConfig`. It
has the engine's library, which may do what it likes here: if it hangs or dies, the engine is lost, and another process
is started. The loop is one thread's: what the engine tells from others is put into a queue. Ends when the agent closes
the line.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections import deque
from select import POLLIN, POLLOUT, poll

from ..errors.engine_limits import kind_of
from ..exceptions import EngineError
from ..objstore._core import set_process_name
from ..scheduler.cluster.engine import EngineDown, EngineNode, EngineSays, EngineUp, EngineUsed, ToEngine
from ..scheduler.cluster.net.line import Line
from ..scheduler.cluster.net.reliable import Overrun
from ..scheduler.cluster.net.shared_frames import SharedFrames
from ..scheduler.ipc.messages import MAX_TEXT_CHARS, EngineConfig, SessionConfig
from ..scheduler.ipc.transport import ConnectionLost, ProtocolError
from ..scheduler.system import processes
from ..scheduler.worker.main import resolve
from .addresses import ENGINES, prefix_of
from .calls import amounts
from .connection.connecting import connected
from .errors import ErrorWriter
from .interface import Engine, Event, Facts, Gone, NodesChanged, Notice
from .peer import EnginePeer
from .values import Fault

SWEEP_S = 5.0


class EngineProcess:
    """The process's loop.

    Parameters
    ----------
    engine : Engine
        Not connected.
    config : SessionConfig
    line : Line
        To the agent.
    """

    def __init__(self, engine: Engine, config: SessionConfig, line: Line) -> None:
        assert config.engine is not None
        self._engine, self._config, self._line, self._where = engine, config, line, config.engine
        self._told: deque[Event] = deque()
        self._wake, self._woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def run(self) -> None:
        """Serve until the agent has closed the line, or the engine is lost."""
        try:
            self._serve(self._connected(self._where))
        except EngineError as error:
            self._line.send(EngineDown(str(error)[:MAX_TEXT_CHARS], kind_of(error)))
        except Fault as fault:
            self._leave(f"its agent says what cannot be: {fault}")
        except Overrun as error:
            self._leave(str(error))
        except (ConnectionLost, ProtocolError):
            pass  # the session ends
        finally:
            self._engine.close()

    def _connected(self, where: EngineConfig) -> Facts:
        found = connected(self._engine, where.address, where.options, self._tell)
        self._facts = found
        self._say_nodes()
        return found

    def _say_nodes(self) -> None:
        nodes = [EngineNode(node.name, amounts(node.total)) for node in self._engine.nodes()]
        facts = self._facts
        dashboard = facts.dashboard[:MAX_TEXT_CHARS]
        self._line.send(EngineUp(facts.name, nodes, facts.grows, list(self._engine.can.lacks), dashboard))

    def _tell(self, event: Event) -> None:
        """Called by the engine, in any thread."""
        self._told.append(event)
        try:
            os.write(self._woken, b"\0")
        except BlockingIOError:  # it is awake
            pass

    def _serve(self, facts: Facts) -> None:
        session = self._config
        peer = EnginePeer(
            self._engine,
            facts.name,
            session.session,
            session.namespace,
            self._line.send,
            ErrorWriter().bytes_of,
            time.monotonic,
        )
        waits = poll()
        waits.register(self._wake, POLLIN)
        wait_s = SWEEP_S
        while True:
            waits.register(self._line.fileno(), POLLIN | (POLLOUT if self._line.has_backlog else 0))
            ready = {fd for fd, _ in waits.poll(wait_s * 1000)}
            if self._wake in ready:
                os.read(self._wake, 4096)
            if self._line.fileno() in ready:
                self._line.flush()
                for message, frame in self._line.receive_ready():
                    peer.receive(message, frame)
            while self._told:
                event = self._told.popleft()
                if isinstance(event, Gone):
                    self._leave(event.reason)
                    return
                if isinstance(event, NodesChanged):
                    self._say_nodes()
                elif isinstance(event, Notice):
                    self._line.send(EngineSays(event.text[:MAX_TEXT_CHARS], event.line))
                else:
                    peer.told(event)
            wait_s = peer.flush() or SWEEP_S
            peer.sweep(time.monotonic())
            if (used := peer.news_of_used()) is not None:
                self._line.send(EngineUsed(used))

    def _leave(self, reason: str) -> None:
        self._line.send(EngineDown(reason[:MAX_TEXT_CHARS], "unreachable"))


def main(line_fd: int, frames_fd: int, config_fd: int, parent: int) -> int:
    """Run the process; the exit status."""
    processes.die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    set_process_name("cellmesh-engine")
    os.umask(0o077)
    config = SessionConfig.from_bytes(processes.read_all(config_fd))
    assert config.engine is not None
    sys.path[:] = [*config.sys_path, *(path for path in sys.path if path not in config.sys_path)]
    engine = resolve(ENGINES[prefix_of(config.engine.address)])()
    frames = SharedFrames(frames_fd, is_first=False)
    os.close(frames_fd)
    EngineProcess(engine, config, Line(socket.socket(fileno=line_fd), ToEngine, frames)).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(*(int(argument) for argument in sys.argv[1:])))
