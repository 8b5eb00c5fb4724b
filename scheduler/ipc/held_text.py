"""Text that a worker holds back for a moment lies in memory that outlives the worker.

Whatever ends a worker, the local scheduler finds there what the worker's tasks have printed last (decision 121). One
memfd a worker: the zygote makes it, the worker writes, the local scheduler reads once the worker has ended. Both count
the messages of output that have gone between them, so a text that was being sent is neither lost nor shown twice.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from typing import get_args

from .messages import MAX_NAME_CHARS, MAX_TEXT_CHARS, TextStream, WorkerOutput

_BYTES_PER_CHAR = 4  # of UTF-8, at most
TEXT_BYTES = _BYTES_PER_CHAR * MAX_TEXT_CHARS
# Per stream: the head, the name, the text. Head: the number of the message that the text leaves in (0: none yet), task,
# origin, bytes of the name, bytes of the text.
_HEAD = struct.Struct("=QQIII")
_MESSAGE, _N_TEXT = struct.Struct("=Q"), struct.Struct("=I")
_N_TEXT_AT = _HEAD.size - _N_TEXT.size
_NAME_BYTES = _BYTES_PER_CHAR * MAX_NAME_CHARS
_TEXT_AT = _HEAD.size + _NAME_BYTES
_AREA_BYTES = (_TEXT_AT + TEXT_BYTES) // mmap.PAGESIZE * mmap.PAGESIZE + mmap.PAGESIZE
_STREAMS: tuple[TextStream, ...] = get_args(TextStream)


def create() -> int:
    """The descriptor of a new memory for held text; it takes no memory before something is held."""
    fd = os.memfd_create("cellmesh-held-text", os.MFD_CLOEXEC)
    try:
        os.ftruncate(fd, len(_STREAMS) * _AREA_BYTES)
    except OSError:
        os.close(fd)
        raise
    return fd


class HeldText:
    """The text of one stream that waits to be sent, as the worker writes it."""

    def __init__(self, area: memoryview) -> None:
        self._area = area
        self._end = _TEXT_AT

    def add(self, text: str, task: int, origin: int, name: str) -> None:
        """Hold `text` behind what is held already, of the same task."""
        data = text.encode("utf-8", "replace")
        begin, end = self._end, self._end + len(data)
        if end > _TEXT_AT + TEXT_BYTES:  # a print in the middle of a print, by a signal handler: sent all the same
            return
        if begin == _TEXT_AT:
            shown = name.encode("utf-8", "replace")[:_NAME_BYTES]
            self._area[_HEAD.size : _HEAD.size + len(shown)] = shown
            _HEAD.pack_into(self._area, 0, 0, task, origin, len(shown), 0)
        self._area[begin:end] = data
        self._end = end
        _N_TEXT.pack_into(self._area, _N_TEXT_AT, end - _TEXT_AT)  # last: whatever is counted is there

    def leaves_in(self, message: int) -> None:
        """What is held is about to be sent, in the worker's message of that number, counted from 1."""
        if self._end != _TEXT_AT:
            _MESSAGE.pack_into(self._area, 0, message)

    def clear(self) -> None:
        """Hold nothing any more."""
        if self._end != _TEXT_AT:
            self._end = _TEXT_AT
            _N_TEXT.pack_into(self._area, _N_TEXT_AT, 0)


def areas(fd: int) -> dict[TextStream, HeldText]:
    """The worker's side of such a memory, by stream."""
    whole = memoryview(mmap.mmap(fd, len(_STREAMS) * _AREA_BYTES))
    return {stream: HeldText(whole[i * _AREA_BYTES : (i + 1) * _AREA_BYTES]) for i, stream in enumerate(_STREAMS)}


def last_words(fd: int, pid: int, n_received: int) -> Iterator[WorkerOutput]:
    """What a worker that has ended had not sent yet; `n_received`: so many of its messages of output have come."""
    for i, stream in enumerate(_STREAMS):
        at = i * _AREA_BYTES
        message, task, origin, n_name, n_text = _HEAD.unpack(os.pread(fd, _HEAD.size, at))
        if n_text and not 0 < message <= n_received:
            name = os.pread(fd, min(n_name, _NAME_BYTES), at + _HEAD.size).decode("utf-8", "replace")
            text = os.pread(fd, min(n_text, TEXT_BYTES), at + _TEXT_AT).decode("utf-8", "replace")
            yield WorkerOutput(task, origin, stream, pid, text, name=name)
