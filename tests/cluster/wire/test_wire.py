"""Sockets between machines: what gets in, which messages are taken from it, and that nothing is lost or comes twice
when lines break.
"""

from __future__ import annotations

import os
import select
import socket
import struct
from collections.abc import Iterator

import pytest
import zmq
from cellmesh.scheduler.cluster import messages as contract
from cellmesh.scheduler.cluster.messages import CLUSTER_VERSION, Join, Joined, Leave, Member, Register, StatusRequest
from cellmesh.scheduler.cluster.net import address, head_socket, reliable, sockets
from cellmesh.scheduler.cluster.net import peers as net_peers
from cellmesh.scheduler.cluster.net.events import (
    HEAD,
    Arrived,
    Connected,
    Disconnected,
    Ended,
    Faulty,
    Received,
    Refusal,
    Rejected,
    Room,
    Unreachable,
)
from cellmesh.scheduler.cluster.net.head_link import HeadLink
from cellmesh.scheduler.cluster.net.head_socket import HeadSocket
from cellmesh.scheduler.cluster.net.keys import KeyPair
from cellmesh.scheduler.cluster.net.peers import Peers
from cellmesh.scheduler.ipc import transport
from hypothesis import given, settings
from hypothesis import strategies as st
from support.loopback import Line, Ping, Pong, ToPeer, closing, heard, member, messages, peers, wait

Ends = tuple[Peers, Peers, KeyPair, KeyPair]


class Stranger:
    """A stranger with a key of its own, which can send anything."""

    def __init__(self, keys: KeyPair, server_key: bytes, endpoint: str) -> None:
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.DEALER)
        for option, value in (
            (zmq.LINGER, 0),
            (zmq.CURVE_PUBLICKEY, keys.public),
            (zmq.CURVE_SECRETKEY, keys.secret),
            (zmq.CURVE_SERVERKEY, server_key),
        ):
            self.socket.setsockopt(option, value)
        self.monitor = self.socket.get_monitor_socket()
        self.socket.connect(endpoint)
        self.events: list[int] = []

    def fileno(self) -> int:
        return int(self.monitor.getsockopt(zmq.FD))

    def receive_ready(self) -> list[object]:
        while self.monitor.getsockopt(zmq.EVENTS) & zmq.POLLIN:
            self.events.append(struct.unpack("=HI", self.monitor.recv_multipart()[0])[0])
        return []

    def close(self) -> None:
        self.socket.disable_monitor()
        self.monitor.close(0)
        self.socket.close(0)
        self.context.term()


# ---------------------------------------------------------------- peers
def test_messages_arrive_in_order_and_say_who_sent_them(ends: Ends) -> None:
    a, b, *_ = ends
    sent = [Ping(f"{i}") if i % 2 else Pong(i) for i in range(1000)]
    for message in sent:
        a.send(2, message)
    b.send(1, Ping("back"))
    wait(a, b, until=lambda: len(messages(b)) == 1000 and messages(a))
    assert messages(b, node=1) == sent and messages(a, node=2) == [Ping("back")]
    assert heard(a, Connected) == [Connected(2)] and heard(b, Connected) == [Connected(1)]


def test_a_payload_travels_behind_its_message(ends: Ends) -> None:
    a, b, *_ = ends
    chunk = bytearray(os.urandom(4 << 20))
    expected = bytes(chunk)
    a.send(2, Ping("chunk"), chunk, b"small", memoryview(b""))
    chunk[:] = bytes(len(chunk))  # it is the caller's again
    wait(a, b, until=lambda: messages(b))
    (received,) = heard(b, Received)
    assert [bytes(part) for part in received.payload] == [expected, b"small", b""]


def test_nothing_happens_when_nothing_happens(ends: Ends) -> None:
    a, b, *_ = ends
    a.send(2, Ping("x"), b"y")
    b.send(1, Ping("x"), b"y")
    wait(
        a,
        b,
        until=lambda: (
            messages(a) and messages(b) and not a._peers[2].outgoing.kept_bytes + b._peers[1].outgoing.kept_bytes
        ),
    )
    poll = select.poll()
    for end in (a, b):
        poll.register(end.fileno(), select.POLLIN)
    while poll.poll(0):
        assert a.receive_ready() + b.receive_ready() == []
    assert poll.poll(100) == []


def test_a_broken_line_loses_nothing_and_repeats_nothing(ends: Ends, line: Line) -> None:
    a, b, *_ = ends
    sent = [Pong(i) for i in range(3000)]
    for n, message in enumerate(sent):
        a.send(2, message, *([os.urandom(200_000)] if n % 100 == 0 else []))
        if n % 500 == 250:
            cuts, seen = len(heard(a, Disconnected)), len(messages(b))
            wait(
                a,
                b,
                line,
                until=lambda cuts=cuts, seen=seen: len(heard(a, Connected)) > cuts and len(messages(b)) > seen,
            )
            line.cut()
            wait(a, b, line, until=lambda cuts=cuts: len(heard(a, Disconnected)) > cuts)
    wait(a, b, line, until=lambda: len(messages(b)) >= 3000)
    assert messages(b, node=1) == sent
    assert line.n_connections == 7 and len(heard(a, Disconnected)) == 6 and heard(a, Faulty) == heard(b, Faulty) == []
    wait(a, b, line, until=lambda: a._peers[2].outgoing.kept_bytes < reliable.ACKNOWLEDGE_BYTES)


@pytest.mark.parametrize("limit", [1, 64, 200, 300, 500, 700, 1000, 100_000])
def test_a_line_may_break_in_the_middle_of_anything(ends: Ends, line: Line, limit: int) -> None:
    a, b, *_ = ends
    line.limit = limit
    for i in range(5):
        a.send(2, Pong(i), bytes(50_000))
    wait(a, b, line, until=lambda: line.n_bytes > limit)
    line.limit = None
    wait(a, b, line, until=lambda: len(messages(b)) >= 5)
    assert messages(b) == [Pong(i) for i in range(5)]


def test_what_is_sent_before_the_other_listens_arrives() -> None:
    a, a_keys = peers()
    b_keys = sockets.new_pair()
    reserved = Line("tcp://127.0.0.1:1")
    port = address.parse(reserved.endpoint)[1]
    reserved.close()
    a.add(Member(2, f"tcp://127.0.0.1:{port}", b_keys.public, "host2", {}))
    a.send(2, Ping("early"))
    wait(a, until=lambda: heard(a, Disconnected))
    b, _ = peers(b_keys, port=port)
    with closing(a, b):
        b.add(member(1, a, a_keys))
        wait(
            a, b, until=lambda: messages(b) and heard(a, Connected)
        )  # the message may be there before we know of the connection
        assert heard(a) == [Disconnected(2, "no connection can be made"), Connected(2)], (
            "once, however often it has been tried"
        )


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections that are silent are soon lost, so that the test need not wait for it."""
    monkeypatch.setattr(reliable, "ANSWER_S", 0.2)


def test_a_line_that_is_dead_and_says_nothing_is_noticed(impatient: None, ends: Ends, line: Line) -> None:
    """A half-open connection: TCP takes what is sent, and nothing ever reads it."""
    a, b, *_ = ends
    a.send(2, Ping("1"))
    wait(a, b, line, until=lambda: messages(b))
    line.stop()
    a.send(2, Ping("2"))
    wait(a, b, line, until=lambda: heard(a, Disconnected))
    line.is_open = True
    wait(a, b, line, until=lambda: len(messages(b)) == 2)
    assert messages(b) == [Ping("1"), Ping("2")] and len(heard(a, Connected)) == 2


def test_who_listens_and_says_nothing_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "HANDSHAKE_MS", 100)
    a, _ = peers()
    with socket.create_server(("127.0.0.1", 0)) as silent, closing(a):
        a.add(Member(2, f"tcp://127.0.0.1:{silent.getsockname()[1]}", bytes(32), "h", {}))
        a.send(2, Ping("hello?"))
        wait(a, until=lambda: heard(a, Disconnected))


def test_who_is_not_known_yet_waits_at_the_gate() -> None:
    (a, a_keys), (b, b_keys) = peers(), peers()
    with closing(a, b):
        a.add(member(2, b, b_keys))
        a.send(2, Ping("hello"))
        wait(a, b, until=lambda: b._at_gate)
        assert messages(b) == [] and not heard(a, Connected)
        b.add(member(1, a, a_keys))
        wait(a, b, until=lambda: messages(b), deadline_s=sockets.HANDSHAKE_MS / 2000)


def test_a_node_that_was_removed_is_not_heard_any_more(ends: Ends) -> None:
    a, b, _a_keys, b_keys = ends
    a.send(2, Ping("1"))
    wait(a, b, until=lambda: messages(b))
    b.set_members([member(2, b, b_keys)])
    a.send(2, Ping("2"))
    other, other_keys = peers()
    with closing(other):
        b.add(member(3, other, other_keys))
        other.add(member(2, b, b_keys))
        wait(a, b, until=lambda: select.select([b], [], [], 0)[0] == [])
        other.send(2, Ping("3"))
        wait(a, b, other, until=lambda: len(messages(b)) > 1)
    assert messages(b) == [Ping("1"), Ping("3")]
    with pytest.raises(KeyError):
        b.send(1, Ping("nobody"))


def test_a_node_that_has_forgotten_us_is_not_sent_to_for_ever(ends: Ends) -> None:
    a, b, a_keys, _ = ends
    a.send(2, Ping("1"), b"acknowledged at once")
    wait(a, b, until=lambda: messages(b) and not a._peers[2].outgoing.kept_bytes)
    b.remove(1)
    b.add(member(1, a, a_keys))
    a.send(2, Ping("2"))
    wait(a, b, until=lambda: heard(a, Faulty))
    assert messages(b) == [Ping("1")]


def test_nobody_speaks_for_another(ends: Ends) -> None:
    """The number of a node is not something that is said: it follows from the key of the connection."""
    a, b, _, b_keys = ends
    c, c_keys = peers()
    with closing(c):
        b.add(member(3, c, c_keys))
        c.add(member(2, b, b_keys))
        c.send(2, Ping("I am 1"))
        a.send(2, Ping("so am I"))
        wait(a, b, c, until=lambda: len(messages(b)) == 2)
        assert messages(b, node=3) == [Ping("I am 1")] and messages(b, node=1) == [Ping("so am I")]


def test_a_stranger_never_gets_a_byte_looked_at(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, _a_keys, b_keys = ends
    taken: list[bytes] = []
    take = b._take
    monkeypatch.setattr(b, "_take", lambda frames: taken.append(frames[1].bytes) or take(frames))
    unknown = Stranger(sockets.new_pair(), b_keys.public, b.endpoint)
    astray = Stranger(sockets.new_pair(), sockets.new_pair().public, b.endpoint)
    with closing(unknown, astray):
        for stranger in (unknown, astray):
            stranger.socket.send(b"let me in")
        wait(b, unknown, astray, until=lambda: b._at_gate and zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL in astray.events)
        a.send(2, Ping("x"))
        wait(a, b, unknown, astray, until=lambda: messages(b))
        assert zmq.EVENT_HANDSHAKE_SUCCEEDED not in unknown.events + astray.events
    assert len(taken) == 1


HEADER = struct.pack("<Q", 0)


@pytest.mark.parametrize(
    "frames",
    [
        [b""],
        [b"short"],
        [HEADER],
        [HEADER + b"\xc1"],
        [HEADER + b"\x81" * 2000],
        [HEADER + b"\xdf\xff\xff\xff\xff"],
        [HEADER + b"\x91" * 100_000],
        [HEADER + net_peers._encoder.encode(Leave(1))],  # of another link
        [HEADER + net_peers._encoder.encode({"type": "ping", "text": 3})],
        [HEADER + net_peers._encoder.encode({"type": "ping", "text": "", "more": 1})],
        [HEADER + net_peers._encoder.encode(Ping(""))] + [b""] * net_peers.MAX_PARTS,
    ],
    ids=lambda frames: f"{len(frames)}x{frames[0][:12]!r}",
)
def test_what_is_no_message_ends_the_acquaintance(frames: list[bytes]) -> None:
    b, b_keys = peers()
    hostile, hostile_keys = sockets.new_pair(), sockets.new_pair()
    b.add(Member(7, "tcp://127.0.0.1:9", hostile.public, "h", {}))
    stranger = Stranger(hostile, b_keys.public, b.endpoint)
    with closing(b, stranger):
        stranger.socket.send_multipart(frames)
        stranger.socket.send_multipart([HEADER + net_peers._encoder.encode(Ping("now I behave"))])
        wait(b, stranger, until=lambda: heard(b, Faulty))
        good, good_keys = peers()
        with closing(good):
            b.add(member(8, good, good_keys))
            good.add(member(9, b, b_keys))
            good.send(9, Ping("others are served"))
            wait(b, good, until=lambda: messages(b, node=8))
        assert messages(b, node=7) == [] and heard(b, Faulty)[0].node == 7
    assert hostile_keys.secret.hex() not in repr(hostile_keys)


def test_a_frame_above_the_limit_ends_the_connection(ends: Ends) -> None:
    b, b_keys = peers()
    hostile = sockets.new_pair()
    b.add(Member(7, "tcp://127.0.0.1:9", hostile.public, "h", {}))
    stranger = Stranger(hostile, b_keys.public, b.endpoint)
    with closing(b, stranger):
        stranger.socket.send(bytes(contract.MAX_FRAME_BYTES + 1))
        wait(b, stranger, until=lambda: zmq.EVENT_DISCONNECTED in stranger.events)
        assert heard(b) == []


def test_who_acknowledges_what_was_never_sent_is_faulty() -> None:
    a, _a_keys = peers()
    hostile = sockets.new_pair()
    context = zmq.Context()
    router = context.socket(zmq.ROUTER)
    for option, value in (
        (zmq.LINGER, 0),
        (zmq.CURVE_SERVER, 1),
        (zmq.CURVE_PUBLICKEY, hostile.public),
        (zmq.CURVE_SECRETKEY, hostile.secret),
    ):
        router.setsockopt(option, value)
    port = router.bind_to_random_port("tcp://127.0.0.1")
    a.add(Member(7, f"tcp://127.0.0.1:{port}", hostile.public, "h", {}))
    try:
        with closing(a):
            a.send(7, Ping("x"))
            route, _ = router.recv_multipart()
            router.send_multipart([route, struct.pack("<Q", 1 << 60)])
            wait(a, until=lambda: heard(a, Faulty))
    finally:
        router.close(0)
        context.term()


def test_a_peer_that_does_not_read_costs_its_budget_and_no_more(ends: Ends) -> None:
    a, b, *_ = ends
    a.send(2, Ping("x"))
    wait(a, b, until=lambda: messages(b))
    chunk, n_sent = bytes(4 << 20), 0
    while a.room(2):
        a.send(2, Pong(n_sent), chunk)
        n_sent += 1
    assert reliable.WINDOW_BYTES <= a._peers[2].outgoing.kept_bytes < reliable.WINDOW_BYTES + (5 << 20)
    with pytest.raises(reliable.Overrun):
        for _ in range(100):
            a.send(2, Pong(n_sent), chunk)
            n_sent += 1
    assert a._peers[2].outgoing.kept_bytes <= reliable.BUDGET_BYTES
    wait(a, b, until=lambda: len(messages(b)) == n_sent + 1 and heard(a, Room))
    assert messages(b)[1:] == [Pong(i) for i in range(n_sent)] and len(heard(a, Room)) == 1


UNIONS = [*head_socket._ACCEPTS.values(), contract.ToPeer, contract.FromHead | contract.FromDoor]
SOUND = [
    net_peers._encoder.encode(message)
    for message in (
        Join(bytes(32), "host"),
        StatusRequest(1),
        Register(Member(1, "tcp://h:1", bytes(32), "h", {"CPU": 1}), 1),
        contract.End("x"),
    )
]


def is_read_or_refused(data: bytes, union: object) -> None:
    try:
        transport.decode(transport.decoder(union), data)
    except transport.ProtocolError:
        pass
    head_socket._foreign(data)


@given(
    st.binary(max_size=200)
    | st.sampled_from([b"\x81\xa4type\xa8register", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\x91" * 5000]),
    st.sampled_from(UNIONS),
)
@settings(max_examples=500, deadline=None)
def test_no_bytes_are_more_than_a_protocol_error(data: bytes, union: object) -> None:
    is_read_or_refused(data, union)


@given(st.sampled_from(SOUND), st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4))
@settings(max_examples=500, deadline=None)
def test_no_spoilt_message_is_more_than_a_protocol_error(sound: bytes, changes: list[tuple[int, int]]) -> None:
    spoilt = bytearray(sound)
    for place, byte in changes:
        spoilt[place % len(spoilt)] = byte
    is_read_or_refused(bytes(spoilt), contract.ToHead | contract.ToDoor)


def test_text_that_is_none_is_a_protocol_error_too() -> None:
    """Which msgspec before 0.23 lets through as Python's own."""
    with pytest.raises(transport.ProtocolError, match=r"(?i)utf-8"):
        transport.decode(transport.decoder(contract.ToDoor), SOUND[0].replace(b"host", b"h\xffst"))


# ---------------------------------------------------------------- the head
class Door:
    """Whom the head lets in, as far as the tests say so."""

    def __init__(self) -> None:
        self.roles: dict[bytes, str] = {}
        self.keys = sockets.new_pair()

    def socket(self, port: int = 0) -> HeadSocket:
        return HeadSocket(self.keys, "127.0.0.1", port, lambda key: self.roles.get(key, ""))


@pytest.fixture
def door() -> Door:
    return Door()


@pytest.fixture
def head(door: Door) -> Iterator[HeadSocket]:
    head = door.socket()
    with closing(head):
        yield head


def link(door: Door, head: HeadSocket, role: str, endpoint: str = "") -> tuple[HeadLink, KeyPair]:
    keys = sockets.new_pair()
    door.roles[keys.public] = role
    return HeadLink(keys, door.keys.public, endpoint or head.endpoint), keys


def test_an_agent_and_its_head(door: Door, head: HeadSocket) -> None:
    agent, keys = link(door, head, head_socket.MACHINE)
    with closing(agent):
        assert not agent.send(StatusRequest(1)), "there is no connection yet"
        wait(agent, head, until=lambda: heard(agent, Connected))
        assert agent.send(StatusRequest(2))
        wait(agent, head, until=lambda: heard(head, Arrived))
        (said,) = heard(head, Arrived)
        assert said.key == keys.public and said.message == StatusRequest(2)
        assert head.send(said.connection, contract.Refused("no"))
        wait(agent, head, until=lambda: messages(agent))
        assert messages(agent, node=HEAD) == [contract.Refused("no")]
        assert not head.send(b"nobody", contract.Refused("no"))


def test_a_newcomer_can_join_and_nothing_else(door: Door, head: HeadSocket) -> None:
    newcomer, keys = link(door, head, head_socket.NEWCOMER)
    with closing(newcomer):
        wait(newcomer, head, until=lambda: heard(newcomer, Connected))
        newcomer.send(StatusRequest(1))
        wait(newcomer, head, until=lambda: heard(head, Refusal))
        newcomer.send(Join(keys.public, "x" * 250))
        wait(newcomer, head, until=lambda: heard(head, Arrived))
        (said,) = heard(head, Arrived)
        assert said.message.hostname == "x" * 250
        door.roles[keys.public] = head_socket.MACHINE
        head.send(said.connection, Joined("c", head.endpoint))
        wait(newcomer, head, until=lambda: messages(newcomer))


def test_a_node_is_introduced_by_its_machine(door: Door, head: HeadSocket) -> None:
    node, machine = sockets.new_pair(), sockets.new_pair()
    door.roles[machine.public] = head_socket.MACHINE
    agent = HeadLink(node, door.keys.public, head.endpoint, introduced_by=machine, hostname="h")

    def introduced(n: int) -> None:
        wait(agent, head, until=lambda: len(heard(head, Arrived)) == n)
        said = heard(head, Arrived)[-1]
        assert (
            said.key == machine.public and said.message == Join(node.public, "h") and not agent.send(StatusRequest(1))
        )
        door.roles[node.public] = head_socket.NODE
        head.send(said.connection, Joined("c", head.endpoint))

    with closing(agent):
        introduced(1)
        wait(agent, head, until=lambda: heard(agent, Connected))
        agent.send(StatusRequest(2))
        wait(agent, head, until=lambda: len(heard(head, Arrived)) == 2)
        assert heard(head, Arrived)[-1][1:] == (node.public, StatusRequest(2))
        del door.roles[node.public]  # as another life of the head would not know it
        head.give_up(heard(head, Arrived)[-1].connection)
        introduced(3)
        wait(agent, head, until=lambda: len(heard(agent, Connected)) == 2)
        del door.roles[machine.public], door.roles[node.public]
        agent.send(StatusRequest(3))
        wait(agent, head, until=lambda: heard(head, Refusal)[-1].connection)
        head.give_up(heard(head, Refusal)[-1].connection)
        wait(agent, head, until=lambda: heard(agent, Rejected))
        assert heard(agent, Rejected)[-1].final


def test_the_end_of_a_connection_is_noticed(door: Door, head: HeadSocket) -> None:
    agent, _ = link(door, head, head_socket.NODE)
    wait(agent, head, until=lambda: agent.send(StatusRequest(0)))
    wait(agent, head, until=lambda: heard(head, Arrived))
    for number in range(1, 500):
        agent.send(StatusRequest(number))
    agent.close(linger_s=5.0)
    wait(head, until=lambda: heard(head, Ended))
    assert [said.message.number for said in heard(head, Arrived)] == list(range(500)), (
        "the end comes after what was said before it"
    )
    assert heard(head)[-1] == Ended(heard(head, Arrived)[0].connection)


def test_what_arrives_while_the_end_of_another_connection_is_noticed_is_read(door: Door, head: HeadSocket) -> None:
    (agent, _), (other, _) = link(door, head, head_socket.NODE), link(door, head, head_socket.NODE)
    with closing(agent, other):
        wait(agent, other, head, until=lambda: agent.send(StatusRequest(1)) and other.send(StatusRequest(1)))
        wait(head, until=lambda: len({said.connection for said in heard(head, Arrived)}) == 2)
        ((fd, read),) = [(fd, read) for fd, (watched, read) in head._readers.items() if watched is head._router]

        def read_and_be_late() -> None:
            read()
            if head._ending and agent.send(StatusRequest(2)):
                assert select.select([fd], [], [], 10)[0]
                head._readers[fd] = head._router, read

        head._readers[fd] = head._router, read_and_be_late
        other.close()
        wait(head, until=lambda: heard(head, Arrived)[-1].message == StatusRequest(2) and heard(head, Ended))


def test_the_heads_last_words_arrive_before_the_connection_is_lost(door: Door) -> None:
    head = door.socket()
    agent, _ = link(door, head, head_socket.NODE)
    with closing(agent):
        wait(agent, head, until=lambda: agent.send(StatusRequest(1)))
        wait(agent, head, until=lambda: heard(head, Arrived))
        connection = heard(head, Arrived)[0].connection
        for n in range(500):
            head.send(connection, contract.Refused(f"{n}"))
        head.close(linger_s=5.0)
        wait(agent, until=lambda: heard(agent, Disconnected))
        assert [message.reason for message in messages(agent)] == [f"{n}" for n in range(500)]
        assert heard(agent)[501] == Disconnected(HEAD, "the connection with the head has broken")


def test_an_unknown_key_is_told_so_at_once(door: Door, head: HeadSocket) -> None:
    stranger, keys = link(door, head, "")
    with closing(stranger):
        wait(stranger, head, until=lambda: heard(stranger, Rejected))
        assert heard(stranger, Rejected)[0].final
        assert heard(head) == [Refusal(b"", keys.public, "an unknown key")]


def test_another_head_at_the_address_is_noticed(door: Door, head: HeadSocket) -> None:
    keys = sockets.new_pair()
    door.roles[keys.public] = head_socket.MACHINE
    lost = HeadLink(keys, sockets.new_pair().public, head.endpoint)
    with closing(lost):
        wait(lost, head, until=lambda: heard(lost, Rejected))
        assert not heard(lost, Rejected)[0].final and head.endpoint in heard(lost, Rejected)[0].reason
        assert heard(head) == [], "not even a handshake"


def test_a_head_that_ends_during_a_handshake_is_no_other_head(door: Door) -> None:
    keys = sockets.new_pair()
    with socket.create_server(("127.0.0.1", 0)) as dying:
        agent = HeadLink(keys, door.keys.public, f"tcp://127.0.0.1:{dying.getsockname()[1]}")
        with closing(agent):
            connection, _ = dying.accept()
            connection.recv(1)
            dying.close()
            connection.close()
            wait(agent, until=lambda: heard(agent, Unreachable))
            assert not heard(agent, Rejected)


def test_who_is_expelled_is_not_listened_to_on_its_old_connection(door: Door, head: HeadSocket) -> None:
    agent, keys = link(door, head, head_socket.MACHINE)
    with closing(agent):
        wait(agent, head, until=lambda: heard(agent, Connected))
        del door.roles[keys.public]
        agent.send(StatusRequest(1))
        wait(agent, head, until=lambda: heard(head, Refusal))
        assert not heard(head, Arrived)


def test_an_agent_finds_the_next_life_of_the_head(door: Door) -> None:
    head = door.socket()
    port = address.parse(head.endpoint)[1]
    agent, _ = link(door, head, head_socket.MACHINE)
    with closing(agent):
        wait(agent, head, until=lambda: heard(agent, Connected))
        head.close()
        wait(agent, until=lambda: heard(agent, Disconnected))
        assert not agent.send(StatusRequest(1))
        head = door.socket(port)
        with closing(head):
            wait(agent, head, until=lambda: len(heard(agent, Connected)) == 2)
            agent.send(StatusRequest(2))
            wait(agent, head, until=lambda: heard(head, Arrived))
            assert heard(head, Arrived)[0].message == StatusRequest(2)


def test_a_connection_that_is_given_up_is_made_again(door: Door, head: HeadSocket) -> None:
    agent, _ = link(door, head, head_socket.MACHINE)
    with closing(agent):
        wait(agent, head, until=lambda: heard(agent, Connected))
        agent.send(StatusRequest(1))
        wait(agent, head, until=lambda: heard(head, Arrived))
        head.give_up(heard(head, Arrived)[0].connection)
        wait(agent, head, until=lambda: len(heard(agent, Connected)) == 2)
        agent.send(StatusRequest(2))
        wait(agent, head, until=lambda: len(heard(head, Arrived)) == 2)
        first, second = heard(head, Arrived)
        assert first.connection != second.connection


def test_another_version_is_called_by_its_name(door: Door, head: HeadSocket) -> None:
    agent, keys = link(door, head, head_socket.MACHINE)
    stranger = Stranger(keys, door.keys.public, head.endpoint)
    with closing(agent, stranger):
        stranger.socket.send(
            net_peers._encoder.encode({"type": "register", "version": CLUSTER_VERSION + 1, "new_field": 3})
        )
        wait(head, stranger, until=lambda: heard(head, Refusal))
        (refusal,) = heard(head, Refusal)
        assert f"version {CLUSTER_VERSION}" in refusal.foreign and f"machine {CLUSTER_VERSION + 1}" in refusal.foreign
    known = Register(Member(1, "tcp://h:1", bytes(32), "h", {}), 1, version=CLUSTER_VERSION + 1)
    assert head_socket.version_conflict(known.version) and not head_socket.version_conflict(CLUSTER_VERSION)


@pytest.mark.parametrize("data", [b"\xc1", b"x" * 5000, b"\x91" * 4000, b"", net_peers._encoder.encode(Ping(""))])
@pytest.mark.parametrize("role", [head_socket.MACHINE, head_socket.NEWCOMER])
def test_garbage_at_the_head_is_refused_and_others_are_served(
    door: Door, head: HeadSocket, role: str, data: bytes
) -> None:
    keys = sockets.new_pair()
    door.roles[keys.public] = role
    stranger = Stranger(keys, door.keys.public, head.endpoint)
    agent, _ = link(door, head, head_socket.MACHINE)
    with closing(stranger, agent):
        stranger.socket.send(data)
        stranger.socket.send_multipart([b"a", b"b"])
        wait(head, stranger, until=lambda: len(heard(head, Refusal)) == 2)
        wait(agent, head, until=lambda: agent.send(StatusRequest(1)))
        wait(agent, head, until=lambda: heard(head, Arrived))


# ---------------------------------------------------------------- where
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "*", ""])
def test_nothing_is_offered_on_all_networks(host: str, door: Door) -> None:
    with pytest.raises(address.AddressError, match="name the one address"):
        Peers(sockets.new_pair(), host, ToPeer)
    with pytest.raises(address.AddressError, match="name the one address"):
        HeadSocket(door.keys, host, 0, lambda key: "")


def test_an_address_that_is_taken_or_not_ours_is_named(door: Door, head: HeadSocket) -> None:
    port = address.parse(head.endpoint)[1]
    with pytest.raises(OSError, match=f"cannot listen at tcp://127.0.0.1:{port}: "):
        door.socket(port)
    with pytest.raises(OSError, match=r"cannot listen at tcp://192\.0\.2\.1"):
        Peers(sockets.new_pair(), "192.0.2.1", ToPeer)


def test_sockets_without_keys_cannot_be_made() -> None:
    with pytest.raises(TypeError):
        Peers()
    with pytest.raises(AttributeError):
        Peers(None, "127.0.0.1", ToPeer)
