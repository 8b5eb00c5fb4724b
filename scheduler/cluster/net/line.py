"""A connection of two processes of this machine over which peers speak: messages in order, with a frame of bytes behind
each, over a unix stream socket. Nothing is lost on it but with one of the two, so nothing is numbered. A large frame
lies in memory that both have, if there is such and it has room.
"""

from __future__ import annotations

import socket
import struct
from collections import deque
from typing import Any

from ...ipc.fitting import encode
from ...ipc.transport import ConnectionLost, ProtocolError, decode, decoder
from ..messages import CHUNK_BYTES, MAX_FRAME_BYTES, Frame, Message
from .reliable import BUDGET_BYTES, WINDOW_BYTES, Overrun
from .shared_frames import LEAST_BYTES, SharedFrames

_sizes = struct.Struct("<II")  # of a message, and of what comes behind it
SHARED = 1 << 31  # with the latter: it lies in shared memory
READ_BYTES = 64 << 10  # of messages; what comes behind one is read into its place


class Line:
    """One end of it.

    Parameters
    ----------
    sock : socket.socket
        Connected, of type SOCK_STREAM; owned by the line from now on.
    accepts : type
        The union of messages that may arrive.
    shared : SharedFrames or None
        What both ends have besides.

    Notes
    -----
    For one thread. Nothing ever waits: what the socket does not take is kept until `flush`.
    """

    def __init__(self, sock: socket.socket, accepts: Any, shared: SharedFrames | None = None) -> None:
        sock.setblocking(False)
        self._sock, self._decoder, self._shared = sock, decoder(accepts), shared
        self._out: deque[memoryview] = deque()
        self._kept_bytes = 0
        self._buffer, self._in = bytearray(READ_BYTES), bytearray()
        # Whose frame has begun to come, that frame, and how much of it has come.
        self._message: Any = None
        self._frame: bytearray | None = None
        self._come = 0
        self._wants_room = False

    def fileno(self) -> int:
        """For `poll`."""
        return self._sock.fileno()

    # ---- sending
    @property
    def has_backlog(self) -> bool:
        """Whether `flush` is to be called when the socket takes more."""
        return bool(self._out)

    def send(self, message: Message, frame: bytes | memoryview | None = None) -> None:
        """Send, or keep what the socket does not take.

        Raises
        ------
        Overrun
            The other does not read. Nothing has been sent.
        """
        data = encode(message)
        behind = memoryview(frame or b"").cast("B")
        if len(data) > MAX_FRAME_BYTES or len(behind) > CHUNK_BYTES:
            what = f"{type(message).__name__} of {len(data):,} + {len(behind):,} bytes"
            raise ValueError(f"{what} is too large a message")
        if self._kept_bytes + len(data) + len(behind) > BUDGET_BYTES:
            raise Overrun(f"{self._kept_bytes >> 20} MiB wait for a process that does not read")
        is_shared = self._shared is not None and len(behind) >= LEAST_BYTES and self._shared.put(behind)
        head = memoryview(_sizes.pack(len(data), len(behind) | (SHARED if is_shared else 0)) + data)
        for part in (head, behind) if len(behind) and not is_shared else (head,):
            self._out.append(part)
            self._kept_bytes += len(part)
        self.flush()

    def flush(self) -> bool:
        """Send what was kept, as far as the socket takes it; whether there is room again after `room` has found
        none."""
        while self._out:
            try:
                n = self._sock.send(self._out[0], socket.MSG_NOSIGNAL)
            except BlockingIOError:
                break
            except OSError:  # its end shows when reading
                self._out.clear()
                self._kept_bytes = 0
                break
            self._kept_bytes -= n
            if n < len(self._out[0]):
                self._out[0] = self._out[0][n:]
            else:
                self._out.popleft()
        found = self._wants_room and self._kept_bytes <= WINDOW_BYTES // 2
        self._wants_room = self._wants_room and not found
        return found

    def room(self) -> int:
        """Bytes that can be added before the other must have read some. After a 0 `flush` says when there is room
        again."""
        room = max(0, WINDOW_BYTES - self._kept_bytes)
        self._wants_room = self._wants_room or not room
        return room

    # ---- receiving
    def receive_ready(self) -> list[tuple[Any, Frame]]:
        """The messages that are here, each with what came behind it. What of that lies in shared memory is there until
        this is called again.

        Raises
        ------
        ConnectionLost
            The other has gone, and all that it has said was received.
        ProtocolError
            What arrives is no message of this line.
        """
        if self._shared is not None:
            self._shared.release()
        try:
            if self._frame is None:
                return self._receive_messages()
            while self._come < len(self._frame):
                self._come += self._receive_into(memoryview(self._frame)[self._come :])
        except BlockingIOError:
            return []
        found, self._frame = (self._message, self._frame), None
        return [found]

    def _receive_messages(self) -> list[tuple[Any, Frame]]:
        self._in += memoryview(self._buffer)[: self._receive_into(self._buffer)]
        found: list[tuple[Any, Frame]] = []
        at = 0
        with memoryview(self._in) as here:
            while at + _sizes.size <= len(here):
                n_message, n_frame = _sizes.unpack_from(here, at)
                is_shared, n_frame = bool(n_frame & SHARED), n_frame & ~SHARED
                if n_message > MAX_FRAME_BYTES or n_frame > CHUNK_BYTES or (is_shared and self._shared is None):
                    raise ProtocolError(f"a message of {n_message:,} + {n_frame:,} bytes")
                begin = at + _sizes.size + n_message
                if begin > len(here):
                    break
                message = decode(self._decoder, bytes(here[begin - n_message : begin]))
                if is_shared and self._shared is not None:
                    found.append((message, self._shared.take(n_frame)))
                    at = begin
                    continue
                frame = bytes(here[begin : begin + n_frame])
                at = begin + len(frame)
                if len(frame) == n_frame:
                    found.append((message, frame))
                else:  # the rest is read into its place
                    self._message, self._come = message, len(frame)
                    self._frame = bytearray(n_frame)
                    self._frame[: self._come] = frame
        del self._in[:at]
        return found

    def _receive_into(self, place: bytearray | memoryview) -> int:
        try:
            n = self._sock.recv_into(place)
        except BlockingIOError:
            raise
        except OSError as error:
            raise ConnectionLost(str(error)) from error
        if not n:
            raise ConnectionLost("the other end has closed the connection")
        return n

    def close(self) -> None:
        """Give the descriptor back."""
        self._out.clear()
        self._shared = None
        self._sock.close()
