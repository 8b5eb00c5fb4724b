"""Memory of two processes of this machine, in which large frames go from the one to the other: written there once, and
read where they lie. What says that there is one goes over the `line` beside it, and so has its order.

Each direction has a ring. Where a frame lies follows from the frames before it, so neither side tells the other; each
says only how far it has read. What finds no room goes over the line, so nobody ever waits.
"""

from __future__ import annotations

import mmap
import os
import struct

RING_BYTES = 32 << 20  # two windows of chunks; memory is used as it fills
LEAST_BYTES = 64 << 10  # of a frame for which this is quicker
COUNTS_BYTES = 4096  # in front of the rings: how far each has been read
_count = struct.Struct("<Q")


def make() -> int:
    """A descriptor of such memory."""
    fd = os.memfd_create("cellmesh-frames", os.MFD_CLOEXEC)
    os.truncate(fd, COUNTS_BYTES + 2 * RING_BYTES)
    return fd


class SharedFrames:
    """One side of it.

    Parameters
    ----------
    fd : int
        Of `make`; stays the caller's.
    is_first : bool
        The other side is not.
    """

    def __init__(self, fd: int, is_first: bool) -> None:
        self._memory = memoryview(mmap.mmap(fd, COUNTS_BYTES + 2 * RING_BYTES))
        self._writes, self._reads = (0, 1) if is_first else (1, 0)  # which ring
        self._n_written = self._n_read = self._n_released = 0

    def put(self, frame: memoryview) -> bool:
        """Lay a frame there for the other side; False: there is no room."""
        at = _place(self._n_written, len(frame))
        (n_read,) = _count.unpack_from(self._memory, _count.size * self._writes)
        if not self._n_written - RING_BYTES <= n_read <= self._n_written or at + len(frame) > n_read + RING_BYTES:
            return False
        self._at(self._writes, at, len(frame))[:] = frame
        self._n_written = at + len(frame)
        return True

    def take(self, n: int) -> memoryview:
        """The next frame of the other side, of that many bytes, which stay there until `release`."""
        at = _place(self._n_read, n)
        self._n_read = at + n
        return self._at(self._reads, at, n).toreadonly()

    def release(self) -> None:
        """What was taken is not read any more."""
        if self._n_released != self._n_read:
            self._n_released = self._n_read
            _count.pack_into(self._memory, _count.size * self._reads, self._n_read)

    def _at(self, ring: int, at: int, n: int) -> memoryview:
        begin = COUNTS_BYTES + ring * RING_BYTES + at % RING_BYTES
        return self._memory[begin : begin + n]


def _place(at: int, n: int) -> int:
    """Where a frame begins behind so many bytes: in one piece."""
    left = RING_BYTES - at % RING_BYTES
    return at if n <= left else at + left
