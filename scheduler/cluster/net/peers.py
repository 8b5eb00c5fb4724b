"""A node's connections with the other nodes: each message once and in order, over broken connections too, see
`reliable`. One way each: answers come over the other's own connection.
"""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Iterable
from typing import Any

import msgspec
import zmq

from ...ipc.fitting import fitting
from ...ipc.transport import ProtocolError, decode, decoder
from ..messages import MAX_FRAME_BYTES, Member, Message
from . import address, reliable
from .events import Connected, Disconnected, Faulty, Received, Room
from .keys import KeyPair
from .reliable import Incoming, Outgoing
from .sockets import Sockets, key_of

MAX_PARTS = 8  # of a message: itself and what it carries
MAX_ACKNOWLEDGEMENT_BYTES = 4 << 10
GIVEN_UP_S = 0.3  # until a peer is tried again whose address has answered what no node would say
PEER_MESSAGES = 10_000  # that libzmq takes in before we look; further ones wait in TCP

_encoder = msgspec.msgpack.Encoder()
_number = struct.Struct("<Q")


class _Peer:
    """A node that may send to us, and that we may send to."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.outgoing, self.incoming = Outgoing(), Incoming()
        self.socket: zmq.Socket[bytes] | None = None  # when there has been something to send
        self.monitor: zmq.Socket[bytes] | None = None
        self.is_connected = self.is_missed = False  # missed: the owner has been told that it cannot be reached
        self.routes: dict[bytes, None] = {}  # where its messages have come from since the last acknowledgement
        self.is_faulty = False


class Peers(Sockets):
    """This node's connections with the others.

    Parameters
    ----------
    keys : KeyPair
        This node's alone, made for it; what has another key is another node.
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
        # By node, when it is time: to acknowledge; to have been acknowledged; to connect again.
        self._owed: dict[int, float] = {}
        self._awaited: dict[int, float] = {}
        self._given_up: dict[int, float] = {}
        try:
            self._incoming = self.network_socket(zmq.ROUTER, host, keys, MAX_FRAME_BYTES, PEER_MESSAGES)
            self._incoming.setsockopt(zmq.ROUTER_MANDATORY, 1)
            self.endpoint = self.bind(self._incoming, host, port)
        except BaseException:
            self.close()
            raise
        self.watch(self._incoming, lambda: self.receive_each(self._incoming, self._take))

    # ---- members
    def set_members(self, members: Iterable[Member]) -> None:
        """These are all there are; others are removed."""
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
            self._owed.pop(node, None)

    def gate_status(self, key: bytes) -> bytes:
        # For a moment it may be a member that is not known here yet. A stranger learns nothing by waiting.
        return b"200" if key in self._by_key else b""

    # ---- sending
    def send(self, node: int, message: Message, *payload: Any) -> None:
        """Send to a node. Never waits; the payload's bytes are copied out before it returns.

        Raises
        ------
        KeyError
            It is not a member.
        reliable.Overrun
            The node has not read for long, and too much waits for it already. Nothing has been sent.
        """
        peer = self._peers[node]
        data = bytearray(_number.pack(peer.outgoing.n_added))
        _encoder.encode_into(fitting(message), data, _number.size)
        size = len(data) + sum(memoryview(part).nbytes for part in payload)
        if len(data) > MAX_FRAME_BYTES or len(payload) >= MAX_PARTS:
            raise ValueError(
                f"{type(message).__name__} of {len(data):,} bytes with {len(payload)} frames is too large a message"
            )
        # Kept as libzmq's own frames, counted by reference, so that sending again copies nothing.
        frames = [zmq.Frame(data, copy=True), *(zmq.Frame(part, copy=True) for part in payload)]
        goes = peer.outgoing.add(size, frames)
        if peer.socket is None:
            self._connect(peer)
        elif goes:
            if peer.is_connected and node not in self._awaited:
                self._awaited[node] = time.monotonic() + peer.outgoing.patience_s
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

    @property
    def deadline(self) -> float:
        """When to call `tick` at the latest."""
        return min(
            (due for when in (self._owed, self._awaited, self._given_up) for due in when.values()), default=math.inf
        )

    def tick(self, now: float) -> None:
        """Do what is due. `now`: seconds, monotonic."""
        for node in [node for node, due in self._owed.items() if now >= due]:
            del self._owed[node]
            self._tell_expected(self._peers[node], is_late=True)
        for node in [node for node, due in self._awaited.items() if now >= due]:
            self._break(self._peers[node], "nothing that is sent is acknowledged")
        # Something has answered that no node would say: libzmq tries again after a failure of the network, but not
        # then.
        for node in [node for node, due in self._given_up.items() if now >= due]:
            self._disconnect(self._peers[node])
            self._connect(self._peers[node])

    def _connect(self, peer: _Peer) -> None:
        socket = self.network_socket(
            zmq.DEALER, address.parse(peer.member.endpoint)[0], self._keys, MAX_ACKNOWLEDGEMENT_BYTES, 0
        )
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
        peer.is_connected = False
        self._awaited.pop(peer.member.node, None)
        self._given_up.pop(peer.member.node, None)

    def _connection_changed(self, peer: _Peer, event: int) -> None:
        if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            peer.is_connected, peer.is_missed = True, False
            if peer.outgoing.kept_bytes:
                self._awaited[peer.member.node] = time.monotonic() + peer.outgoing.patience_s
            self.events.append(Connected(peer.member.node))
            return
        # Whatever has ended a handshake: libzmq tries again and says so, or has given up and says nothing.
        self._given_up.pop(peer.member.node, None)
        if event == zmq.EVENT_DISCONNECTED and not peer.is_connected:
            self._given_up[peer.member.node] = time.monotonic() + GIVEN_UP_S
        if event != zmq.EVENT_CONNECT_RETRIED:
            self._break(peer, "the connection has broken" if peer.is_connected else "no connection can be made")

    def _break(self, peer: _Peer, reason: str) -> None:
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
        self._awaited.pop(peer.member.node, None)
        if peer.is_connected and peer.outgoing.kept_bytes:
            self._awaited[peer.member.node] = time.monotonic() + peer.outgoing.patience_s
        if has_room:
            self.events.append(Room(peer.member.node))

    # ---- receiving
    def _take(self, frames: list[zmq.Frame]) -> None:
        peer = self._by_key.get(key_of(frames[-1]))
        if peer is None or peer.is_faulty:  # it was a member when it connected
            return
        if not 2 <= len(frames) <= 1 + MAX_PARTS or len(frames[1]) < _number.size:
            self._refuse(peer, f"{len(frames) - 1} frames that are no message")
            return
        peer.routes[frames[0].bytes] = None  # what was still under way on the connection before may come last
        node = peer.member.node
        (number,) = _number.unpack_from(frames[1].buffer)
        is_next = peer.incoming.take(number, sum(map(len, frames)), is_bulk=len(frames) > 2)
        self._to_acknowledge.add(node)
        if is_next:
            try:
                message = decode(self._decoder, frames[1].buffer[_number.size :])
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
            if peer is not None and not self._tell_expected(peer) and node not in self._owed:
                self._owed[node] = time.monotonic() + reliable.ACKNOWLEDGE_S
        self._to_acknowledge.clear()

    def _tell_expected(self, peer: _Peer, is_late: bool = False) -> bool:
        """Acknowledge what is to be acknowledged now; False: not yet."""
        expected = peer.incoming.acknowledgement(is_late)
        if expected is None:
            return False
        self._owed.pop(peer.member.node, None)
        routes, peer.routes = peer.routes, {}
        for route in routes:
            self._acknowledge(route, expected)
        self.has_sent(self._incoming)
        return True

    def _acknowledge(self, route: bytes, expected: int) -> None:
        try:
            self._incoming.send_multipart([route, _number.pack(expected)], zmq.DONTWAIT)
        except zmq.ZMQError as error:
            # It has gone; it sends again, and is told again.
            if error.errno not in (zmq.EHOSTUNREACH, zmq.EAGAIN):
                raise
