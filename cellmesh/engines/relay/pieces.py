"""What goes one way over a line that may break, in order, each thing once. Pure.

A thing is a head, and bytes that may be many. It goes in *pieces*, numbered from 1 on; who sends keeps them until the
other end has said up to which number they have come, and sends again from there. So it does no harm if a batch of them
is lost, comes twice or comes late.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct, msgpack

PIECE_BYTES = 1 << 20
BATCH_BYTES = 2 << 20  # of a batch that has more than one


class Piece(Struct, frozen=True, array_like=True):
    """A thing's head and how many bytes are behind it, or, without a head, the next of them."""

    head: bytes
    size: int
    data: memoryview


class Batch(Struct, frozen=True, array_like=True):
    """Some pieces, of which the first has that number."""

    first: int
    pieces: list[Piece]


encode: Callable[[Any], bytes] = msgpack.Encoder().encode
decode: Callable[[bytes], Batch] = msgpack.Decoder(Batch).decode


class Outgoing:
    """The end that sends."""

    def __init__(self) -> None:
        self._pieces: deque[Piece] = deque()
        self._first = 1  # the number of the first of them

    def __len__(self) -> int:
        return len(self._pieces)

    def add(self, head: bytes, data: bytes | memoryview = b"") -> int:
        """A thing; returns the number of its last piece. `data` is not copied before it is sent."""
        rest = memoryview(data)
        self._pieces.append(Piece(head, len(rest), rest[:PIECE_BYTES]))
        for at in range(PIECE_BYTES, len(rest), PIECE_BYTES):
            self._pieces.append(Piece(b"", 0, rest[at : at + PIECE_BYTES]))
        return self._first + len(self._pieces) - 1

    def came(self, n: int) -> None:
        """The pieces up to that number have."""
        while self._pieces and self._first <= n:
            self._pieces.popleft()
            self._first += 1

    def batch(self) -> bytes:
        """The next ones that are not known to have come."""
        chosen: list[Piece] = []
        size = 0
        for piece in self._pieces:
            size += len(piece.head) + len(piece.data)
            if chosen and size > BATCH_BYTES:
                break
            chosen.append(piece)
        return encode(Batch(self._first, chosen))


class Incoming:
    """The end that takes in. `n`: up to which number pieces have come."""

    def __init__(self) -> None:
        self.n: int = 0
        self._head = b""
        self._data = bytearray()
        self._n_left = 0  # bytes of the thing that has begun

    def take(self, batch: bytes) -> Iterator[tuple[bytes, memoryview]]:
        """The things that are whole with that."""
        found = decode(batch)
        for number, piece in enumerate(found.pieces, found.first):
            if number != self.n + 1:
                continue  # it has come before, or one before it has not: that one is sent again
            self.n = number
            if piece.head:
                self._head, self._data, self._n_left = piece.head, bytearray(), piece.size
            self._data += piece.data
            self._n_left -= len(piece.data)
            if not self._n_left:
                yield self._head, memoryview(self._data)
                self._data = bytearray()
