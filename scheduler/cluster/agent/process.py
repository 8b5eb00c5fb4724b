"""`python -m cellmesh.scheduler.cluster.agent.process SEGMENT CONFIG PARENT`: speaks for a session in its cluster.

Started by the local scheduler, with descriptors of the segment and of the `SessionConfig`. Ends with status 0 when the
session is not part of the cluster any more, see `local_scheduler.core.AgentExited`. If it dies, what ran elsewhere is
retried, and another one begins: as another node, for whom the others have nothing.

Here are the sockets and the loop that waits for them. What is asked of the head, which task goes where and which node
is given up, `core` decides; `shell` carries it out.
"""

from __future__ import annotations

import os
import secrets
import select
import signal
import socket
import sys
import time
from typing import assert_never

from ....objstore._core import ROLE_REMOTE_NODE, Client, set_process_name
from ...ipc import transport
from ...ipc.messages import (
    ClusterRequest,
    Drain,
    Drained,
    FromScheduler,
    Hello,
    SessionConfig,
    WorkerDied,
    WorkerOutput,
)
from ...ipc.transport import Unreadable
from ...system import processes
from .. import messages
from ..net import address, sockets
from ..net.events import (
    Connected,
    Disconnected,
    Faulty,
    LinkEvent,
    PeerEvent,
    Received,
    Rejected,
    Room,
    Unreachable,
)
from ..net.head_link import HeadLink
from ..net.keys import Cluster
from ..net.peers import Peers
from ..net.probe import Probes
from . import core, events
from .engine_links import EngineLinks
from .printing import Printing
from .requests import RequestHooks
from .segment import NodeSegment, shares
from .shell import Shell

LINGER_S = 1.0  # for the goodbye to get out, at most


class Links:
    """A node's connections with the head and with other nodes; see `shell.Network`.

    Parameters
    ----------
    cluster : Cluster
    host, port : str, int
        Where the other nodes connect.
    """

    def __init__(self, cluster: Cluster, host: str, port: int) -> None:
        self._cluster = cluster
        self.keys = sockets.new_pair()
        self.hostname = socket.gethostname()[:256]
        self.peers = Peers(self.keys, host, messages.ToPeer, port)
        self.endpoint, self.key = self.peers.endpoint, self.keys.public
        self._probes: Probes[int] = Probes()
        self._head: HeadLink | None = None
        self._attempt = 0
        self.poll = select.poll()
        for fd in (self.peers.fileno(), self._probes.fileno()):
            self.poll.register(fd, select.POLLIN)

    # ---- what the shell has done
    @property
    def deadline(self) -> float:
        """When to call `tick` at the latest."""
        return self.peers.deadline

    def tick(self, now: float) -> None:
        """Some time has passed."""
        self.peers.tick(now)

    def connect(self, attempt: int) -> None:
        """Drop the connection with the head, and make another."""
        self._drop_head()
        self._attempt = attempt
        where = address.endpoint(*address.parse(self._cluster.address))
        pair = self._cluster.own_pair()
        self._head = HeadLink(self.keys, self._cluster.head_key, where, pair, self.hostname)
        self.poll.register(self._head.fileno(), select.POLLIN)

    def tell(self, message: messages.ToHead) -> None:
        """Send to the head, if there is a connection."""
        if self._head is not None:
            self._head.send(message)

    def add(self, member: messages.Member) -> None:
        """That node may be sent to, and heard."""
        self.peers.add(member)

    def remove(self, node: int) -> None:
        """Not any more."""
        self.peers.remove(node)

    def send(self, node: int, message: messages.Message, frame: bytes | None = None) -> None:
        """Send to a node."""
        self.peers.send(node, message, *(() if frame is None else (frame,)))

    def room(self, node: int) -> int:
        """How many bytes go to a node at once."""
        return self.peers.room(node)

    def probe(self, node: int, endpoint: str) -> None:
        """See whether anything listens at a node's address."""
        self._probes.probe(node, endpoint)

    # ---- what arrives
    def receive(self, shell: Shell, printing: Printing) -> None:
        """Give the shell all that has arrived, but what is about the output of tasks."""
        for event in self.peers.receive_ready():
            self._peer_event(shell, event, printing)
        for node, is_there in self._probes.answers():
            shell.step(events.PeerProbed(node, is_there))
        link = self._head
        for head_event in link.receive_ready() if link is not None else ():
            if self._head is link:  # else it has been given up, and what it says besides is not the next one's
                self._head_event(shell, head_event)

    def _peer_event(self, shell: Shell, event: PeerEvent, printing: Printing) -> None:
        match event:
            case Received(node, messages.Output() | messages.Died() | messages.Flush() | messages.Flushed() as message):
                printing.heard(node, message)
            case Received(node, message, payload):
                shell.receive(node, message, payload[0] if payload else b"")
            case Connected(node):
                shell.step(events.PeerUp(node))
            case Disconnected(node, reason):
                printing.lost(node)
                shell.step(events.PeerDown(node, reason))
            case Room(node):
                shell.congested(node, False)
            case Faulty(node, reason):
                shell.step(events.PeerFaulty(node, reason, for_good=True))
            case _:
                assert_never(event)

    def _head_event(self, shell: Shell, event: LinkEvent) -> None:
        match event:
            case Connected():
                shell.step(events.Connected(self._attempt))
            case Disconnected() | Unreachable():
                self._hang_up(shell)
            case Rejected(reason, is_final):
                if is_final:
                    shell.over = reason
                else:
                    shell.log(reason)
                    self._hang_up(shell)
            case Received(_, message):
                shell.step(events.HeadSaid(self._attempt, message))
            case _:
                assert_never(event)

    def _hang_up(self, shell: Shell) -> None:
        """The connection has ended, or does not come up. When to try again is not ours to say."""
        self._drop_head()
        shell.step(events.Disconnected(self._attempt))

    def _drop_head(self) -> None:
        if self._head is not None:
            self.poll.unregister(self._head.fileno())
            self._head.close()
            self._head = None

    def close(self) -> None:
        """End all connections; what has been said last to the head gets out."""
        if self._head is not None:
            self._head.close(LINGER_S)
        self.peers.close()
        self._probes.close()


class Agent:
    """This node's part in the cluster.

    Attributes
    ----------
    cluster : Cluster or None
        None: all there is besides is an engine.
    me : messages.Member
    shell : Shell
    """

    def __init__(self, config: SessionConfig, client: Client) -> None:
        self._client = client
        self.cluster: Cluster | None = None
        self._links: Links | EngineLinks
        if config.cluster is not None:
            self.cluster = Cluster(config.cluster.folder)
            self._links = Links(self.cluster, config.cluster.host, config.cluster.port)
        else:
            self._links = EngineLinks(config)
        links, labels = self._links, config.cluster.labels if config.cluster is not None else {}
        total, _ = client.resources()
        self.me = messages.Member(
            secrets.randbits(62) | 1,
            links.endpoint,
            links.key,
            links.hostname,
            shares(total),
            {messages.SESSION_LABEL: config.session, **labels},
        )
        self._home = transport.connect(config.address, FromScheduler)  # what drivers hear
        self._home.send(Hello("agent", os.getpid()))
        self._segment = NodeSegment(client, config, self.me, self._home)
        decides = core.start(self.me, time.monotonic(), core.Settings(has_driver=not config.stays))
        self.shell = Shell(decides, time.monotonic, self._segment, links)
        self._segment.attach(self.shell)
        self._printing = Printing(self._home.post, links.send, self._segment.worked_for_us)

    @property
    def over(self) -> str:
        """Why the session is no member any more; "" as long as it is."""
        return self.shell.over

    def run(self, stop: int) -> None:
        """Serve until that descriptor is readable, or there is nothing to be part of any more."""
        shell, links, wake_fd = self.shell, self._links, self._client.wake_fd()
        for fd in (stop, wake_fd, self._home.fileno()):
            links.poll.register(fd, select.POLLIN)
        shell.step(events.Tick())
        while not shell.over:
            pause_s = max(0.0, shell.deadline - time.monotonic())
            ready = {fd for fd, _ in links.poll.poll(pause_s * 1000)}
            if stop in ready:
                self._segment.close()
                shell.step(events.SessionEnds())
                break
            if wake_fd in ready:
                os.read(wake_fd, 8)
                shell.has_news = True
            if self._home.fileno() in ready:
                self._hear_home()
            links.receive(shell, self._printing)
            shell.work()
        shell.close()
        links.close()

    # ---- what tasks print
    def _hear_home(self) -> None:
        try:
            for message, _ in self._home.arriving():
                if isinstance(message, ClusterRequest):
                    self.shell.status_feed.asked(message.request, time.monotonic())
                elif isinstance(message, WorkerOutput):
                    self._segment.printed(message, self._links.room)
                elif isinstance(message, WorkerDied):
                    self._segment.died(message)
                elif isinstance(message, Drain | Drained):
                    self._printing.heard_here(message)
        except Unreadable as error:
            self.shell.log(f"a message of the local scheduler is lost: {error}")


def main(segment_fd: int, config_fd: int, parent: int) -> int:
    """Run the agent; the exit status."""
    processes.die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    set_process_name("cellmesh-agent")
    os.umask(0o077)
    stop, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writer)
    signal.signal(signal.SIGTERM, lambda signum, frame: None)  # the byte in the pipe is what counts
    config = SessionConfig.from_bytes(processes.read_all(config_fd))
    agent = Agent(config, Client(segment_fd, ROLE_REMOTE_NODE, RequestHooks()))
    agent.run(stop)
    if agent.over:
        agent.shell.log(f"this session is not part of its cluster any more: {agent.over}")
        if config.stays and agent.cluster is not None:
            agent.cluster.note_end(config.session, agent.over)
    return 0


if __name__ == "__main__":
    sys.exit(main(*(int(argument) for argument in sys.argv[1:])))
