"""What sockets between machines have in common: encryption, the gate, one descriptor for all of them.

Encryption and reconnecting are the affair of libzmq's own threads. That the other machine is still there is the
kernel's: it asks (TCP keepalive) and answers without waking a process. Nothing here runs while nothing happens.
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
# A connection is asked for a sign of life every second in which nothing came, and has broken when none has come for
# two, or what was sent has not arrived for so long. It is made again; nothing is lost by that.
KEEPALIVE_S = 1
BREAKS_AFTER_S = 2.0
CONNECT_TIMEOUT_MS = 5_000
RECONNECT_MS, MAX_RECONNECT_MS = 100, 2_000
MAX_CONTROL_BYTES = 4 << 20  # a message from or to the head; one with every member of a large cluster
CONTROL_MESSAGES = 100_000  # that wait on one connection with the head; who lets as many wait has stopped
MAX_READ = 256  # messages at a time: others want their turn
MAX_SOCKETS = 65_536
MAX_AT_GATE = 1_024  # handshakes of keys that are not known yet; each ends after HANDSHAKE_MS

_ZAP = "inproc://zeromq.zap.01"


# ---- keys
def new_pair() -> KeyPair:
    """A new CURVE key pair."""
    public, secret = zmq.curve_keypair()
    return KeyPair(z85.decode(public), z85.decode(secret))


def require_encryption() -> None:
    """Raise RuntimeError if nothing could be encrypted: fail, never degrade."""
    if not zmq.has("curve"):
        raise RuntimeError(
            "this libzmq cannot encrypt (no CURVE), so machines cannot be connected; install pyzmq from a wheel"
        )


def key_of(frame: zmq.Frame) -> bytes:
    """Whose connection brought the frame, proved in its handshake."""
    user = frame.get("User-Id")
    assert isinstance(user, str)
    return bytes.fromhex(user)


def int_option(socket: zmq.Socket[bytes], option: int) -> int:
    """The value of an option that is a number."""
    value = socket.getsockopt(option)
    assert isinstance(value, int)
    return value


def public_of(secret: bytes) -> bytes:
    """The public key that belongs to a secret one."""
    return z85.decode(zmq.curve_public(z85.encode(secret)))


# ---- what all of them share
class Sockets:
    """Some sockets, and one descriptor that is readable when one of them wants attention.

    libzmq's descriptors signal changes, not states, and any call on a socket may swallow the signal. So code that has
    sent, or stopped reading early, says `_look_again`, and the own descriptor stays readable until everything has been
    looked at.
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
        for option, value in (
            (zmq.IPV6, int(":" in host)),
            (zmq.HANDSHAKE_IVL, HANDSHAKE_MS),
            (zmq.TCP_KEEPALIVE, 1),
            (zmq.TCP_KEEPALIVE_IDLE, KEEPALIVE_S),
            (zmq.TCP_KEEPALIVE_INTVL, KEEPALIVE_S),
            # Looked at when a question is due, so a little less than that moment.
            (zmq.TCP_MAXRT, int(BREAKS_AFTER_S * 1000) - 100),
            (zmq.CONNECT_TIMEOUT, CONNECT_TIMEOUT_MS),
            (zmq.RECONNECT_IVL, RECONNECT_MS),
            (zmq.RECONNECT_IVL_MAX, MAX_RECONNECT_MS),
            (zmq.MAXMSGSIZE, max_bytes),
            (zmq.SNDHWM, n_messages),
            (zmq.RCVHWM, n_messages),
            (zmq.CURVE_PUBLICKEY, keys.public),
            (zmq.CURVE_SECRETKEY, keys.secret),
        ):
            socket.setsockopt(option, value)
        return socket

    def bind(self, socket: zmq.Socket[bytes], host: str, port: int) -> str:
        """Bind to one address of this machine, with a gate; the endpoint."""
        address.check_host(host)
        self._gate = gate = self._new_socket(zmq.ROUTER)
        gate.bind(_ZAP)  # first: without a gate libzmq refuses, and with neither gate nor domain it admits every client
        self.watch(gate, lambda: self.receive_each(gate, self._read_gate))
        socket.setsockopt(zmq.CURVE_SERVER, 1)
        socket.setsockopt(zmq.ZAP_DOMAIN, b"cellmesh")
        socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
        try:
            socket.bind(address.endpoint(host, port))
        except zmq.ZMQError as error:
            why = (
                "that is no address of this machine"
                if error.errno in (errno.EADDRNOTAVAIL, errno.ENODEV)
                else error.strerror
            )
            raise OSError(error.errno, f"cannot listen at {address.endpoint(host, port)}: {why}") from None
        last = socket.getsockopt(zmq.LAST_ENDPOINT)
        assert isinstance(last, bytes)
        return last.decode()

    def watch(self, socket: zmq.Socket[bytes], read: Callable[[], None]) -> None:
        fd = int_option(socket, zmq.FD)
        self._readers[fd] = socket, read
        self._epoll.register(fd, select.EPOLLIN)
        self._look_again(fd)

    def monitor(self, socket: zmq.Socket[bytes], events: int, tell: Callable[[int, int], None]) -> zmq.Socket[bytes]:
        """Have `tell(event, value)` called of the socket's connections. What it returns is to be forgotten with it."""
        monitor = socket.get_monitor_socket(events)
        monitor.setsockopt(zmq.LINGER, 0)

        def read() -> None:
            while not monitor.closed and int_option(monitor, zmq.EVENTS) & zmq.POLLIN:
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
        self.has_unread(socket)

    def has_unread(self, socket: zmq.Socket[bytes]) -> bool:
        """Whether there is something to read. As to ask takes the signal, too, it is looked at again then."""
        found = bool(int_option(socket, zmq.EVENTS) & zmq.POLLIN)
        if found:
            self._look_again(int_option(socket, zmq.FD))
        return found

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
            self._look_again(int_option(socket, zmq.FD))

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
        """For subclasses that answer all at once."""

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
        """Answer the handshakes that may go on now. One that need not wait any more has ended already, and takes no
        answer."""
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
