"""What sockets between machines have in common: encryption, the gate, one descriptor for all of them. With `wire`,
which says what goes over them, the only module that touches ZeroMQ.

Encryption, heartbeats and reconnecting are the affair of libzmq's own threads; nothing here runs while nothing happens.
"""
from __future__ import annotations

import errno
import os
import select
import struct
from collections import deque
from collections.abc import Callable
from typing import Any

import zmq
from zmq.utils import z85

from . import address
from .keys import KeyPair

HANDSHAKE_MS = 2_000
HEARTBEAT_MS = 1_000
HEARTBEAT_TIMEOUT_MS = 3_000       # a connection that is silent for so long is made anew; nothing is lost by that
CONNECT_TIMEOUT_MS = 5_000
RECONNECT_MS, MAX_RECONNECT_MS = 100, 2_000
MAX_READ = 256                     # messages at a time: others want their turn
MAX_SOCKETS = 65_536
MAX_AT_GATE = 1_024                # handshakes that wait for us to hear of who it is; each ends after HANDSHAKE_MS

_ZAP = "inproc://zeromq.zap.01"


# ---- keys
def new_pair() -> KeyPair:
    """A new CURVE key pair."""
    public, secret = zmq.curve_keypair()
    return KeyPair(z85.decode(public), z85.decode(secret))


def require_encryption() -> None:
    """Raise RuntimeError if nothing could be encrypted: fail, never degrade."""
    if not zmq.has("curve"):
        raise RuntimeError("this libzmq cannot encrypt (no CURVE), so machines cannot be connected; install pyzmq "
                           "from a wheel")


def public_of(secret: bytes) -> bytes:
    """The public key that belongs to a secret one."""
    return z85.decode(zmq.curve_public(z85.encode(secret)))


# ---- what all of them share
class Sockets:
    """Some sockets, and one descriptor that is readable when one of them wants attention.

    libzmq's descriptors signal changes, not states, and any call on a socket may swallow the signal. So who has sent or
    stopped reading early says `_look_again`, and our own descriptor stays readable until everything has been looked at.
    """

    def __init__(self, n_threads: int = 1) -> None:
        require_encryption()
        self._context = zmq.Context(n_threads)
        self._context.set(zmq.MAX_SOCKETS, MAX_SOCKETS)
        self._epoll = select.epoll()
        self._wakeup = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll.register(self._wakeup, select.EPOLLIN)
        self._readers: dict[int, tuple[zmq.Socket[bytes], Callable[[], None]]] = {}  # by descriptor
        self._again: set[int] = set()
        self._gate: zmq.Socket[bytes] | None = None
        self._at_gate: deque[tuple[bytes, bytes, bytes, bytes]] = deque()  # requests that have no answer yet
        self.events: list[Any] = []

    def fileno(self) -> int:
        """Readable when `receive_ready` is to be called."""
        return self._epoll.fileno()

    def _new_socket(self, kind: int) -> zmq.Socket[bytes]:
        socket = self._context.socket(kind)
        socket.setsockopt(zmq.LINGER, 0)
        return socket

    def network_socket(self, kind: int, host: str, keys: KeyPair, max_bytes: int, n_messages: int) -> zmq.Socket[bytes]:
        socket = self._new_socket(kind)
        for option, value in ((zmq.IPV6, int(":" in host)), (zmq.HANDSHAKE_IVL, HANDSHAKE_MS),
                              (zmq.HEARTBEAT_IVL, HEARTBEAT_MS), (zmq.HEARTBEAT_TIMEOUT, HEARTBEAT_TIMEOUT_MS),
                              (zmq.HEARTBEAT_TTL, HEARTBEAT_TIMEOUT_MS),
                              (zmq.CONNECT_TIMEOUT, CONNECT_TIMEOUT_MS), (zmq.RECONNECT_IVL, RECONNECT_MS),
                              (zmq.RECONNECT_IVL_MAX, MAX_RECONNECT_MS), (zmq.MAXMSGSIZE, max_bytes),
                              (zmq.SNDHWM, n_messages), (zmq.RCVHWM, n_messages),
                              (zmq.CURVE_PUBLICKEY, keys.public), (zmq.CURVE_SECRETKEY, keys.secret)):
            socket.setsockopt(option, value)
        return socket

    def bind(self, socket: zmq.Socket[bytes], host: str, port: int) -> str:
        """Bind to one address of this machine, with a gate; the endpoint."""
        address.check_host(host)
        self._gate = gate = self._new_socket(zmq.ROUTER)
        gate.bind(_ZAP)  # first: without a gate libzmq would refuse, and with neither gate nor domain let in everybody
        self.watch(gate, lambda: self.receive_each(gate, self._read_gate))
        socket.setsockopt(zmq.CURVE_SERVER, 1)
        socket.setsockopt(zmq.ZAP_DOMAIN, b"cellmesh")
        socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
        try:
            socket.bind(address.endpoint(host, port))
        except zmq.ZMQError as error:
            why = "that is no address of this machine" if error.errno in (errno.EADDRNOTAVAIL, errno.ENODEV) else zmq.strerror(error.errno)
            raise OSError(error.errno, f"cannot listen at {address.endpoint(host, port)}: {why}") from None
        return str(socket.getsockopt(zmq.LAST_ENDPOINT).decode())  # type: ignore[union-attr]

    def watch(self, socket: zmq.Socket[bytes], read: Callable[[], None]) -> None:
        fd = socket.getsockopt(zmq.FD)
        assert isinstance(fd, int)
        self._readers[fd] = socket, read
        self._epoll.register(fd, select.EPOLLIN)
        self._look_again(fd)

    def monitor(self, socket: zmq.Socket[bytes], events: int, tell: Callable[[int, int], None]) -> zmq.Socket[bytes]:
        """Have `tell(event, value)` called of the socket's connections. What it returns is to be forgotten with it."""
        monitor = socket.get_monitor_socket(events)
        monitor.setsockopt(zmq.LINGER, 0)

        def read() -> None:
            while not monitor.closed and monitor.getsockopt(zmq.EVENTS) & zmq.POLLIN:  # type: ignore[operator]
                tell(*struct.unpack("=HI", monitor.recv_multipart()[0]))
        self.watch(monitor, read)
        return monitor

    def forget(self, socket: zmq.Socket[bytes]) -> None:
        fd = next(fd for fd, (watched, _) in self._readers.items() if watched is socket)
        self._epoll.unregister(fd)
        del self._readers[fd]
        self._again.discard(fd)
        socket.close()

    def _look_again(self, fd: int) -> None:
        if not self._again:
            os.eventfd_write(self._wakeup, 1)
        self._again.add(fd)

    def has_sent(self, socket: zmq.Socket[bytes]) -> None:
        """A call that sends takes in what has arrived, too, and with it the descriptor's signal."""
        if socket.getsockopt(zmq.EVENTS) & zmq.POLLIN:  # type: ignore[operator]
            self._look_again(socket.getsockopt(zmq.FD))  # type: ignore[arg-type]

    def receive_each(self, socket: zmq.Socket[bytes], take: Callable[[list[zmq.Frame]], None]) -> None:
        for _ in range(MAX_READ):
            if socket.closed:  # what was taken has ended the connection
                return
            try:
                frames = socket.recv_multipart(zmq.DONTWAIT, copy=False)
            except zmq.Again:
                return
            take(frames)
        if not socket.closed:
            self._look_again(socket.getsockopt(zmq.FD))  # type: ignore[arg-type]

    def receive_ready(self) -> list[Any]:
        """What has happened; never waits, and there may be nothing."""
        ready = {fd for fd, _ in self._epoll.poll(0)}
        if self._wakeup in ready:
            os.eventfd_read(self._wakeup)
        ready |= self._again
        self._again.clear()
        for fd in [fd for fd in self._readers if fd in ready]:  # in the order in which they are watched
            if fd in self._readers:  # another one's reader may have forgotten it
                self._readers[fd][1]()
        self.after_reading()
        events, self.events = self.events, []
        return events

    def after_reading(self) -> None:
        """For who answers all at once."""

    # ---- the gate
    def _read_gate(self, frames: list[zmq.Frame]) -> None:
        """A ZAP request (RFC 27): route and delimiter, version, request, domain, address, identity, mechanism, the
        client's key."""
        route, _, version, request, *_, mechanism, key = (frame.bytes for frame in frames)
        sound = mechanism == b"CURVE" and len(key) == 32
        status = self.gate_status(key) if sound else b"400"
        if status:
            self._answer_gate(route, version, request, key, status)
        else:
            self._at_gate.append((route, version, request, key))
            if len(self._at_gate) > MAX_AT_GATE:
                self._answer_gate(*self._at_gate.popleft(), b"300")

    def _answer_gate(self, route: bytes, version: bytes, request: bytes, key: bytes, status: bytes) -> None:
        assert self._gate is not None
        user = key.hex().encode() if status == b"200" else b""
        self._gate.send_multipart([route, b"", version, request, status, b"", user, b""])
        self.has_sent(self._gate)

    def look_at_gate(self) -> None:
        """Answer who may come in now. Who need not wait any more has gone already, and the answer with him."""
        waiting, self._at_gate = self._at_gate, deque()
        for entry in waiting:
            if status := self.gate_status(entry[-1]):
                self._answer_gate(*entry, status)
            else:
                self._at_gate.append(entry)

    def gate_status(self, key: bytes) -> bytes:
        """b"200": come in; b"400": never; b"": wait, as long as a handshake may take."""
        raise NotImplementedError

    # ---- the end
    def close(self, linger_s: float = 0.0) -> None:
        """Close everything; what has been sent last has `linger_s` to get out. Harmless when repeated."""
        if self._context.closed:
            return
        self._readers.clear()
        self._context.destroy(int(linger_s * 1000))
        self._epoll.close()
        os.close(self._wakeup)
