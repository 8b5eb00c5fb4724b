"""Probes of addresses, to see whether a process listens there: connections that are opened and closed again, without
a byte.

The kernel answers for the process, so one that is stopped, swapped out or busy answers as fast as any other. A refusal
is the word of a machine that lives, and on which nothing listens there: a process that has bound its port for life has
ended. No answer at all says nothing, as a cable may have been pulled.
"""

from __future__ import annotations

import errno
import select
import socket
from collections.abc import Hashable
from typing import Generic, TypeVar

from . import address

GRACE_S = 0.5  # for a process that lives to connect again; and between two probes at one address

K = TypeVar("K", bound=Hashable)


class Probes(Generic[K]):
    """Some probes under way, and one descriptor that is readable when there is an answer. For one thread."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._open: dict[K, tuple[socket.socket, int]] = {}  # a probe, and what the call itself has said
        self._keys: dict[int, K] = {}  # by descriptor

    def fileno(self) -> int:
        """Readable when `answers` has something to say."""
        return self._epoll.fileno()

    def probe(self, key: K, endpoint: str) -> None:
        """Probe "tcp://HOST:PORT"; what is under way of that key ends without an answer. Never waits.

        A host that is a name gets no answer: to resolve it could take long.
        """
        self.forget(key)
        try:
            host, port = address.parse(endpoint)
            family, kind, protocol, _, where = socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
            )[0]
            probe = socket.socket(family, kind | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, protocol)
        except (address.AddressError, OSError):  # it is no address, or we have no descriptor left
            return
        said = probe.connect_ex(where)
        self._open[key], self._keys[probe.fileno()] = (probe, said), key
        self._epoll.register(probe, select.EPOLLOUT)

    def forget(self, key: K) -> None:
        """The answer does not matter any more. Harmless when there is none to come."""
        probe, _ = self._open.pop(key, (None, 0))
        if probe is not None:
            del self._keys[probe.fileno()]
            probe.close()  # and with it its place in the epoll

    def answers(self) -> list[tuple[K, bool]]:
        """By key, whether something listens there; never waits. What could not be probed is left out."""
        found: list[tuple[K, bool]] = []
        for fd, _ in self._epoll.poll(0):
            key = self._keys[fd]
            probe, said = self._open[key]
            if said in (0, errno.EINPROGRESS):
                said = probe.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            self.forget(key)
            if said in (0, errno.ECONNREFUSED):
                found.append((key, not said))
        return found

    def close(self) -> None:
        """Harmless when repeated."""
        for key in list(self._open):
            self.forget(key)
        self._epoll.close()
