"""Sockets between machines. With `sockets`, their common part, the only module that touches ZeroMQ.

| link          | bound by      | connected by           | who may connect       | bound                               |
|---------------|---------------|------------------------|-----------------------|-------------------------------------|
| head          | head, ROUTER  | agent, command: DEALER | see `HeadSocket`      | CONTROL_MESSAGES, then it ends      |
| peer, one way | agent, ROUTER | agent: DEALER          | keys of living nodes  | credits: stream.BUDGET_BYTES a peer |

Every one is CURVE: encrypted, and both ends know the other's key before a byte of theirs is looked at. A bound socket
has a gate that is asked about the client's key (ZAP; without an answer libzmq lets nobody in), and every message
carries the key that it came from, so nobody can speak for another. A client goes nowhere but to the server key that it
expects.

Limits before parsing: a handshake ends within two seconds, a frame is at most as large as the link allows, a message
has MAX_PARTS parts at most, a decoder knows its own union and no other message.

Reliability. Peers: each message once and in order, over broken connections too, see `stream`. Head: each connection is
new. Who finds one broken, or choked, gives it up; the agent registers again on the next one and says again what it
wants. An empty frame from the head says that it has given the connection up.

A connection that is silent for ten seconds is lost, whatever TCP thinks.

Known weaknesses. libzmq limits frames, not the parts of a message: a *member* can make us hold many parts; members may
run code here anyway. A flood of connections costs a handshake each (0.2 ms) before it is refused, and a descriptor for
two seconds. libzmq opens a descriptor for each connection: see to RLIMIT_NOFILE.
"""
from __future__ import annotations

import select
import struct
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec
import zmq

from ..fitting import encode, fitting
from ..transport import UNREADABLE, ProtocolError, decode, decoder
from . import address
from .keys import KeyPair
from .messages import (CLUSTER_VERSION, MAX_FRAME_BYTES, FromDoor, FromHead, Join, Joined, Member, Message, ToDoor,
                       ToHead)
from .sockets import Sockets
from .stream import Incoming, Outgoing

MAX_PARTS = 8                      # of a message: itself and what it carries
MAX_CONTROL_BYTES = 4 << 20        # a message from or to the head; one with every member of a large cluster
MAX_DOOR_BYTES = 4 << 10           # from somebody who is no member yet
CONTROL_MESSAGES = 100_000         # that wait on one connection with the head; who lets as many wait has stopped
HEAD_RECONNECT_MS = 400            # at most, between attempts: what only the head can do waits for that
PEER_MESSAGES = 10_000             # that libzmq takes in before we look; further ones wait in TCP
HEAD = 0                           # as a node in events

# Whose a key is, and what may come from there: who holds a join token; a machine that has joined, for its commands and
# to introduce its nodes; a node.
NEWCOMER, MACHINE, NODE = "newcomer", "machine", "node"
_ACCEPTS = {NEWCOMER: ToDoor, MACHINE: ToDoor | ToHead, NODE: ToHead}

_encoder = msgspec.msgpack.Encoder()
_number = struct.Struct("<Q")


# ---- events
class Received(NamedTuple):
    """A message from a node, and the frames that came with it."""
    node: int
    message: Any
    payload: list[memoryview]


class Connected(NamedTuple):
    """What we send reaches the node, which has proved to be it."""
    node: int


class Disconnected(NamedTuple):
    """It does not (any more); a new connection is being made, and `Connected` says when there is one."""
    node: int
    reason: str


class Room(NamedTuple):
    """There is room again for who has found none (`Peers.room`)."""
    node: int


class Faulty(NamedTuple):
    """The node has sent what no sound node sends. Nothing more is taken from it."""
    node: int
    reason: str


class Rejected(NamedTuple):
    """Somebody is at the head's address and does not let us in. `final`: it is the head, which does not know this
    machine."""
    reason: str
    final: bool


class Unreachable(NamedTuple):
    """Nobody answers at the head's address for now; the next attempt follows by itself."""


class Arrived(NamedTuple):
    """At the head: a message over a connection, from who has that key."""
    connection: bytes
    key: bytes
    message: Any


class Ended(NamedTuple):
    """At the head: a connection has ended. Not told of each: who is cut off from us is found out by his silence."""
    connection: bytes


class Refusal(NamedTuple):
    """At the head: something has been refused. `connection`: b"" if it was the handshake. `foreign`: a sentence for a
    peer of another version, which was refused for that alone."""
    connection: bytes
    key: bytes
    reason: str
    foreign: str = ""


PeerEvent = Received | Connected | Disconnected | Room | Faulty
LinkEvent = Received | Connected | Disconnected | Rejected | Unreachable
HeadEvent = Arrived | Ended | Refusal


def _host_of(endpoint: str) -> str:
    return address.parse(endpoint)[0]


def _key_of(frame: zmq.Frame) -> bytes:
    """Whose connection brought the frame, proved in its handshake."""
    return bytes.fromhex(frame.get("User-Id"))  # type: ignore[arg-type]


class _Version(msgspec.Struct):
    version: int


def _foreign(data: Any) -> str:
    """If the message, which nobody here understands, is one of another version: what to say of that."""
    try:
        version = msgspec.msgpack.decode(data, type=_Version).version
    except UNREADABLE:
        return ""
    return version_conflict(version)


def version_conflict(version: int) -> str:
    """What to tell a machine that speaks another version; "" if it does not."""
    if version == CLUSTER_VERSION:
        return ""
    return (f"this cluster speaks version {CLUSTER_VERSION} of cellmesh's protocol between machines, that machine "
            f"{version}: install the same cellmesh on both")


class _Peer:
    """A node that may send to us, and that we may send to."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.outgoing, self.incoming = Outgoing(), Incoming()
        self.socket: zmq.Socket[bytes] | None = None     # when there has been something to send
        self.monitor: zmq.Socket[bytes] | None = None
        self.is_connected = self.is_missed = False       # missed: somebody has been told that it cannot be reached
        self.is_given_up = False                         # by libzmq, until `Peers.retry`
        self.routes: dict[bytes, None] = {}              # where its messages have come from since the last acknowledgement
        self.is_faulty = False


class Peers(Sockets):
    """This node's connections with the others.

    Parameters
    ----------
    keys : KeyPair
        Of this node alone, made for it; whoever has another key is another node.
    host : str
        An address of this machine that the others reach.
    accepts : type
        The union of messages that may arrive.
    port : int
        0: any.

    Attributes
    ----------
    endpoint : str
        Where the others connect.

    Notes
    -----
    Everything for one thread. Messages arrive once and in order, from each node, for as long as it is a member; who may
    not send any more is not heard from the call of `remove` on.
    """

    def __init__(self, keys: KeyPair, host: str, accepts: Any, port: int = 0) -> None:
        super().__init__(n_threads=2)
        self._keys, self._decoder = keys, decoder(accepts)
        self._peers: dict[int, _Peer] = {}
        self._by_key: dict[bytes, _Peer] = {}
        self._to_acknowledge: set[int] = set()
        try:
            self._incoming = self.network_socket(zmq.ROUTER, host, keys, MAX_FRAME_BYTES, PEER_MESSAGES)
            self._incoming.setsockopt(zmq.ROUTER_MANDATORY, 1)
            self.endpoint = self.bind(self._incoming, host, port)
        except BaseException:
            self.close()
            raise
        self.watch(self._incoming, lambda: self.receive_each(self._incoming, self._take))

    # ---- who they are
    def set_members(self, members: Iterable[Member]) -> None:
        """These are all there are; whoever else was there is removed."""
        wanted = {member.node: member for member in members}
        for node in [node for node in self._peers if node not in wanted]:
            self.remove(node)
        for member in wanted.values():
            self.add(member)

    def add(self, member: Member) -> None:
        """A node has come, or is known already. That it is this one does not matter."""
        peer = self._peers.get(member.node)
        if peer is not None and (peer.member.key, peer.member.endpoint) == (member.key, member.endpoint):
            peer.member = member
            return
        if member.key == self._keys.public:
            return
        self.remove(member.node)
        if member.key in self._by_key:  # a key is one node's
            self.remove(self._by_key[member.key].member.node)
        self._peers[member.node] = self._by_key[member.key] = _Peer(member)
        self.look_at_gate()

    def remove(self, node: int) -> None:
        """A node is no member any more: nothing goes to it, nothing is taken from it. Harmless when repeated."""
        peer = self._peers.pop(node, None)
        if peer is not None:
            del self._by_key[peer.member.key]
            self._disconnect(peer)

    def gate_status(self, key: bytes) -> bytes:
        # It may be a member, and known as such to everybody but us, for a moment. A stranger learns nothing by waiting.
        return b"200" if key in self._by_key else b""

    # ---- sending
    def send(self, node: int, message: Message, *payload: Any) -> None:
        """Send to a node. Never waits; the payload's bytes are copied out before it returns.

        Raises
        ------
        KeyError
            It is not a member.
        stream.Overrun
            The node has not read for long, and too much waits for it already. Nothing has been sent.
        """
        peer = self._peers[node]
        data = bytearray(_number.pack(peer.outgoing.n_added))
        _encoder.encode_into(fitting(message), data, _number.size)
        size = len(data) + sum(memoryview(part).nbytes for part in payload)
        if len(data) > MAX_FRAME_BYTES or len(payload) >= MAX_PARTS:
            raise ValueError(f"{type(message).__name__} of {len(data):,} bytes with {len(payload)} frames is too large "
                             "a message")
        # Kept as libzmq's own frames, counted by reference, so that sending again copies nothing.
        frames = [zmq.Frame(data, copy=True), *(zmq.Frame(part, copy=True) for part in payload)]
        goes = peer.outgoing.add(size, frames)
        if peer.socket is None:
            self._connect(peer)
        elif goes:
            self._post(peer, [frames])

    def room(self, node: int) -> int:
        """How many bytes can be sent to a node before they wait here. After a 0 the event `Room` says when there is
        some again."""
        return self._peers[node].outgoing.room()

    def _post(self, peer: _Peer, messages: list[list[zmq.Frame]]) -> None:
        if peer.socket is None or not messages:
            return
        for frames in messages:
            try:  # the pipe is as large as needed: what may be in it is `outgoing`'s decision
                peer.socket.send_multipart(frames, zmq.DONTWAIT, copy=False)
            except zmq.Again:  # it has just ended: we are about to hear of it, and what is kept goes over the next one
                break
        self.has_sent(peer.socket)

    def retry(self) -> None:
        """Connect anew where something has answered that no node would say. To be called now and then: libzmq tries
        again after a failure of the network, but not after that."""
        for peer in self._peers.values():
            if peer.is_given_up:
                self._disconnect(peer)
                self._connect(peer)

    def _connect(self, peer: _Peer) -> None:
        socket = self.network_socket(zmq.DEALER, _host_of(peer.member.endpoint), self._keys, MAX_DOOR_BYTES, 0)
        socket.setsockopt(zmq.CURVE_SERVERKEY, peer.member.key)
        events = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED | zmq.EVENT_CLOSED | zmq.EVENT_CONNECT_RETRIED
        peer.socket = socket
        peer.monitor = self.monitor(socket, events, lambda event, value: self._connection_changed(peer, event))
        self.watch(socket, lambda: self.receive_each(socket, lambda frames: self._acknowledged(peer, frames)))
        socket.connect(peer.member.endpoint)
        self._post(peer, peer.outgoing.restart())

    def _disconnect(self, peer: _Peer) -> None:
        if peer.socket is not None and peer.monitor is not None:
            peer.socket.disable_monitor()
            self.forget(peer.monitor)
            self.forget(peer.socket)
            peer.socket = peer.monitor = None
        peer.is_connected = peer.is_given_up = False

    def _connection_changed(self, peer: _Peer, event: int) -> None:
        if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            peer.is_connected, peer.is_missed = True, False
            self.events.append(Connected(peer.member.node))
            return
        # Whatever has ended a handshake: libzmq tries again and says so, or has given up and says nothing.
        peer.is_given_up = event == zmq.EVENT_DISCONNECTED and not peer.is_connected
        if event == zmq.EVENT_CONNECT_RETRIED:
            return
        reason = "the connection has broken" if peer.is_connected else "no connection can be made"
        if peer.is_connected:  # what was under way may be lost, and what libzmq still has would come without it
            self._disconnect(peer)
            self._connect(peer)
        if not peer.is_missed:
            peer.is_missed = True
            self.events.append(Disconnected(peer.member.node, reason))

    def _acknowledged(self, peer: _Peer, frames: list[zmq.Frame]) -> None:
        if len(frames) != 1 or len(frames[0]) != _number.size:
            self._refuse(peer, "an acknowledgement that is none")
            return
        try:
            has_room = peer.outgoing.acknowledge(_number.unpack(frames[0].buffer)[0])
        except ValueError as error:
            self._refuse(peer, str(error))
            return
        self._post(peer, peer.outgoing.due())
        if has_room:
            self.events.append(Room(peer.member.node))

    # ---- receiving
    def _take(self, frames: list[zmq.Frame]) -> None:
        peer = self._by_key.get(_key_of(frames[-1]))
        if peer is None or peer.is_faulty:  # it was a member when it connected
            return
        if not 2 <= len(frames) <= 1 + MAX_PARTS or len(frames[1]) < _number.size:
            self._refuse(peer, f"{len(frames) - 1} frames that are no message")
            return
        peer.routes[frames[0].bytes] = None  # what was still under way on the connection before may come last
        node = peer.member.node
        number, = _number.unpack_from(frames[1].buffer)
        is_next = peer.incoming.take(number, sum(map(len, frames)), is_bulk=len(frames) > 2)
        self._to_acknowledge.add(node)
        if is_next:
            try:
                message = decode(self._decoder, frames[1].buffer[_number.size:])
            except ProtocolError as error:
                self._refuse(peer, str(error))
                return
            self.events.append(Received(node, message, [frame.buffer for frame in frames[2:]]))

    def _refuse(self, peer: _Peer, reason: str) -> None:
        peer.is_faulty = True
        self.events.append(Faulty(peer.member.node, reason))

    def after_reading(self) -> None:
        for node in self._to_acknowledge:
            peer = self._peers.get(node)
            if peer is not None and (expected := peer.incoming.acknowledgement()) is not None:
                routes, peer.routes = peer.routes, {}
                for route in routes:
                    self._acknowledge(route, expected)
        if self._to_acknowledge:
            self._to_acknowledge.clear()
            self.has_sent(self._incoming)

    def _acknowledge(self, route: bytes, expected: int) -> None:
        try:
            self._incoming.send_multipart([route, _number.pack(expected)], zmq.DONTWAIT)
        except zmq.ZMQError as error:
            # It has gone; it sends again, and is told again.
            if error.errno not in (zmq.EHOSTUNREACH, zmq.EAGAIN):
                raise


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

    def __init__(self, keys: KeyPair, head_key: bytes, endpoint: str, introduced_by: KeyPair | None = None,
                 hostname: str = "") -> None:
        super().__init__()
        self._keys, self._head_key, self._endpoint = keys, head_key, endpoint
        self._introduced_by, self._hostname = introduced_by, hostname
        self._decoder = decoder(FromHead | FromDoor)
        self.is_connected = False
        self._has_failed = False           # the last handshake, without a reason
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
        self._dealer = socket = self.network_socket(zmq.DEALER, _host_of(self._endpoint), keys, MAX_CONTROL_BYTES,
                                                    CONTROL_MESSAGES)
        socket.setsockopt(zmq.CURVE_SERVERKEY, self._head_key)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, HEAD_RECONNECT_MS)
        events = (zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED | zmq.EVENT_CLOSED
                  | zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
                  | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL)
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
            while not ended.closed and ended.getsockopt(zmq.EVENTS) & zmq.POLLIN:
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
            self.events.append(Rejected(f"who listens at {self._endpoint} is not the head with the expected key",
                                        final=False))

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


class HeadSocket(Sockets):
    """The head's end of the links with agents, commands and newcomers.

    Parameters
    ----------
    keys : KeyPair
        The head's.
    host, port : str, int
        Of this machine; port 0: any.
    admits : callable
        From a public key to whose it is (NEWCOMER, MACHINE, NODE), or "" for who is to be refused. Asked at every
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
        """Tell whoever is there to connect anew."""
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
        if self._ending and not self._router.getsockopt(zmq.EVENTS) & zmq.POLLIN:
            self.events += [Ended(connection) for connection in self._ending]
            self._ending.clear()

    def _take(self, frames: list[zmq.Frame]) -> None:
        connection, key = frames[0].bytes, _key_of(frames[-1])
        self._connections[frames[-1].get(zmq.SRCFD)] = connection  # type: ignore[index]
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
