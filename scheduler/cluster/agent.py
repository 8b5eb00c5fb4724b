"""`python -m cellmesh.scheduler.cluster.agent SEGMENT CONFIG PARENT`: speaks for a session in its cluster.

Started by the local scheduler, with descriptors of the segment and of the `SessionConfig`. Ends with status 0 when the session is not
part of the cluster any more, see `local_scheduler.core.AgentExited`.
"""
from __future__ import annotations

import os
import secrets
import select
import signal
import socket
import sys
import time

from ...objstore import _core
from .. import processes
from ..messages import SessionConfig
from . import address, sockets
from .keys import Cluster
from .messages import (SESSION_LABEL, Drain, End, Leave, Lost, Member, Message, Refused, Register, Registered, RegisterFirst, Report,
                       Shares)
from .wire import Connected, HeadLink, Received, Rejected

LINGER_S = 0.3  # for the goodbye to get out


class Agent:
    """Registers and reports."""

    def __init__(self, config: SessionConfig, client: _core.Client) -> None:
        assert config.cluster is not None
        self._client = client
        cluster = Cluster(config.cluster.folder)
        keys = sockets.new_pair()
        self._link = HeadLink(keys, cluster.head_key, address.endpoint(*address.parse(cluster.address)), cluster.own_pair(),
                              socket.gethostname()[:256])
        total, _ = client.resources()
        self.member = Member(secrets.randbits(62) | 1, address.endpoint(config.cluster.host, config.cluster.port or 1), keys.public,
                             socket.gethostname()[:256], _shares(total),
                             {**config.cluster.labels, SESSION_LABEL: config.session})
        self._n_registered = self._n_reports = self._epoch = 0
        self._beat_s = 1.0
        self._draining = False
        self._report_at: float | None = None
        self.over = ""                                   # why the session is no member any more

    def run(self, stop: int) -> None:
        """Serve until that descriptor is readable, or there is nothing to be part of any more."""
        poll = select.poll()
        poll.register(self._link.fileno(), select.POLLIN)
        poll.register(stop, select.POLLIN)
        while not self.over:
            for event in self._link.receive_ready():
                self._handle(event)
            now = time.monotonic()
            if self._report_at is not None and now >= self._report_at:
                self._report()
                self._report_at = now + self._beat_s
            wait_s = None if self._report_at is None else max(0.0, self._report_at - now)
            if any(fd == stop for fd, _ in poll.poll(None if wait_s is None else wait_s * 1000)):
                break
        self._link.send(Leave(self.member.node))
        self._link.close(LINGER_S)

    def _handle(self, event: object) -> None:
        match event:
            case Connected():
                self._register()
            case Rejected(reason, final=True):
                self.over = reason
            case Received(message=message):
                self._obey(message)

    def _register(self) -> None:
        self._n_registered += 1
        self._link.send(Register(self.member, self._n_registered, self._epoch))

    def _obey(self, message: Message) -> None:
        match message:
            case RegisterFirst():
                self._register()
            case Registered():
                self._epoch = message.epoch
                self._beat_s = message.beat_s
                self._report_at = time.monotonic()
            case Refused(reason) | End(reason):
                self.over = reason
            case Lost(node, reason) if node == self.member.node:
                self.over = reason
            case Drain(node) if node == self.member.node:
                self._draining = True

    def _report(self) -> None:
        total, free = self._client.resources()
        stats = self._client.stats()
        if self._draining and free == total:
            self.over = "it has been drained"
        self._n_reports += 1
        self._link.send(Report(self.member.node, self._n_reports, _shares(free), used_bytes=stats["used_bytes"],
                               size_bytes=stats["capacity_bytes"]))


def _shares(amounts: dict[str, float]) -> Shares:
    return {name: int(amount * 10_000) for name, amount in amounts.items()}


def main(segment_fd: int, config_fd: int, parent: int) -> int:
    """Run the agent; the exit status."""
    processes.die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _core.set_process_name("cellmesh-agent")
    os.umask(0o077)
    stop, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writer)
    signal.signal(signal.SIGTERM, lambda signum, frame: None)  # the byte in the pipe is what counts
    config = SessionConfig.from_bytes(processes.read_all(config_fd))
    agent = Agent(config, _core.Client(segment_fd, _core.ROLE_DRIVER, None))
    agent.run(stop)
    if agent.over:
        print(f"this session is not part of its cluster any more: {agent.over}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(*(int(argument) for argument in sys.argv[1:])))
