"""The two processes that the local scheduler starts itself, the zygote and in a cluster the agent, and the time that
workers, which the zygote forks, have to leave when the session ends."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Container, Sequence
from typing import Any, cast

from ...objstore._core import ROUTE_NEVER, Client
from ..ipc import messages, transport
from ..ipc.messages import (
    ClusterReply,
    ClusterRequest,
    Drain,
    Drained,
    ForkWorkers,
    FromZygote,
    PackagesImported,
    PackageState,
    PreloadModules,
    SessionConfig,
    ToZygote,
    TryPackage,
)
from ..ipc.spawn import spawn
from ..ipc.transport import Channel, ConnectionLost, ProtocolError
from ..system import processes
from .loop import Loop
from .peers import Peer, Peers

# For exit functions, for threads that end, and for what they print to be passed on.
LEAVE_S = 2.0
# For a task that has its result already, and just does not count as finished. The others are not waited for.
FINISH_S = 0.05


class Zygote:
    """The process that forks workers, and the link to it.

    Parameters
    ----------
    pid, link : int, Channel
        Of the first one, which is running.
    take : callable
        Gets each message from it, and the descriptors that came along.
    """

    def __init__(
        self,
        loop: Loop,
        config: SessionConfig,
        segment_fd: int,
        pid: int,
        link: Channel,
        take: Callable[[FromZygote, list[int]], None],
    ) -> None:
        self._loop, self._config, self._segment_fd, self._take = loop, config, segment_fd, take
        self.pid, self._link = pid, link
        self._preloaded: list[str] = []  # beside what the configuration names
        self._orders: dict[str, TryPackage] = {}  # by the package's name
        self._states: dict[str, PackageState] = {}  # likewise
        self._is_trying = False
        self._has_imported = False  # since workers were last replaced
        loop.watch(link.fileno(), self._read)

    def fork(self, n: int) -> None:
        """Ask for so many workers."""
        self._link.post(ForkWorkers(n))

    def preload(self, names: Sequence[str]) -> None:
        """Have it import modules before it forks again; so many at most, of all who ask."""
        new = [name for name in names if name not in self._preloaded][: messages.MAX_PRELOADS - len(self._preloaded)]
        if new:
            self._preloaded += new
            self._link.post(PreloadModules(new))

    def warm(self, imported: PackagesImported) -> None:
        """Have it import packages, one after another, when it has nothing else to do and trials show no harm."""
        for package in imported.packages:
            known = self._orders.get(package.name)
            if known is None and len(self._orders) >= messages.MAX_PACKAGES:
                continue
            if known is None or not set(package.modules) <= set(known.package.modules):
                self._orders[package.name] = TryPackage(package, imported.sys_path)
                self._states[package.name] = PackageState(package.name, "waiting")
        self._try_next()

    def note(self, state: PackageState) -> bool:
        """Take in what has become of a package; whether workers are to be replaced by those that have more of them."""
        self._states[state.name] = state
        if state.state == "importing":
            self._has_imported = True
            return False
        self._is_trying = False
        self._try_next()
        is_due = self._has_imported and not self._is_trying
        self._has_imported = self._has_imported and not is_due
        return is_due

    def packages(self) -> list[PackageState]:
        """What has become of all that programs have imported."""
        return list(self._states.values())

    def _try_next(self) -> None:
        waiting = next((name for name, state in self._states.items() if state.state == "waiting"), None)
        if waiting is not None and not self._is_trying:
            self._is_trying = True
            self._link.post(self._orders[waiting])

    def ended(self) -> None:
        """It has ended: take what it still said."""
        if self._loop.is_watched(self._link.fileno()):
            self._read(self._link.fileno())
        self._loop.forget(self._link.fileno())
        self._link.close()

    def restart(self) -> None:
        """Start another one. This process has threads, so it cannot fork one as `__main__` does."""
        self._link, there = transport.pair(FromZygote, ToZygote)
        self.pid = spawn("cellmesh.scheduler.worker.zygote", self._config, there.fileno(), self._segment_fd)
        there.close()
        self._loop.watch(self._link.fileno(), self._read)
        if self._preloaded:
            self._link.post(PreloadModules(self._preloaded))
        for name, state in self._states.items():
            if state.state == "importing":
                reason = "the process that forks workers has ended in its import"
                self._states[name] = PackageState(name, "cold", reason)
            elif state.state == "warm":
                self._states[name] = PackageState(name, "waiting")
        self._is_trying = False
        self._try_next()

    def _read(self, fd: int) -> None:
        try:
            received = self._link.receive_ready()
        except (ConnectionLost, ProtocolError):
            self._loop.forget(fd)  # it has ended; SIGCHLD says how
            return
        for message, fds in received:
            self._take(cast(FromZygote, message), fds)  # the link accepts nothing else


class Agent:
    """The process that connects the session with its cluster, if it takes part in one.

    Attributes
    ----------
    pid : int
        0: there is none (now).
    """

    def __init__(self, client: Client, peers: Peers, config: SessionConfig, segment_fd: int) -> None:
        self._client, self._peers, self._config, self._segment_fd = client, peers, config, segment_fd
        self.pid = 0
        self._has_left = False  # the session took part in a cluster, and does no more
        self._requests: deque[ClusterRequest] = deque(maxlen=messages.MAX_LINKS)  # from before it has greeted
        self._drains: dict[int, tuple[Peer, Drain]] = {}  # by the number that it has been given
        self._n_drains = 0

    def start(self) -> None:
        """Start it, for the first time or again."""
        self.pid = spawn("cellmesh.scheduler.cluster.agent.process", self._config, self._segment_fd)

    def greet(self, peer: Peer) -> None:
        """It has connected: give it what was asked meanwhile."""
        if peer.pid != self.pid:
            raise ProtocolError("it says that it is the agent, and is not")
        for request in self._requests:
            self._peers.post(peer, request)
        self._requests.clear()

    def ask(self, peer: Peer, request: ClusterRequest) -> None:
        """Pass a driver's request on."""
        if (agent := self._peers.agent()) is not None:
            self._peers.post(agent, request)
        elif self.pid:
            self._requests.append(request)
        else:
            error = "this session takes part in no cluster at this moment"
            self._peers.post(peer, ClusterReply(request.request, error=error))

    def drain(self, peer: Peer, request: Drain) -> bool:
        """Have it send what tasks have printed on other machines, and `peer` told then; false if there is none."""
        if (agent := self._peers.agent()) is None:
            return False
        self._n_drains += 1
        self._drains[self._n_drains] = peer, request
        self._peers.post(agent, Drain(self._n_drains))
        return True

    def drained(self, number: int) -> None:
        """It has."""
        if number not in self._drains:
            raise ProtocolError("it answers what it was not asked")
        peer, request = self._drains.pop(number)
        self._peers.post(peer, Drained(request.request))

    def ended(self, code: int) -> tuple[int, ...]:
        """It has ended, with status 0 if the session has left its cluster; the client slots that it held."""
        held = tuple(entry["index"] for entry in self._client.clients() if entry["pid"] == self.pid)
        self.pid = 0
        for number in list(self._drains):
            self.drained(number)
        if code == 0:
            self._has_left = True
            self._client.direct(ROUTE_NEVER)
        return held

    def fail_unroutable(self) -> None:
        """Once the cluster is left: end tasks that may run on other machines only."""
        if self._has_left:
            for row in self._client.surplus():
                if row.asks:
                    self._client.fail_unrouted(row.resource_class, False)


def let_leave(client: Client, loop: Loop, workers: Container[int]) -> list[int]:
    """End the session for all that are attached, and serve workers until those have ended that run nothing.

    Parameters
    ----------
    workers : container of int
        The pids of those that have not ended; handlers of the loop take them out.

    Returns
    -------
    list of int
        Those that have not ended within `LEAVE_S`.
    """

    def rows() -> list[dict[str, Any]]:
        return [row for row in client.clients() if row["pid"] in workers]

    for row in rows():
        if row["state"] == "blocked":  # what it waits for will not come: it is not to begin to handle that
            processes.kill_group(row["pid"])
    client.end_session()
    begun = now = time.monotonic()
    while left := [row["pid"] for row in rows() if now < begun + FINISH_S or not _runs(row)]:
        until = begun + (FINISH_S if now < begun + FINISH_S else LEAVE_S)
        if now >= until:
            return left
        loop.call_handlers(until - now)
        now = time.monotonic()
    return []


def _runs(row: dict[str, Any]) -> bool:
    return row["state"] in ("busy", "blocked") or row["running_calls"] > 0
