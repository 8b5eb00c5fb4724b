"""Sockets between the processes of one node: the only module that touches them.

| link      | kind                 | who speaks first         | blocking                       | bound                 |
|-----------|----------------------|--------------------------|--------------------------------|-----------------------|
| node.sock | unix, SOCK_SEQPACKET | driver, worker: `Hello`  | peers block, scheduler never   | backlog `MAX_BACKLOG` |
| zygote    | socketpair, the same | scheduler: `ForkWorkers` | zygote blocks, scheduler never | one reply a worker    |

A connection carries packets, which the kernel keeps whole and in order. A packet is one byte of marks, FIRST and LAST,
and up to PACKET_BYTES of a message; most messages are one packet that is both. A first packet voids a message that is
not complete: its sender was interrupted. Descriptors travel with the last packet (SCM_RIGHTS).

Who may connect: the socket lies in a folder of mode 0700, and the kernel's word for the peer's uid (SO_PEERCRED) must
be ours. Known weaknesses: a process of the same user can connect and be believed (such a process could also trace us);
a connection says nothing about the death of a process whose forked child holds it too: deaths are learnt elsewhere.
"""

from __future__ import annotations

import _thread
import functools
import os
import socket
import struct
from array import array
from collections import deque
from collections.abc import Iterator
from typing import Any

import msgspec

from .fitting import encode
from .messages import MAX_MESSAGE_BYTES, Message

PACKET_BYTES = 64 << 10  # a third of the smallest default send buffer, so that the next one is under way already
MAX_BACKLOG = 4 << 20  # of messages that may be lost; a driver that is stopped for long costs this much and no more
MAX_FDS = 8  # descriptors in one message

# What msgspec raises for bytes that are no message: its own errors, and two of Python's.
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

_FIRST, _LAST = 1, 2
# How much is told of what is wrong with a message.
MAX_REASON_CHARS = 200


class ProtocolError(Exception):
    """The peer's fault: a message that does not belong on this link, or none at all. The connection is useless."""


class Unreadable(ProtocolError):
    """Likewise, but the message came whole: the receiver may leave it out and go on with the next one."""


class MessageTooLarge(ValueError):
    """Our bug: large values belong into the object store, not into messages."""


class ConnectionLost(ConnectionError):
    """The peer has gone."""


class Channel:
    """One end of a connection.

    Parameters
    ----------
    sock : socket.socket
        Connected, SOCK_SEQPACKET; owned by the channel from now on.
    accepts : type
        The union of messages that may arrive.

    Notes
    -----
    `send` may be called from any thread, receiving is for one thread only. In a process forked from the one that made
    the channel `close` is all that may be used.
    """

    def __init__(self, sock: socket.socket, accepts: Any) -> None:
        self._sock = sock
        self._decoder = decoder(accepts)
        self._lock = _thread.allocate_lock()
        self._partial: list[bytes] = []
        self._partial_bytes = 0
        self._queue: deque[tuple[list[bytes], tuple[int, ...]]] = deque()
        self._queued_bytes = 0
        self.closed = False

    def fileno(self) -> int:
        return self._sock.fileno()

    def peer(self) -> tuple[int, int]:
        """Pid and uid of the process that connected, from the kernel."""
        pid, uid, _ = struct.unpack("3i", self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return pid, uid

    # ---- sending
    def send(self, message: Message, fds: tuple[int, ...] = ()) -> None:
        """Send, waiting while the peer does not read.

        Raises
        ------
        MessageTooLarge
            Above `MAX_MESSAGE_BYTES`; nothing has been sent.
        ConnectionLost
            The peer has gone.
        """
        packets = _packets(message)
        with self._lock:
            for number, packet in enumerate(packets, 1):
                try:
                    self._send_packet(packet, fds if number == len(packets) else (), 0)
                except OSError as error:
                    raise ConnectionLost(str(error)) from error

    def post(self, message: Message, fds: tuple[int, ...] = (), droppable: bool = False) -> bool:
        """Send without ever waiting: what the socket does not take is kept until `flush`.

        Descriptors that are kept back are duplicated, so the caller may close them. False if a `droppable` message was
        dropped because `MAX_BACKLOG` bytes are waiting already.
        """
        if droppable and self._queued_bytes > MAX_BACKLOG:
            return False
        packets = _packets(message)
        self._queue.append((packets, tuple(os.dup(fd) for fd in fds)))
        self._queued_bytes += sum(map(len, packets))
        self.flush()
        return True

    @property
    def has_backlog(self) -> bool:
        """Whether `flush` should be called when the socket becomes writable."""
        return bool(self._queue)

    def flush(self) -> None:
        """Send what `post` kept back, as far as the socket takes it. A lost peer shows when reading."""
        while self._queue:
            packets, fds = self._queue[0]
            while packets:
                try:
                    self._send_packet(packets[0], fds if len(packets) == 1 else (), socket.MSG_DONTWAIT)
                except BlockingIOError:
                    return
                except OSError:
                    self._drop_queue()
                    return
                self._queued_bytes -= len(packets.pop(0))
            self._queue.popleft()
            _close_all(fds)

    def _send_packet(self, packet: bytes, fds: tuple[int, ...], flags: int) -> None:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", fds))] if fds else []
        self._sock.sendmsg([packet], rights, flags | socket.MSG_NOSIGNAL)

    def _drop_queue(self) -> None:
        for _, fds in self._queue:
            _close_all(fds)
        self._queue.clear()
        self._queued_bytes = 0

    # ---- receiving
    def receive(self) -> tuple[Message, list[int]]:
        """The next message and the descriptors that came with it (the caller's from now on); waits for it.

        Raises
        ------
        ConnectionLost
            The peer has gone.
        ProtocolError
            What arrived is no message of this link.
        """
        while True:
            if (found := self._receive_packet(0)) is not None:
                return found

    def receive_ready(self) -> list[tuple[Message, list[int]]]:
        """The messages that are here now, up to 64; never waits. Raises as `receive` does, when there is none."""
        return list(self.arriving())

    def arriving(self, n_packets: int = 64) -> Iterator[tuple[Message, list[int]]]:
        """Likewise, one by one, of at most so many packets: what comes before one that is refused is not lost with
        it.
        """
        n = 0
        for _ in range(n_packets):  # the other connections want their turn too
            try:
                message = self._receive_packet(socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            except ConnectionLost:
                if n:
                    break  # comes up again at the next call
                raise
            if message is not None:
                n += 1
                yield message

    def _receive_packet(self, flags: int) -> tuple[Message, list[int]] | None:
        """One packet: the message that it completes, None if there is more to come."""
        room = socket.CMSG_SPACE(MAX_FDS * 4)
        try:
            packet, ancillary, arrived, _ = self._sock.recvmsg(PACKET_BYTES + 1, room, flags | socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            raise
        except OSError as error:
            raise ConnectionLost(str(error)) from error
        fds = _descriptors(ancillary)
        try:
            if not packet:
                raise ConnectionLost("the other end has closed the connection")
            if arrived & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
                raise ProtocolError("a packet larger than this protocol has")
            data = self._assemble(packet)
            if data is None:
                if fds:
                    raise ProtocolError("descriptors before the end of their message")
                return None
            return decode(self._decoder, data), fds
        except (ProtocolError, ConnectionLost):
            _close_all(fds)
            raise

    def _assemble(self, packet: bytes) -> bytes | None:
        marks, part = packet[0], packet[1:]
        if marks > (_FIRST | _LAST) or (not marks & _FIRST and not self._partial):
            raise ProtocolError("a packet out of place")
        if marks & _FIRST:
            self._partial.clear()
            self._partial_bytes = 0
        self._partial.append(part)
        self._partial_bytes += len(part)
        if self._partial_bytes > MAX_MESSAGE_BYTES:
            raise ProtocolError(f"a message above {MAX_MESSAGE_BYTES} bytes")
        if not marks & _LAST:
            return None
        data = part if len(self._partial) == 1 else b"".join(self._partial)
        self._partial.clear()
        self._partial_bytes = 0
        return data

    def set_timeout(self, timeout_s: float | None) -> None:
        """Bound every later `send` and `receive`; None: they wait."""
        self._sock.settimeout(timeout_s)

    # ---- end
    def shut_down(self) -> None:
        """End the connection for both sides, also for a thread that waits in `receive` and for forked copies."""
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:  # not connected any more
            pass

    def close(self) -> None:
        """Give the descriptor back. Harmless when repeated."""
        self.closed = True
        self._drop_queue()
        self._sock.close()


class Listener:
    """The listening end of node.sock."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    @classmethod
    def inherit(cls, fd: int) -> Listener:
        """Take over a listening descriptor that the parent process passed on."""
        os.set_inheritable(fd, False)
        return cls(socket.socket(fileno=fd))

    def fileno(self) -> int:
        return self._sock.fileno()

    def accept(self, accepts: Any) -> Channel | None:
        """The next connection, or None if it has gone already or is another user's."""
        try:
            connection, _ = self._sock.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return None
        channel = Channel(connection, accepts)
        if channel.peer()[1] != os.getuid():
            channel.close()
            return None
        return channel

    def set_blocking(self, blocking: bool) -> None:
        self._sock.setblocking(blocking)

    def close(self) -> None:
        self._sock.close()


def connect(path: str, accepts: Any, timeout_s: float | None = None) -> Channel:
    """Connect to the node.sock at `path`. `timeout_s` bounds this and every later send and receive; None: no bound.

    Raises
    ------
    ConnectionError, FileNotFoundError
        No process listens there.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        sock.settimeout(timeout_s)
        sock.connect(path)
    except OSError:
        sock.close()
        raise
    return Channel(sock, accepts)


def pair(accepts_here: Any, accepts_there: Any) -> tuple[Channel, Channel]:
    """Two connected channels, for a process and one that it forks."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return Channel(here, accepts_here), Channel(there, accepts_there)


def inherit(fd: int, accepts: Any) -> Channel:
    """The channel of a connected descriptor that the parent process passed on."""
    os.set_inheritable(fd, False)
    return Channel(socket.socket(fileno=fd), accepts)


@functools.cache
def decoder(accepts: Any) -> msgspec.msgpack.Decoder[Any]:
    """What decodes that union of messages. It takes 2 ms to make and keeps nothing of a connection: one for all of
    them.
    """
    return msgspec.msgpack.Decoder(accepts)


def decode(decoder: msgspec.msgpack.Decoder[Any], data: Any) -> Any:
    """The message that the bytes are; raises Unreadable if they are none that the decoder knows."""
    try:
        return decoder.decode(data)
    except UNREADABLE as error:
        reason = str(error)[:MAX_REASON_CHARS].encode("unicode_escape").decode()  # it may repeat what the message holds
        raise Unreadable(f"not a message of this link: {reason}") from error


def _packets(message: Message) -> list[bytes]:
    data = encode(message)
    if len(data) <= PACKET_BYTES:
        return [b"\3" + data]  # FIRST | LAST
    if len(data) > MAX_MESSAGE_BYTES:
        raise MessageTooLarge(f"{type(message).__name__} of {len(data):,} bytes; at most {MAX_MESSAGE_BYTES:,} fit")
    parts = [data[start : start + PACKET_BYTES] for start in range(0, len(data), PACKET_BYTES)]
    marks = [_FIRST] + [0] * (len(parts) - 2) + [_LAST]
    return [bytes([mark]) + part for mark, part in zip(marks, parts, strict=True)]


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    fds = array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return list(fds)


def _close_all(fds: Any) -> None:
    for fd in fds:
        os.close(fd)
