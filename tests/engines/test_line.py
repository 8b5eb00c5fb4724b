"""The line between an agent and an engine's process."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from cellmesh.scheduler.cluster.engine import EngineDown, FromEngine, ToEngine
from cellmesh.scheduler.cluster.messages import CHUNK_BYTES, Chunk, Flush, Flushed
from cellmesh.scheduler.cluster.net import shared_frames
from cellmesh.scheduler.cluster.net.line import SHARED, Line
from cellmesh.scheduler.cluster.net.reliable import BUDGET_BYTES, Overrun
from cellmesh.scheduler.cluster.net.shared_frames import LEAST_BYTES, RING_BYTES, SharedFrames
from cellmesh.scheduler.ipc.messages import EngineConfig, SessionConfig
from cellmesh.scheduler.ipc.transport import ConnectionLost, ProtocolError

from cellmesh.engines import process
from cellmesh.engines.connection import connecting
from cellmesh.engines.fake_engine import FakeEngine
from cellmesh.engines.interface import Event, Facts, Outcome
from cellmesh.exceptions import EngineError


@pytest.fixture
def ends() -> Iterator[tuple[Line, Line]]:
    """The agent's, and the process's."""
    here, there = (
        Line(sock, accepts) for sock, accepts in zip(socket.socketpair(), (FromEngine, ToEngine), strict=True)
    )
    yield here, there
    here.close()
    there.close()


def received(line: Line, n: int, other: Line) -> list[tuple[Any, bytes | bytearray]]:
    """The next messages, while the other end sends on."""
    found: list[tuple[Any, bytes | bytearray]] = []
    while len(found) < n:
        other.flush()
        found += line.receive_ready()
    return found


def test_messages_come_in_order_with_what_is_behind_them(ends: tuple[Line, Line]) -> None:
    here, there = ends
    frame = bytes(range(256)) * (CHUNK_BYTES >> 8)
    here.send(Flush(1))
    here.send(Chunk(1, 2, 0), frame)
    here.send(Flush(2))
    assert here.has_backlog
    assert received(there, 3, here) == [(Flush(1), b""), (Chunk(1, 2, 0), frame), (Flush(2), b"")]
    assert not here.has_backlog
    there.send(Flushed(1))
    assert received(here, 1, there) == [(Flushed(1), b"")]
    assert here.receive_ready() == []


@pytest.fixture
def sharing() -> Iterator[tuple[Line, Line]]:
    """The same with memory that both have."""
    memory = shared_frames.make()
    here, there = (
        Line(sock, accepts, SharedFrames(memory, is_first))
        for sock, accepts, is_first in zip(socket.socketpair(), (FromEngine, ToEngine), (True, False), strict=True)
    )
    os.close(memory)
    yield here, there
    here.close()
    there.close()


def test_large_frames_lie_in_shared_memory_until_the_next_are_received(sharing: tuple[Line, Line]) -> None:
    here, there = sharing
    for n in range(3 * RING_BYTES // CHUNK_BYTES):  # all around it
        frame = bytes([n % 251]) * (CHUNK_BYTES - 1000 * n)
        for a, b in (here, there), (there, here):
            a.send(Chunk(n, 2, 0), frame)
            assert not a.has_backlog
            a.send(Chunk(n, 3, 0), b"small")
            ((first, large), (second, small)) = b.receive_ready()
            assert (first, second, small) == (Chunk(n, 2, 0), Chunk(n, 3, 0), b"small")
            assert isinstance(large, memoryview) and large == frame
    assert here.receive_ready() == there.receive_ready() == []


def test_frames_that_find_no_room_there_go_over_the_line_in_their_order(sharing: tuple[Line, Line]) -> None:
    here, there = sharing
    frames = [bytes([n]) * CHUNK_BYTES for n in range(RING_BYTES // CHUNK_BYTES + 1)]
    for n, frame in enumerate([*frames, b"x" * LEAST_BYTES]):
        here.send(Chunk(n, 2, 0), frame)
    assert here.has_backlog
    found = there.receive_ready()
    assert [(message.slot, frame == frames[message.slot]) for message, frame in found] == [
        (n, True) for n in range(len(frames) - 1)
    ]
    del found
    assert [message.slot for message, _ in received(there, 2, here)] == [len(frames) - 1, len(frames)]
    here.send(Chunk(99, 2, 0), frames[0])
    assert not here.has_backlog  # there is room again
    ((_, last),) = there.receive_ready()
    assert last == frames[0]


def test_what_a_side_says_to_have_read_and_cannot_have_gives_no_room() -> None:
    memory = shared_frames.make()
    one = SharedFrames(memory, is_first=True)
    for n_read in 1, 1 << 63:
        os.pwrite(memory, n_read.to_bytes(8, "little"), 0)
        assert not one.put(memoryview(bytes(LEAST_BYTES)))
    os.pwrite(memory, bytes(8), 0)
    assert one.put(memoryview(bytes(LEAST_BYTES)))
    os.close(memory)


def test_a_frame_in_memory_that_is_not_shared_is_a_fault() -> None:
    wire, end = socket.socketpair()
    with wire:
        line = Line(end, ToEngine)
        wire.sendall((0).to_bytes(4, "little") + (SHARED | 10).to_bytes(4, "little"))
        with pytest.raises(ProtocolError):
            line.receive_ready()
        line.close()


def test_messages_are_the_same_in_whatever_pieces_they_come() -> None:
    sent = [(Flush(1), b""), (Chunk(1, 2, 0), bytes(range(200))), (Chunk(1, 2, 1), b"x"), (Flush(2), b"")]
    writer, wire = socket.socketpair()
    with wire:
        line = Line(writer, ToEngine)
        for message, frame in sent:
            line.send(message, frame)
        line.close()
        data = wire.recv(1 << 16)
    for size in (1, 2, 3, 7, 50, 199, 300, len(data)):
        wire, end = socket.socketpair()
        line = Line(end, FromEngine)
        found: list[tuple[Any, bytes | bytearray]] = []
        for at in range(0, len(data), size):
            wire.sendall(data[at : at + size])
            found += line.receive_ready()
            found += line.receive_ready()  # a message that was behind the end of a frame
        assert found == sent
        wire.close()
        line.close()


def test_who_does_not_read_is_not_sent_to_for_ever(ends: tuple[Line, Line]) -> None:
    here, there = ends
    n = 0
    with pytest.raises(Overrun):
        while n <= BUDGET_BYTES // CHUNK_BYTES:
            here.send(Chunk(n, 0, 0), bytes(CHUNK_BYTES))
            n += 1
    assert not here.room()
    has_room = False
    seen = 0
    while seen < n:
        has_room |= here.flush()
        seen += len(there.receive_ready())
    assert has_room
    assert here.room()


def test_the_end_comes_after_what_was_said(ends: tuple[Line, Line]) -> None:
    here, there = ends
    here.send(Flush(1))
    here.close()
    assert there.receive_ready() == [(Flush(1), b"")]
    with pytest.raises(ConnectionLost):
        there.receive_ready()
    there.send(Flushed(1))  # shows when reading
    assert not there.has_backlog


def test_what_is_no_message_ends_it() -> None:
    sock, there = socket.socketpair()
    line = Line(there, ToEngine)
    with sock:
        sock.sendall(b"\xff" * 64)
        with pytest.raises(ProtocolError, match="a message of"):
            line.receive_ready()
    line.close()


class Silent(FakeEngine):
    """Does not find what it looks for, and does not say so."""

    def __init__(self) -> None:
        super().__init__(lambda data, blobs: Outcome(b""))
        self.is_over = threading.Event()

    def connect(self, address: str, options: Mapping[str, Any], tell: Callable[[Event], None]) -> Facts:
        self.is_over.wait()
        raise EngineError("late")


def test_an_engine_whose_library_does_not_come_back_is_unreachable(
    ends: tuple[Line, Line], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connecting, "CONNECT_S", 0.01)
    here, there = ends
    engine = Silent()
    where = EngineConfig("fake:", "")
    config = SessionConfig("", "", 0, "", {}, False, [], None, "", "", [], [], engine=where)
    served = process.EngineProcess(engine, config, there)
    served.run()
    engine.is_over.set()
    for descriptor in (served._wake, served._woken):  # which are the process's, to its end
        os.close(descriptor)
    ((message, _),) = here.receive_ready()
    assert message == EngineDown("fake: does not answer: nothing came for 0.01 s", "unreachable")
