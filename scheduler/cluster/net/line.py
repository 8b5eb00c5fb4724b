"""A connection of two processes of this machine over which peers speak: messages in order, with a frame of bytes behind
each, over a unix stream socket. Nothing is lost on it but with one of the two, so nothing is numbered.
"""

from __future__ import annotations

import socket
import struct
from collections import deque
from typing import Any

from ...ipc.fitting import encode
from ...ipc.transport import ConnectionLost, ProtocolError, decode, decoder
from ..messages import CHUNK_BYTES, MAX_FRAME_BYTES, Message
from .reliable import BUDGET_BYTES, WINDOW_BYTES, Overrun

_sizes = struct.Struct("<II")  # of a message, and of what comes behind it
READ_BYTES = 1 << 20


class Line:
    """One end of it.

    Parameters
    ----------
    sock : socket.socket
        Connected, of type SOCK_STREAM; owned by the line from now on.
    accepts : type
        The union of messages that may arrive.

    Notes
    -----
    For one thread. Nothing ever waits: what the socket does not take is kept until `flush`.
    """

    def __init__(self, sock: socket.socket, accepts: Any) -> None:
        sock.setblocking(False)
        self._sock, self._decoder = sock, decoder(accepts)
        self._out: deque[memoryview] = deque()
        self._kept_bytes = 0
        self._in = bytearray()
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
        head = memoryview(_sizes.pack(len(data), len(behind)) + data)
        for part in (head, behind) if len(behind) else (head,):
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
    def receive_ready(self) -> list[tuple[Any, bytes]]:
        """The messages that are here, each with what came behind it.

        Raises
        ------
        ConnectionLost
            The other has gone, and all that it has said was received.
        ProtocolError
            What arrives is no message of this line.
        """
        try:
            data = self._sock.recv(READ_BYTES)
        except BlockingIOError:
            return []
        except OSError as error:
            raise ConnectionLost(str(error)) from error
        if not data:
            raise ConnectionLost("the other end has closed the connection")
        self._in += data
        found: list[tuple[Any, bytes]] = []
        at = 0
        while at + _sizes.size <= len(self._in):
            n_message, n_frame = _sizes.unpack_from(self._in, at)
            if n_message > MAX_FRAME_BYTES or n_frame > CHUNK_BYTES:
                raise ProtocolError(f"a message of {n_message:,} + {n_frame:,} bytes")
            begin = at + _sizes.size
            end = begin + n_message + n_frame
            if end > len(self._in):
                break
            message = decode(self._decoder, bytes(self._in[begin : begin + n_message]))
            found.append((message, bytes(self._in[begin + n_message : end])))
            at = end
        del self._in[:at]
        return found

    def close(self) -> None:
        """Give the descriptor back."""
        self._out.clear()
        self._sock.close()
