"""A node's or a command's connection with the head. After each `Connected` the head knows nothing of what was said
before."""

from __future__ import annotations

import select
import time

import zmq

from ...ipc.fitting import encode
from ...ipc.transport import ProtocolError, decode, decoder
from ..messages import FromDoor, FromHead, Join, Joined, Message
from . import address
from .events import HEAD, Connected, Disconnected, LinkEvent, Received, Rejected, Unreachable
from .keys import KeyPair
from .sockets import CONTROL_MESSAGES, MAX_CONTROL_BYTES, Sockets, int_option

RECONNECT_MS = 400  # at most, between a command's attempts; an agent's are its core's affair


class HeadLink(Sockets):
    """A node's or a command's connection with the head.

    Parameters
    ----------
    keys : KeyPair
        Ours: a node's, a machine's, or that of a join token.
    head_key : bytes
        The head's public key.
    endpoint : str
    introduced_by : KeyPair, optional
        The machine's, if `keys` are a node's: the head learns of them from it, before the first connection and whenever
        it has forgotten them.
    hostname : str
        For people.

    Notes
    -----
    After each `Connected` the head knows nothing of what we have said before. Messages are sent while connected and not
    otherwise.
    """

    def __init__(
        self, keys: KeyPair, head_key: bytes, endpoint: str, introduced_by: KeyPair | None = None, hostname: str = ""
    ) -> None:
        super().__init__()
        self._keys, self._head_key, self._endpoint = keys, head_key, endpoint
        self._introduced_by, self._hostname = introduced_by, hostname
        self._decoder = decoder(FromHead | FromDoor)
        self.is_connected = False
        self._has_failed = False  # the last handshake, without a reason
        self._connect(introduced_by or keys)

    def send(self, message: Message) -> bool:
        """Send to the head; False: there is no connection. Say it again after `Connected`, if it still matters."""
        if not self.is_connected:
            return False
        try:
            self._dealer.send(encode(message), zmq.DONTWAIT)
        except zmq.Again:
            self._reconnect("the head does not read")
            return False
        self.has_sent(self._dealer)
        return True

    def reconnect(self, reason: str) -> None:
        """Give the connection up, if there is one, and make another."""
        self._reconnect(reason)

    def wait(self, timeout_s: float) -> list[LinkEvent]:
        """Wait until something happens; for commands, which have nothing else to do."""
        end = time.monotonic() + timeout_s
        poll = select.poll()
        poll.register(self.fileno(), select.POLLIN)
        while not (events := self.receive_ready()) and (left := end - time.monotonic()) > 0:
            poll.poll(left * 1000)
        return events

    def _connect(self, keys: KeyPair) -> None:
        self._connects_as = keys
        self._dealer = socket = self.network_socket(
            zmq.DEALER, address.parse(self._endpoint)[0], keys, MAX_CONTROL_BYTES, CONTROL_MESSAGES
        )
        socket.setsockopt(zmq.CURVE_SERVERKEY, self._head_key)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, RECONNECT_MS)
        events = (
            zmq.EVENT_HANDSHAKE_SUCCEEDED
            | zmq.EVENT_DISCONNECTED
            | zmq.EVENT_CLOSED
            | zmq.EVENT_HANDSHAKE_FAILED_AUTH
            | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
            | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
        )
        self._monitor = self.monitor(socket, events, self._connection_changed)
        self.watch(socket, lambda: self.receive_each(socket, self._take))
        socket.connect(self._endpoint)

    def _reconnect(self, reason: str, keys: KeyPair | None = None) -> None:
        self._dealer.disable_monitor()
        self.forget(self._monitor)
        self.forget(self._dealer)
        if self.is_connected:
            self.events.append(Disconnected(HEAD, reason))
        self.is_connected = False
        self._connect(keys or self._connects_as)

    def _connection_changed(self, event: int, value: int) -> None:
        if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self._has_failed = False
            if self._connects_as is self._keys:
                self.is_connected = True
                self.events.append(Connected(HEAD))
            else:
                self._dealer.send(encode(Join(self._keys.public, self._hostname)), zmq.DONTWAIT)
                self.has_sent(self._dealer)
        elif event == zmq.EVENT_DISCONNECTED:
            ended = self._dealer
            while not ended.closed and int_option(ended, zmq.EVENTS) & zmq.POLLIN:
                self.receive_each(ended, self._take)  # the last words may be why
            if not ended.closed and self.is_connected:
                self._reconnect("the connection with the head has broken")
        elif event == zmq.EVENT_CLOSED:
            self.events.append(Unreachable())
        elif event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            if self._introduced_by is not None and self._connects_as is self._keys:
                self._reconnect("", self._introduced_by)  # another life of the head, which has not heard of this node
            else:
                self.events.append(Rejected("the head does not know this key", final=True))
        elif event == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL and not self._has_failed:
            self._has_failed = True  # a head that has ended meanwhile does that, too; libzmq tries again by itself
        elif not self.is_connected:  # else a byte was spoilt, and the connection ends
            self.events.append(
                Rejected(f"who listens at {self._endpoint} is not the head with the expected key", final=False)
            )

    def _take(self, frames: list[zmq.Frame]) -> None:
        if len(frames) == 1 and len(frames[0]) == 0:
            self._reconnect("the head has given the connection up")
            return
        try:
            if len(frames) != 1:
                raise ProtocolError(f"{len(frames)} frames")
            message = decode(self._decoder, frames[0].buffer)
        except ProtocolError as error:
            self._reconnect(f"the head speaks another language: {error}")
            return
        if self._connects_as is self._keys:
            self.events.append(Received(HEAD, message, []))
        elif isinstance(message, Joined):
            self._reconnect("", self._keys)
        else:
            self.events.append(Rejected(getattr(message, "reason", "the head does not let this node in"), final=True))
