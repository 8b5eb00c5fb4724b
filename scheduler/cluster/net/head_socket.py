"""The head's end of the links with agents, commands and newcomers: who may connect, by key, and what may come from
them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import zmq

from ...ipc.fitting import encode
from ...ipc.transport import UNREADABLE, ProtocolError, decode, decoder
from ..messages import CLUSTER_VERSION, Message, ToDoor, ToHead
from .events import Arrived, Ended, Refusal
from .keys import KeyPair
from .sockets import CONTROL_MESSAGES, MAX_CONTROL_BYTES, Sockets, key_of

MAX_DOOR_BYTES = 4 << 10  # from a newcomer

# Whose a key is, and what may come from there: who holds a join token; a machine that has joined, for its commands and
# to introduce its nodes; a node.
NEWCOMER, MACHINE, NODE = "newcomer", "machine", "node"
_ACCEPTS = {NEWCOMER: ToDoor, MACHINE: ToDoor | ToHead, NODE: ToHead}


class _Version(msgspec.Struct):
    version: int


def _foreign(data: Any) -> str:
    """If the message, which cannot be read here, is one of another version: what to say of that."""
    try:
        version = msgspec.msgpack.decode(data, type=_Version).version
    except UNREADABLE:
        return ""
    return version_conflict(version)


def version_conflict(version: int) -> str:
    """What to tell a machine that speaks another version; "" if it does not."""
    if version == CLUSTER_VERSION:
        return ""
    return (
        f"this cluster speaks version {CLUSTER_VERSION} of cellmesh's protocol between machines, that machine "
        f"{version}: install the same cellmesh on both"
    )


class HeadSocket(Sockets):
    """The head's end of the links with agents, commands and newcomers.

    Parameters
    ----------
    keys : KeyPair
        The head's.
    host, port : str, int
        Of this machine; port 0: any.
    admits : callable
        From a public key to what has it (NEWCOMER, MACHINE, NODE), or "" for what is to be refused. Asked at every
        handshake and for every message, so it takes effect at once, both ways.

    Attributes
    ----------
    endpoint : str
    """

    def __init__(self, keys: KeyPair, host: str, port: int, admits: Callable[[bytes], str]) -> None:
        super().__init__()
        self._admits = admits
        self._decoders = {role: decoder(union) for role, union in _ACCEPTS.items()}
        try:
            self._router = self.network_socket(zmq.ROUTER, host, keys, MAX_CONTROL_BYTES, CONTROL_MESSAGES)
            self._router.setsockopt(zmq.ROUTER_MANDATORY, 1)
            self.endpoint = self.bind(self._router, host, port)
        except BaseException:
            self.close()
            raise
        # By descriptor, inside libzmq: which messages carry, and the ends of connections.
        self._connections: dict[int, bytes] = {}
        self._ending: list[bytes] = []
        # Before messages: a number may be used again.
        self.monitor(self._router, zmq.EVENT_DISCONNECTED, self._connection_ended)
        self.watch(self._router, lambda: self.receive_each(self._router, self._take))

    def gate_status(self, key: bytes) -> bytes:
        if self._admits(key):
            return b"200"
        self.events.append(Refusal(b"", key, "an unknown key"))
        return b"400"

    def send(self, connection: bytes, message: Message) -> bool:
        """Send; False: that connection is gone, or so much waits on it that it is as good as gone. Nothing more may go
        over it."""
        return self._post(connection, encode(message))

    def give_up(self, connection: bytes) -> None:
        """Tell the other end to connect again."""
        self._post(connection, b"")

    def _post(self, connection: bytes, data: bytes) -> bool:
        try:
            self._router.send_multipart([connection, data], zmq.DONTWAIT)
        except zmq.ZMQError as error:
            if error.errno not in (zmq.EHOSTUNREACH, zmq.EAGAIN):
                raise
            return False
        finally:
            self.has_sent(self._router)
        return True

    def _connection_ended(self, event: int, fd: int) -> None:
        if (connection := self._connections.pop(fd, None)) is not None:
            self._ending.append(connection)

    def after_reading(self) -> None:
        # What came before its end comes before `Ended`.
        if self._ending and not self.has_unread(self._router):
            self.events += [Ended(connection) for connection in self._ending]
            self._ending.clear()

    def _take(self, frames: list[zmq.Frame]) -> None:
        connection, key = frames[0].bytes, key_of(frames[-1])
        self._connections[frames[-1].get(zmq.SRCFD)] = connection
        role = self._admits(key)
        body = frames[1].buffer if len(frames) == 2 else memoryview(b"")
        try:
            if not role:
                raise ProtocolError("its key is not known any more")
            if len(frames) != 2:
                raise ProtocolError(f"{len(frames) - 1} frames")
            if role == NEWCOMER and len(body) > MAX_DOOR_BYTES:
                raise ProtocolError(f"{len(body):,} bytes from a newcomer")
            message = decode(self._decoders[role], body)
        except ProtocolError as error:
            self.events.append(Refusal(connection, key, str(error), _foreign(body) if role else ""))
            return
        self.events.append(Arrived(connection, key, message))
