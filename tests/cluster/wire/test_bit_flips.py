"""Bits that are turned over on their way: whatever line they hit, every message arrives as it was sent, once and in
order.

CELLMESH_FLIPS=10000 turns that many over instead of a few.
"""

from __future__ import annotations

import os
import random

import pytest
from cellmesh.scheduler.cluster.net import reliable, sockets
from cellmesh.scheduler.cluster.net.events import Disconnected, Faulty, Received
from cellmesh.scheduler.cluster.net.keys import KeyPair
from cellmesh.scheduler.cluster.net.peers import Peers
from support.loopback import HEARD, Line, Pong, heard, wait

N_FLIPS = int(os.environ.get("CELLMESH_FLIPS", "150"))
FAR = 12_000  # bytes from one flip to the next, at most; a handshake has some 600
AHEAD = 30  # messages under way


def payload(n: int) -> bytes:
    return n.to_bytes(8, "little") * (1 + n % 200)


class Spoiler:
    """Turns bits over, in both directions."""

    def __init__(self, seed: int) -> None:
        self.dice, self.n, self.left = random.Random(seed), 0, 0

    def spoil(self, data: bytes) -> bytes:
        spoilt = bytearray(data)
        while self.n < N_FLIPS and self.left < len(spoilt):
            spoilt[self.left] ^= 1 << self.dice.randrange(8)
            self.n += 1
            self.left += 1 + self.dice.randrange(FAR)
        self.left -= len(spoilt)
        return bytes(spoilt)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A length that is spoilt keeps a connection silent; the test need not wait as long as a machine would. To be asked
    for before `ends`.
    """
    for name, milliseconds in {"RECONNECT_MS": 1, "MAX_RECONNECT_MS": 2, "HANDSHAKE_MS": 300}.items():
        monkeypatch.setattr(sockets, name, milliseconds)
    for name, seconds in {"ACKNOWLEDGE_S": 0.05, "ANSWER_S": 0.2}.items():
        monkeypatch.setattr(reliable, name, seconds)


@pytest.mark.timeout(max(120, N_FLIPS // 2))
@pytest.mark.parametrize("seed", [1, 2])
def test_no_spoilt_byte_is_ever_taken(
    seed: int, impatient: None, ends: tuple[Peers, Peers, KeyPair, KeyPair], line: Line
) -> None:
    a, b, *_ = ends
    spoiler = Spoiler(seed)
    line.spoil = line.spoil_back = spoiler.spoil
    n_sent = n_come = 0

    while spoiler.n < N_FLIPS or n_come < n_sent:
        while spoiler.n < N_FLIPS and n_sent < n_come + AHEAD:
            a.send(2, Pong(n_sent), payload(n_sent))
            n_sent += 1
        wait(a, b, line, until=lambda: heard(b, Received))
        for event in heard(b, Received):
            assert event.message == Pong(n_come) and b"".join(event.payload) == payload(n_come)
            n_come += 1
        assert not heard(a, Faulty) + heard(b, Faulty)
        HEARD[b].clear()
    assert spoiler.n == N_FLIPS and line.n_connections > N_FLIPS // 10, "they have ended connections"


@pytest.mark.parametrize("version", [0, 1])
def test_a_greeting_in_an_old_version_does_not_end_the_attempts(
    version: int, ends: tuple[Peers, Peers, KeyPair, KeyPair], line: Line
) -> None:
    """libzmq takes it for a peer that cannot encrypt, gives up for good, and says nothing but that the connection has
    ended.
    """
    a, b, *_ = ends
    left = [1, 1]

    def spoil(data: bytes) -> bytes:
        at = 10 if data[:1] == b"\xff" else 0  # it may come in two pieces
        if left and data[at : at + 1] == b"\x03":
            left.pop()
            return data[:at] + bytes([version]) + data[at + 1 :]
        return data

    line.spoil_back = spoil
    a.send(2, Pong(1))

    wait(a, b, line, until=lambda: heard(b, Received))
    assert not left and heard(a, Disconnected) and not heard(a, Faulty) + heard(b, Faulty)
