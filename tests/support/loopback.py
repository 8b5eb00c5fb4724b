"""What tests of the wire share: several ends in one thread, waited for together, and a line that can be cut."""

from __future__ import annotations

import select
import socket
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from cellmesh.scheduler.cluster.messages import Member, Message
from cellmesh.scheduler.cluster.net import address, sockets
from cellmesh.scheduler.cluster.net.events import Received
from cellmesh.scheduler.cluster.net.keys import KeyPair
from cellmesh.scheduler.cluster.net.peers import Peers
from msgspec import Meta


class Ping(Message, frozen=True, tag="ping"):
    """A message between peers, for tests."""

    text: str


class Pong(Message, frozen=True, tag="pong"):
    """Another one."""

    n: Annotated[int, Meta(ge=0)]


ToPeer = Ping | Pong


class Line:
    """A TCP proxy that passes bytes on, or keeps them, or spoils them, or breaks off. Works while somebody `wait`s with
    it.
    """

    def __init__(self, endpoint: str) -> None:
        self._there = address.parse(endpoint)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = address.endpoint("127.0.0.1", self._listener.getsockname()[1])
        self._epoll = select.epoll()
        self._epoll.register(self._listener, select.EPOLLIN)
        self._other: dict[int, tuple[socket.socket, socket.socket]] = {}
        self.n_connections = self.n_bytes = 0
        self.is_open = True
        self.limit: int | None = None  # break off after that many bytes
        self.spoil: Callable[[bytes], bytes] = bytes  # on the way there
        self.spoil_back: Callable[[bytes], bytes] = bytes

    def fileno(self) -> int:
        return self._epoll.fileno()

    def receive_ready(self) -> list[Any]:
        for fd, _ in self._epoll.poll(0):
            if fd == self._listener.fileno():
                self._accept()
            elif fd in self._other:
                self._pass_on(*self._other[fd])
        return []

    def _accept(self) -> None:
        here = self._listener.accept()[0]
        self.n_connections += 1
        there = socket.create_connection(self._there)
        for one, other in ((here, there), (there, here)):
            self._other[one.fileno()] = one, other
            if self.is_open:
                self._epoll.register(one, select.EPOLLIN)

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        try:
            data = one.recv(1 << 16)
            if data:
                other.sendall(self.spoil_back(data) if one.getpeername() == self._there else self.spoil(data))
        except OSError:
            data = b""
        self.n_bytes += len(data)
        if not data or (self.limit is not None and self.n_bytes > self.limit):
            self._end(one, other)

    def _end(self, *ends: socket.socket) -> None:
        for end in ends:
            self._other.pop(end.fileno(), None)
            end.close()  # and with it its place in the epoll

    def cut(self) -> None:
        """Break every connection; the next one works."""
        for one, other in list(self._other.values()):
            self._end(one, other)

    def stop(self) -> None:
        """Keep what comes, as a switch without power does: nobody is told."""
        self.is_open = False
        for one, _ in self._other.values():
            self._epoll.unregister(one)

    def close(self) -> None:
        self.cut()
        self._listener.close()
        self._epoll.close()


def wait(*ends: Any, until: Callable[[], Any], deadline_s: float = 10.0) -> Any:
    """Serve the ends until something is so; events go to their `heard` lists."""
    poll = select.poll()
    for end in ends:
        poll.register(end.fileno(), select.POLLIN)
    give_up = time.monotonic() + deadline_s
    while True:
        for end in ends:
            HEARD.setdefault(end, []).extend(end.receive_ready())
            if isinstance(end, Peers):
                end.tick(time.monotonic())
        if found := until():
            return found
        left = give_up - time.monotonic()
        assert left > 0, f"not within {deadline_s:g} s; heard {[HEARD[end][-5:] for end in ends]}"
        due_s = min((end.deadline - time.monotonic() for end in ends if isinstance(end, Peers)), default=left)
        poll.poll(max(0.0, min(left, due_s)) * 1000)


HEARD: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()  # events, by end


def heard(end: Any, kind: type | None = None) -> list[Any]:
    """What an end has received so far, of that kind."""
    return [event for event in HEARD.get(end, []) if kind is None or isinstance(event, kind)]


def messages(end: Any, node: int | None = None) -> list[Any]:
    return [event.message for event in heard(end, Received) if node is None or event.node == node]


@contextmanager
def closing(*ends: Any) -> Iterator[None]:
    try:
        yield
    finally:
        for end in ends:
            end.close()


def peers(keys: KeyPair | None = None, **options: Any) -> tuple[Peers, KeyPair]:
    keys = keys or sockets.new_pair()
    return Peers(keys, "127.0.0.1", ToPeer, **options), keys


def member(node: int, end: Peers, keys: KeyPair, endpoint: str = "") -> Member:
    return Member(node, endpoint or end.endpoint, keys.public, f"host{node}", {"CPU": 10_000})
