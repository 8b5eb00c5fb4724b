"""Messages to one peer, in order, each once, whatever becomes of connections. Pure: no socket, no clock (decision 44).

TCP may break with messages on their way, and ZeroMQ then says neither which nor that there were any. So every message
has a number, the sender keeps it until the receiver has acknowledged it, and sends what is kept again on the next
connection; the receiver takes the number that it expects and no other. The acknowledgement is the credit, too: what is
not acknowledged counts against a window, and beyond the window messages wait here, with the sender, who can see how
many they are. (Go-back-N; a high-water mark would either drop silently or fill the receiver's memory.)

The numbers begin with 0 and live as long as both keys: a process that begins again has another key, and is another
peer.
"""

from __future__ import annotations

from collections import deque
from typing import Any

# Sent and not acknowledged, to one peer. More than a network of 10 Gbit/s and 10 ms can have on its way. Frames of
# pyzmq keep what they were made from, so it takes twice the memory.
WINDOW_BYTES = 16 << 20
# That and what waits for room in the window. A sender in bulk asks for `room`; nothing else comes near it.
BUDGET_BYTES = 32 << 20
# Small messages are acknowledged together, for an acknowledgement wakes the other side up.
ACKNOWLEDGE_BYTES, ACKNOWLEDGE_MESSAGES = 256 << 10, 256
# At the latest after so long: then nothing is kept at rest, and a sender that hears nothing for longer knows that the
# line is dead, whatever TCP thinks.
ACKNOWLEDGE_S = 1.0
ANSWER_S = 5.0  # when it is late, with what is under way on the slowest line
SLOWEST_BYTES_PER_S = 256 << 10


class Overrun(ConnectionError):
    """The peer has not read for so long that more than BUDGET_BYTES wait for it."""


class Outgoing:
    """What goes to one peer. Frames are whatever the caller makes of them."""

    def __init__(self) -> None:
        self._sent: deque[tuple[int, Any]] = deque()  # their sizes and themselves; kept until acknowledged
        self._waiting: deque[tuple[int, Any]] = deque()  # for room in the window
        self._sent_bytes = self._waiting_bytes = 0
        self._first = 0  # number of the first that is kept
        self._wants_room = False
        self.n_added = 0

    @property
    def kept_bytes(self) -> int:
        """How much memory is held for the peer."""
        return self._sent_bytes + self._waiting_bytes

    @property
    def patience_s(self) -> float:
        """How long the next acknowledgement may take."""
        return ANSWER_S + self._sent_bytes / SLOWEST_BYTES_PER_S

    def room(self) -> int:
        """Bytes that can be added and go at once. After a 0, `acknowledge` says when there is room again."""
        room = max(0, WINDOW_BYTES - self.kept_bytes)
        self._wants_room = self._wants_room or not room
        return room

    def add(self, size: int, frames: Any) -> bool:
        """Take in the message with the number `n_added`; whether it may go at once. Otherwise `due` gives it in its
        time.

        Raises
        ------
        Overrun
            It has not been taken in.
        """
        if self.kept_bytes + size > BUDGET_BYTES and self.kept_bytes:
            raise Overrun(f"{self.kept_bytes >> 20} MiB wait for a peer that does not read")
        self.n_added += 1
        if not self._waiting and self._fits(size):
            self._sent.append((size, frames))
            self._sent_bytes += size
            return True
        self._waiting.append((size, frames))
        self._waiting_bytes += size
        return False

    def _fits(self, size: int) -> bool:
        return not self._sent or self._sent_bytes + size <= WINDOW_BYTES

    def due(self) -> list[Any]:
        """What has waited and is to be sent now."""
        found: list[Any] = []
        while self._waiting and self._fits(self._waiting[0][0]):
            size, frames = self._waiting.popleft()
            self._waiting_bytes -= size
            self._sent.append((size, frames))
            self._sent_bytes += size
            found.append(frames)
        return found

    def acknowledge(self, expected: int) -> bool:
        """The peer has everything below that number; whether there is room again after `room` has found none.

        Raises
        ------
        ValueError
            It cannot have: that has not been sent. Or it had more already, and has forgotten what it had.
        """
        if not self._first <= expected <= self._first + len(self._sent):
            raise ValueError(
                f"acknowledges {expected:,} messages, of {self._first + len(self._sent):,}, after {self._first:,}"
            )
        while self._first < expected:
            self._sent_bytes -= self._sent.popleft()[0]
            self._first += 1
        found = self._wants_room and self.kept_bytes <= WINDOW_BYTES // 2
        self._wants_room = self._wants_room and not found
        return found

    def restart(self) -> list[Any]:
        """There is another connection: what is to be sent on it, first of all."""
        return [frames for _, frames in self._sent]


class Incoming:
    """What comes from one peer."""

    def __init__(self) -> None:
        self.expected = 0
        self._n = self._bytes = 0  # since the last acknowledgement
        self._is_due = False

    def take(self, number: int, size: int, is_bulk: bool) -> bool:
        """Whether the message with that number is the next one. If not, it has been here before, or comes again
        later."""
        if number != self.expected:
            self._is_due = True  # the peer cannot know, or it would not have sent it
            return False
        self.expected += 1
        self._n += 1
        self._bytes += size
        self._is_due = self._is_due or is_bulk or self._n >= ACKNOWLEDGE_MESSAGES or self._bytes >= ACKNOWLEDGE_BYTES
        return True

    def acknowledgement(self, is_late: bool = False) -> int | None:
        """What to tell the peer now: the number that is expected; None: nothing. `is_late`: ACKNOWLEDGE_S have passed
        since it said what it has not been told of."""
        if not self._is_due and not (is_late and self._n):
            return None
        self._n = self._bytes = 0
        self._is_due = False
        return self.expected
