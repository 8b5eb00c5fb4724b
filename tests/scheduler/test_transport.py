"""Connections between processes of one node: whole messages in order, bounded, and refused when they are none."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cellmesh.scheduler.ipc import node_socket, transport
from cellmesh.scheduler.ipc.messages import (
    MAX_MESSAGE_BYTES,
    MAX_TEXT_CHARS,
    FromPeer,
    FromScheduler,
    Hello,
    NodeEvent,
    Refused,
    Shutdown,
    StackRequest,
    WorkerOutput,
)
from cellmesh.scheduler.ipc.transport import Channel, ConnectionLost, Listener, MessageTooLarge, ProtocolError

Ends = tuple[Channel, Channel]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """A peer's end and the scheduler's."""
    peer, scheduler = transport.pair(FromScheduler, FromPeer)
    yield peer, scheduler
    peer.close()
    scheduler.close()


@pytest.fixture
def raw() -> Iterator[tuple[socket.socket, Channel]]:
    """A peer that may send anything."""
    peer, scheduler = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    channel = Channel(scheduler, FromPeer)
    yield peer, channel
    peer.close()
    channel.close()


def picture(size: int) -> WorkerOutput:
    return WorkerOutput(1, 2, "display", 3, bundle="x" * size)


def test_messages_arrive_in_order(ends: Ends) -> None:
    peer, scheduler = ends
    sent = [Hello("driver", 5), WorkerOutput(1, 2, "stdout", 3, "ä" * MAX_TEXT_CHARS), StackRequest(1, 2), Shutdown()]
    for message in sent:
        peer.send(message)
    assert [message for message, _ in scheduler.receive_ready()] == sent
    assert scheduler.receive_ready() == []


@pytest.mark.parametrize(
    "size",
    [
        0,
        transport.PACKET_BYTES - 60,
        transport.PACKET_BYTES,
        transport.PACKET_BYTES + 1,
        10 * transport.PACKET_BYTES,
        MAX_MESSAGE_BYTES - 100,
    ],
)
def test_large_messages_travel_in_parts(ends: Ends, size: int) -> None:
    peer, scheduler = ends
    sender = threading.Thread(target=peer.send, args=(picture(size),))  # more than a socket holds
    sender.start()
    assert scheduler.receive() == (picture(size), [])
    sender.join()


def test_too_large_a_message_is_refused_before_anything_is_sent(ends: Ends) -> None:
    peer, scheduler = ends
    with pytest.raises(MessageTooLarge, match="WorkerOutput"):
        peer.send(picture(MAX_MESSAGE_BYTES))
    assert scheduler.receive_ready() == []


def test_senders_in_several_threads_do_not_mix_their_parts(ends: Ends) -> None:
    peer, scheduler = ends
    sizes = [200_000 + i for i in range(20)]
    senders = [threading.Thread(target=peer.send, args=(picture(size),)) for size in sizes]
    for sender in senders:
        sender.start()
    received = [scheduler.receive()[0] for _ in sizes]
    for sender in senders:
        sender.join()
    assert sorted(len(message.bundle) for message in received) == sizes


def test_descriptors_come_with_their_message(ends: Ends) -> None:
    peer, scheduler = ends
    reader, writer = os.pipe()
    scheduler.post(NodeEvent("session_ends", "x" * 30_000), (writer,))
    os.close(writer)
    _, (received,) = peer.receive()
    assert not os.get_inheritable(received)
    os.write(received, b"here")
    assert os.read(reader, 10) == b"here"
    os.close(received)
    os.close(reader)


def test_the_end_of_the_peer_is_seen_after_its_last_message(ends: Ends) -> None:
    peer, scheduler = ends
    peer.send(Shutdown())
    peer.close()
    assert [message for message, _ in scheduler.receive_ready()] == [Shutdown()]
    with pytest.raises(ConnectionLost):
        scheduler.receive_ready()
    with pytest.raises(ConnectionLost):
        scheduler.send(NodeEvent("session_ends", ""))


def test_posting_never_waits_and_drops_only_what_may_be_lost(ends: Ends) -> None:
    peer, scheduler = ends
    n_kept = 0
    while scheduler.post(picture(100_000), droppable=True):
        n_kept += 1
    assert n_kept * 100_000 < 2 * transport.MAX_BACKLOG
    assert scheduler.post(NodeEvent("output_lost", "important"))  # this may not
    received = []
    while len(received) <= n_kept:
        received += [message for message, _ in peer.receive_ready()]
        scheduler.flush()
    assert received[-1] == NodeEvent("output_lost", "important") and not scheduler.has_backlog


def test_posting_to_a_lost_peer_is_harmless(ends: Ends) -> None:
    peer, scheduler = ends
    while not scheduler.has_backlog:
        scheduler.post(picture(100_000))
    peer.close()
    scheduler.flush()
    assert not scheduler.has_backlog


def test_an_interrupted_message_does_not_spoil_the_next(raw: tuple[socket.socket, Channel]) -> None:
    peer, channel = raw
    parts = transport._packets(picture(200_000))
    for part in parts[:2]:  # its sender was interrupted here
        peer.send(part)
    for part in transport._packets(picture(100_000)):
        peer.send(part)
    assert [message for message, _ in channel.receive_ready()] == [picture(100_000)]


@pytest.mark.parametrize(
    "packets",
    [
        [b"\x03garbage"],
        [b"\x03\x81\xa4type\xa5hell\xff"],  # text that is none
        [b"\x03" + b"\x91" * 5000],
        [b"\x07"],
        [b"\x02" + b"a last part without a first"],
        [b"\x00" + b"a part without a first"],
        [b"\x03" + b"x" * (transport.PACKET_BYTES + 1)],
        [transport._packets(Refused(""))[0]],  # not from a peer
    ],
    ids=repr,
)
def test_what_is_no_message_of_this_link_is_a_protocol_error(
    raw: tuple[socket.socket, Channel], packets: list[bytes]
) -> None:
    peer, channel = raw
    for packet in packets:
        peer.send(packet)
    with pytest.raises(ProtocolError):
        channel.receive_ready()


def test_parts_without_end_are_cut_off(raw: tuple[socket.socket, Channel]) -> None:
    peer, channel = raw
    peer.send(b"\x01" + b"x" * transport.PACKET_BYTES)
    with pytest.raises(ProtocolError, match="above"):
        for _ in range(MAX_MESSAGE_BYTES // transport.PACKET_BYTES + 1):
            peer.send(b"\x00" + b"x" * transport.PACKET_BYTES)
            assert channel.receive_ready() == []


def test_uninvited_descriptors_are_closed(raw: tuple[socket.socket, Channel]) -> None:
    peer, channel = raw
    reader, writer = os.pipe()
    socket.send_fds(peer, [b"\x03garbage"], [writer])
    os.close(writer)
    with pytest.raises(ProtocolError):
        channel.receive_ready()
    assert os.read(reader, 1) == b""  # nobody has the other end any more
    os.close(reader)


def test_who_listens_is_alive(tmp_path: Path) -> None:
    path = str(tmp_path / "node.sock")
    assert not node_socket.is_alive(path)
    listener = Listener(node_socket.listen(path))
    assert node_socket.is_alive(path)
    assert os.listdir(tmp_path) == ["node.sock"]
    listener.close()
    assert not node_socket.is_alive(path)
    with pytest.raises(ConnectionRefusedError):
        transport.connect(path, FromScheduler)


def test_a_listener_too_busy_to_answer_is_alive(tmp_path: Path) -> None:
    path = str(tmp_path / "node.sock")
    listener = Listener(node_socket.listen(path))
    waiting = []
    for _ in range(1000):
        waiting.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK))
        try:
            waiting[-1].connect(path)
        except BlockingIOError:
            break
    assert node_socket.is_alive(path)
    for connection in waiting:
        connection.close()
    listener.close()


def test_the_kernel_says_who_connects(tmp_path: Path) -> None:
    listener = Listener(node_socket.listen(str(tmp_path / "node.sock")))
    peer = transport.connect(str(tmp_path / "node.sock"), FromScheduler)
    accepted = listener.accept(FromPeer)
    assert accepted is not None and accepted.peer() == (os.getpid(), os.getuid())
    for end in (peer, accepted, listener):
        end.close()


def test_a_peer_that_left_before_it_was_accepted_ends_at_once(tmp_path: Path) -> None:
    listener = Listener(node_socket.listen(str(tmp_path / "node.sock")))
    transport.connect(str(tmp_path / "node.sock"), FromScheduler).close()
    accepted = listener.accept(FromPeer)
    assert accepted is not None
    with pytest.raises(ConnectionLost):
        accepted.receive()
    accepted.close()
    listener.set_blocking(False)
    assert listener.accept(FromPeer) is None
    listener.close()
