"""What workers write, on its way to the drivers.

It comes in two ways. Python's prints and displays come as messages (`worker.output`), tagged with their task. What C
code and child processes write comes through the worker's pipes, and so do the last words of a crash: the reading end is
here and outlives the worker.
"""

from __future__ import annotations

import codecs
import os
import time
from collections import deque

from ...objstore._core import Client
from ..ipc.fitting import pieces
from ..ipc.messages import N_TAIL_LINES, SessionConfig, TextStream, WorkerOutput
from ..sync.token_bucket import Throttle
from .last_output import LastOutput
from .loop import Loop, earliest
from .peers import Peer, Peers

RATE, BURST = 256 << 10, 1 << 20  # bytes/s and bytes per worker and stream, as for Python's prints
READ_BYTES = 32 << 10
# A worker that has ended: more than a pipe holds (/proc/sys/fs/pipe-max-size), as what it has started may write on.
LAST_READS = (1 << 20) // READ_BYTES + 1
NOTE_S = 1.0  # the note about what was dropped comes at least this often
MAX_LINE_CHARS = 2000  # of a line kept in the tail


class Tail:
    """The last lines of a text that arrives in pieces, and the task that printed each line (0: unknown)."""

    def __init__(self) -> None:
        self._lines: deque[tuple[int, str]] = deque(maxlen=N_TAIL_LINES)
        self._partial = 0, ""

    def add(self, text: str, task: int = 0) -> None:
        *lines, partial = (self._partial[1] + text).split("\n")
        self._lines.extend((task, line[:MAX_LINE_CHARS]) for line in lines[-N_TAIL_LINES:] if line.strip())
        self._partial = task, partial[:MAX_LINE_CHARS]

    def lines(self, task: int | None = None) -> tuple[str, ...]:
        """The lines that a task has printed, and those of unknown origin; None: all lines."""
        lines = [*self._lines, *([self._partial] if self._partial[1].strip() else [])][-N_TAIL_LINES:]
        return tuple(line for by, line in lines if task is None or by in (0, task))


class OutputPipe:
    """The reading end of a worker's descriptor 1 or 2."""

    def __init__(self, fd: int, stream: TextStream, tail: Tail | None, now: float) -> None:
        os.set_blocking(fd, False)
        self.fd, self._tail = fd, tail
        self.stream: TextStream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._throttle = Throttle(RATE, BURST, now)
        self.is_empty = False  # as of the last `read`
        self.note_at: float | None = None  # when what was dropped is to be told, should nothing be shown before

    def read(self, now: float) -> str | None:
        """The part of what has arrived that may be shown; None once no process can write any more. Never waits."""
        try:
            data = os.read(self.fd, READ_BYTES)
        except BlockingIOError:
            self.is_empty = True
            return ""
        self.is_empty = False
        text = self._decoder.decode(data, final=not data)
        if self._tail is not None:
            self._tail.add(text)
        if not data:
            return None
        shown = self._throttle.admit(text, now)
        self.note_at = (self.note_at or now + NOTE_S) if self._throttle.n_bytes else None
        return shown

    def note(self) -> str:
        """The note about what was dropped; empty if nothing was."""
        self.note_at = None
        return self._throttle.note()


class OutputRelay:
    """The output pipes of all workers, and the end of what each has written to stderr."""

    def __init__(self, client: Client, loop: Loop, peers: Peers, config: SessionConfig) -> None:
        self._client, self._loop, self._peers, self._config = client, loop, peers, config
        self._pipes: dict[int, list[OutputPipe]] = {}  # by pid
        self._tails: dict[int, Tail] = {}  # by pid
        self._last_output = LastOutput()

    def add_worker(self, pid: int, stdout: int, stderr: int) -> None:
        """Read these pipes of a worker from now on; they are closed here."""
        now = time.monotonic()
        tail = self._tails[pid] = Tail()
        self._pipes[pid] = [OutputPipe(stdout, "stdout", None, now), OutputPipe(stderr, "stderr", tail, now)]
        for pipe in self._pipes[pid]:
            self._loop.watch(pipe.fd, lambda fd, pipe=pipe: self._read(pid, pipe))

    def forget_worker(self, pid: int) -> None:
        """The worker has ended, and its end has been told."""
        self._tails.pop(pid, None)
        for pipe in self._pipes.pop(pid, []):
            self._loop.forget(pipe.fd)
            os.close(pipe.fd)

    def tail(self, pid: int, task: int | None = None) -> tuple[str, ...]:
        """The last lines that a worker has written to stderr; see `Tail.lines`."""
        return self._tails[pid].lines(task) if pid in self._tails else ()

    # ---- what comes as messages
    def take(self, pid: int, message: WorkerOutput) -> None:
        """Relay what a worker has sent."""
        if message.stream == "stderr" and pid in self._tails:  # else it has ended
            self._tails[pid].add(message.text, message.task)
        self.relay(message)

    def relay(self, message: WorkerOutput) -> None:
        """Send to all drivers, as far as they read."""
        if self._config.log_to_driver:
            self._last_output.add(message)
            self._peers.tell_drivers(message, droppable=True)

    def send_last(self, peer: Peer, request: int) -> None:
        """Answer `LastOutputRequest`."""
        for reply in self._last_output.replies(request, self._config):
            self._peers.post(peer, reply)

    # ---- what comes through pipes
    def read_all(self) -> None:
        """Relay what lies in the pipes of all workers."""
        for pid in list(self._pipes):
            self.read_last(pid)

    def read_last(self, pid: int) -> None:
        """Relay what lies in the pipes of a worker."""
        for pipe in self._pipes.get(pid, ()):
            self._read(pid, pipe, LAST_READS)
            self._relay_text(pid, pipe.stream, pipe.note())

    def add_crash(self, pid: int, stack: str) -> None:
        """Relay the stack of a crash as if the worker had written it to stderr."""
        self._tails[pid].add(stack + "\n")
        self._relay_text(pid, "stderr", stack + "\n")

    def _read(self, pid: int, pipe: OutputPipe, n_reads: int = 1) -> None:
        for _ in range(n_reads):
            text = pipe.read(time.monotonic())
            if text is None:
                self._loop.forget(pipe.fd)
                return
            self._relay_text(pid, pipe.stream, text)
            if pipe.is_empty:
                return

    def _relay_text(self, pid: int, stream: TextStream, text: str) -> None:
        if not text or not self._config.log_to_driver:
            return
        entry = next((e for e in self._client.clients() if e["pid"] == pid), None)
        task, origin = (entry["last_task"], entry["origin"]) if entry is not None else (0, 0)
        for piece in pieces(text):
            self.relay(WorkerOutput(task, origin, stream, pid, piece))

    # ---- notes about what was dropped
    @property
    def deadline(self) -> float | None:
        return earliest(*(pipe.note_at for pipes in self._pipes.values() for pipe in pipes))

    def pass_deadline(self, now: float) -> None:
        for pid, pipes in self._pipes.items():
            for pipe in pipes:
                if pipe.note_at is not None and now >= pipe.note_at:
                    self._relay_text(pid, pipe.stream, pipe.note())
