"""The session's drivers: its owner, drivers that have joined, and a driver that adopts it when the owner has left.

A pidfd tells when a driver has ended. A connection tells less: a forked child may hold it too, and drivers connect
again. Only the owner ends its session by closing its connection.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from ...objstore._core import Client
from ..ipc.messages import EngineState, Hello, SessionConfig, Welcome
from ..node import session_dir
from . import core
from .loop import Loop
from .peers import Peer, Peers


class Drivers:
    """The owner and the guests. `engine`: the last state of the session's engine; they are told of it when they come.

    Parameters
    ----------
    segment_fd : int
        Given to drivers that ask for it.
    owner_fd : int
        A pidfd of the owner.
    step : callable
        Gives an event to the core.
    look : callable
        Says that the demand, or for whom the session is kept, may have changed.
    """

    def __init__(
        self,
        client: Client,
        loop: Loop,
        peers: Peers,
        config: SessionConfig,
        pool: core.Pool,
        segment_fd: int,
        owner_fd: int,
        step: Callable[[core.Event], None],
        look: Callable[[], None],
    ) -> None:
        self._client, self._loop, self._peers, self._config, self._pool = client, loop, peers, config, pool
        self._segment_fd, self._step, self._look = segment_fd, step, look
        self._owner_pid = config.driver_pid  # 0 once it has ended: the number may soon be another process's
        self._owner_has_greeted = False
        self._guests: set[int] = set()  # pids
        self.engine: EngineState | None = None
        loop.watch(owner_fd, self._owner_ended)

    @property
    def has_guests(self) -> bool:
        return bool(self._guests)

    def greet(self, peer: Peer, hello: Hello) -> None:
        """Let a driver in."""
        adopted = hello.adopt and self._adopt(peer)
        if peer.pid != self._owner_pid:
            if not hello.adopt:  # else it leaves again: another driver has adopted the session first
                self._add_guest(peer.pid)
        elif not adopted:
            peer.is_owner, self._owner_has_greeted = not self._owner_has_greeted, True
        config = self._config
        welcome = Welcome(
            config.session, os.getpid(), config.namespace, config.total, adopted=adopted, engine=self.engine
        )
        self._peers.post(peer, welcome, (self._segment_fd,) if hello.want_fd else ())

    def lose_owner(self) -> None:
        """The owner has ended, or let go."""
        if self._pool.ended:
            return
        for peer in self._peers:
            peer.is_owner = False
        pid, self._owner_pid = self._owner_pid, 0
        n_detached = self._client.n_detached()
        self._step(core.DriverLost(pid, self._index_of(pid), owner=True, n_detached=n_detached))

    def _owner_ended(self, fd: int) -> None:
        self._loop.forget(fd)
        os.close(fd)
        self.lose_owner()

    def _adopt(self, peer: Peer) -> bool:
        """Make the session the peer's, unless it has an owner, or is to do without."""
        if self._pool.has_owner or self._pool.stays:
            return False
        try:
            pidfd = os.pidfd_open(peer.pid)
        except ProcessLookupError:  # it has ended already
            return False
        self._owner_pid, self._owner_has_greeted, peer.is_owner = peer.pid, True, True
        self._loop.watch(pidfd, self._owner_ended)
        session_dir.return_to(self._config.session_dir)
        self._step(core.DriverCame(peer.pid))
        return True

    def _add_guest(self, pid: int) -> None:
        """A driver that joined keeps its place in the segment until its process ends: connections come and go."""
        if pid in self._guests:
            return
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            self._guest_ended(pid)
            return
        self._guests.add(pid)

        def ended(fd: int) -> None:
            self._loop.forget(fd)
            os.close(fd)
            self._guests.discard(pid)
            self._guest_ended(pid)

        self._loop.watch(pidfd, ended)

    def _guest_ended(self, pid: int) -> None:
        self._look()  # it may have been the last driver for which the session was kept
        for entry in self._client.clients():
            if entry["pid"] == pid and entry["role"] == "driver":
                self._step(core.DriverLost(pid, entry["index"], owner=False))

    def _index_of(self, pid: int) -> int | None:
        return next((entry["index"] for entry in self._client.clients() if entry["pid"] == pid), None)
