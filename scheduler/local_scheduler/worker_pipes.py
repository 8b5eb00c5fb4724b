"""The three pipes of a worker: what it writes to the descriptors 1 and 2, and its stack when it is asked for it.

Python's own prints do not come this way (`worker.output` tags and sends them); C code's and child processes' do, and so
do the last words of a crash, because the reading end is here and outlives the worker.
"""
from __future__ import annotations

import codecs
import os
import threading
from collections import deque

from ..budget import Throttle
from ..messages import N_TAIL_LINES

RATE, BURST = 256 << 10, 1 << 20   # bytes/s and bytes per worker and stream, as for Python's prints
READ_BYTES = 32 << 10
NOTE_S = 1.0                       # the note about what was dropped comes at least this often
MAX_LINE_CHARS = 2000              # of a line kept in the tail
MAX_DUMP_BYTES = 1 << 20
# A dump is many small writes without an end mark. It has ended when nothing more has come for this long.
DUMP_QUIET_S = 0.03


class Tail:
    """The last lines of a text that arrives in pieces."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=N_TAIL_LINES)
        self._partial = ""

    def add(self, text: str) -> None:
        *lines, partial = (self._partial + text).split("\n")
        self._lines.extend(line[:MAX_LINE_CHARS] for line in lines[-N_TAIL_LINES:] if line.strip())
        self._partial = partial[:MAX_LINE_CHARS]

    def lines(self) -> tuple[str, ...]:
        return tuple([*self._lines, *([self._partial] if self._partial.strip() else [])][-N_TAIL_LINES:])


class OutputPipe:
    """The reading end of a worker's descriptor 1 or 2."""

    def __init__(self, fd: int, stream: str, tail: Tail | None, now: float) -> None:
        os.set_blocking(fd, False)
        self.fd, self.stream, self._tail = fd, stream, tail
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._throttle = Throttle(RATE, BURST, now)
        self.note_at: float | None = None  # when what was dropped is to be told, should nothing be shown before

    def read(self, now: float) -> str | None:
        """What may be shown of what has arrived; None when everybody who could write has gone. Never waits."""
        try:
            data = os.read(self.fd, READ_BYTES)
        except BlockingIOError:
            return ""
        text = self._decoder.decode(data, final=not data)
        if self._tail is not None:
            self._tail.add(text)
        if not data:
            return None
        shown = self._throttle.admit(text, now)
        self.note_at = (self.note_at or now + NOTE_S) if self._throttle.n_bytes else None
        return shown

    def note(self) -> str:
        """What is told of what was dropped; empty if nothing was."""
        self.note_at = None
        return self._throttle.note()


class StackPipe:
    """The reading end of a worker's stack dumps, and who waits for the one under way."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self._dump = b""
        self.deadline: float | None = None  # None: no dump is under way

    def expect(self, deadline: float) -> None:
        """A dump has been asked for and must have begun by `deadline`."""
        self._dump, self.deadline = b"", deadline

    def read(self, now: float) -> bool:
        """Take what has arrived; False when nobody can write any more. Never waits."""
        try:
            data = os.read(self.fd, READ_BYTES)
        except BlockingIOError:
            return True
        self._dump = (self._dump + data)[:MAX_DUMP_BYTES]
        if self.deadline is not None:
            self.deadline = now + DUMP_QUIET_S
        return bool(data)

    def read_to_the_end(self, now: float) -> None:
        """Take all that is there, of a worker that has ended."""
        before = -1
        while len(self._dump) > before:
            before = len(self._dump)
            self.read(now)

    def take(self) -> str:
        """The dump, which is over with that; empty if none has come."""
        text = self._dump.decode("utf-8", "replace")
        self._dump, self.deadline = b"", None
        return text


def readable_stack(dump: str, hidden: str) -> str:
    """faulthandler's dump for people: what the user's code does, the outermost call first as in a traceback.

    What led there (the first frame of a file below the folder `hidden`, and all before it) is left out, and so are
    threads that do nothing but wait in there. Of a crash the first line, which says what it was, stays.
    """
    blocks = []
    for block in dump.split("\n\n"):
        head, *frames = block.strip("\n").split("\n")
        if frames and "most recent call first" in head:
            led_here = next((i for i, frame in enumerate(frames) if f'File "{hidden}' in frame), None)
            shown = frames[:led_here]
            if led_here is None or any(f'File "{threading.__file__}"' not in frame for frame in shown):
                head = head.replace("most recent call first", "most recent call last")
                blocks.append("\n".join([head, *reversed(shown)]))
        elif head.startswith("Fatal Python error"):
            blocks.append(head)
    return "\n\n".join(blocks)


class WorkerPipes:
    """All three of one worker."""

    def __init__(self, stdout: int, stderr: int, stacks: int, now: float) -> None:
        self.tail = Tail()
        self.outputs = [OutputPipe(stdout, "stdout", None, now), OutputPipe(stderr, "stderr", self.tail, now)]
        self.stacks = StackPipe(stacks)

    def fds(self) -> list[int]:
        return [*(pipe.fd for pipe in self.outputs), self.stacks.fd]

    def close(self) -> None:
        for fd in self.fds():
            os.close(fd)
