"""What workers write, on its way to the drivers.

It comes in two ways. Python's prints and displays come as messages (`worker.output`), tagged with their task. What C
code and child processes write comes through the worker's pipes, and so do the last words of a crash: the reading end is
here and outlives the worker. What a worker that has ended had not sent yet is found in memory (`ipc.held_text`).
"""

from __future__ import annotations

import codecs
import os
import sys
import time
from collections import deque
from typing import NamedTuple

import msgspec

from ...objstore._core import Client
from ..ipc import held_text
from ..ipc.fitting import pieces
from ..ipc.messages import N_TAIL_LINES, SessionConfig, TextStream, WorkerOutput
from ..sync.token_bucket import Throttle
from ..worker.log_file import LogFile
from .last_output import LastOutput
from .loop import Loop, earliest
from .peers import Peer, Peers

RATE, BURST = 256 << 10, 1 << 20  # bytes/s and bytes per worker and stream, as for Python's prints
READ_BYTES = 32 << 10
# A worker that has ended: more than a pipe holds (/proc/sys/fs/pipe-max-size), as what it has started may write on.
LAST_READS = (1 << 20) // READ_BYTES + 1
NOTE_S = 1.0  # the note about what was dropped comes at least this often
MAX_LINE_CHARS = 2000  # of a line kept in the tail


class Line(NamedTuple):
    """A line of a tail: how many were before it, and the task that printed it (0: unknown)."""

    number: int
    task: int
    text: str


class Tail:
    """The last lines that a worker has written, which arrive in pieces."""

    def __init__(self) -> None:
        self._n_lines = 0
        self._lines: dict[TextStream, deque[Line]] = {"stderr": deque(maxlen=N_TAIL_LINES)}
        self._lines["stdout"] = deque(maxlen=N_TAIL_LINES)
        self._partial: dict[TextStream, Line] = {}

    def add(self, stream: TextStream, text: str, task: int = 0) -> None:
        before = self._partial[stream].text if stream in self._partial else ""
        *lines, partial = (before + text).rsplit("\n", N_TAIL_LINES + 1)
        self._lines[stream].extend(self._line(task, line) for line in lines[-N_TAIL_LINES:] if line.strip())
        self._partial[stream] = self._line(task, partial)

    def lines(self, task: int | None = None) -> tuple[str, ...]:
        """The lines that a task has printed, and those of unknown origin; None: all lines.

        Those on stderr, where there is no room for all.
        """
        found: list[Line] = []
        for stream, whole in self._lines.items():
            partial = self._partial.get(stream)
            lines = [*whole, partial] if partial is not None and partial.text.strip() else list(whole)
            mine = [line for line in lines if task is None or line.task in (0, task)]
            n_left = N_TAIL_LINES - len(found)
            found += mine[-n_left:] if n_left else []
        return tuple(line.text for line in sorted(found))

    def _line(self, task: int, text: str) -> Line:
        self._n_lines += 1
        return Line(self._n_lines, task, text[:MAX_LINE_CHARS])


class OutputPipe:
    """The reading end of a worker's descriptor 1 or 2."""

    def __init__(self, fd: int, stream: TextStream, tail: Tail, now: float) -> None:
        os.set_blocking(fd, False)
        self.fd, self._tail = fd, tail
        self.stream: TextStream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._throttle = Throttle(RATE, BURST, now)
        self.is_empty = False  # as of the last `read`
        self.note_at: float | None = None  # when what was dropped is to be told, should nothing be shown before

    def read(self) -> str | None:
        """What has arrived; None once no process can write any more. Never waits."""
        try:
            data = os.read(self.fd, READ_BYTES)
        except BlockingIOError:
            self.is_empty = True
            return ""
        self.is_empty = False
        text = self._decoder.decode(data, final=not data)
        self._tail.add(self.stream, text)
        return text if data else None

    def admit(self, text: str, now: float) -> str:
        """The part of what has been read that may be shown."""
        shown = self._throttle.admit(text, now)
        self.note_at = (self.note_at or now + NOTE_S) if self._throttle.n_bytes else None
        return shown

    def note(self) -> str:
        """The note about what was dropped; empty if nothing was."""
        self.note_at = None
        return self._throttle.note()


class Worker:
    """What the relay has of a worker: its pipes, its memory for text that waits, the end of what it has written."""

    def __init__(self, stdout: int, stderr: int, held: int, log: LogFile | None, now: float) -> None:
        self.tail = Tail()
        self.pipes = [OutputPipe(stdout, "stdout", self.tail, now), OutputPipe(stderr, "stderr", self.tail, now)]
        self.held, self.log = held, log
        self.n_messages = 0  # of output, received
        self.printed = -1  # number of the task that has printed last, by messages


class OutputRelay:
    """The output of all workers, and the end of what each has written."""

    def __init__(self, client: Client, loop: Loop, peers: Peers, config: SessionConfig) -> None:
        self._client, self._loop, self._peers, self._config = client, loop, peers, config
        self._workers: dict[int, Worker] = {}  # by pid
        self._last_output = LastOutput()

    def add_worker(self, pid: int, stdout: int, stderr: int, held: int) -> None:
        """Read these descriptors of a worker from now on; they are closed here."""
        log = LogFile(self._config.log_dir, pid, of_descriptors=True) if self._config.log_dir else None
        worker = self._workers[pid] = Worker(stdout, stderr, held, log, time.monotonic())
        for pipe in worker.pipes:
            self._loop.watch(pipe.fd, lambda fd, pipe=pipe: self._read(pid, pipe))

    def forget_worker(self, pid: int) -> None:
        """The worker has ended, and its end has been told."""
        if (worker := self._workers.pop(pid, None)) is not None:
            for pipe in worker.pipes:
                self._loop.forget(pipe.fd)
                os.close(pipe.fd)
            os.close(worker.held)
            if worker.log is not None:
                worker.log.close()

    def tail(self, pid: int, task: int | None = None) -> tuple[str, ...]:
        """The last lines that a worker has written; see `Tail.lines`."""
        return self._workers[pid].tail.lines(task) if pid in self._workers else ()

    # ---- what comes as messages
    def take(self, pid: int, message: WorkerOutput) -> None:
        """Relay what a worker has sent."""
        if (worker := self._workers.get(pid)) is not None:  # else it has ended
            worker.n_messages += 1
            if message.stream == "stdout" or message.stream == "stderr":
                worker.tail.add(message.stream, message.text, message.task)
                worker.printed = message.task
        self.relay(message)

    def take_held(self, pid: int) -> None:
        """Relay what a worker that has ended had not sent yet; what it did send has been taken."""
        if (worker := self._workers.get(pid)) is None:
            return
        for message in held_text.last_words(worker.held, pid, worker.n_messages):
            if self._config.log_dir:
                log = LogFile(self._config.log_dir, pid, worker.printed)
                self._log(log, message.task, message.text)
                log.close()
            for piece in pieces(message.text):
                self.take(pid, msgspec.structs.replace(message, text=piece))

    def _log(self, file: LogFile, task: int, text: str) -> bool:
        """Write into a worker's file what the worker has not written there itself. False: nothing can be written."""
        problem = file.write(task, text)
        print(problem, file=sys.stderr, end="")
        return not problem

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
        for pid in list(self._workers):
            self.read_last(pid)

    def read_last(self, pid: int) -> None:
        """Relay what lies in the pipes of a worker."""
        if (worker := self._workers.get(pid)) is not None:
            for pipe in worker.pipes:
                self._read(pid, pipe, LAST_READS)
                self._relay_text(pid, pipe.stream, pipe.note())

    def add_crash(self, pid: int, stack: str) -> None:
        """Relay the stack of a crash as if the worker had written it to stderr."""
        text = stack + "\n"
        self._workers[pid].tail.add("stderr", text)
        self._log_text(pid, text)
        self._relay_text(pid, "stderr", text)

    def _read(self, pid: int, pipe: OutputPipe, n_reads: int = 1) -> None:
        for _ in range(n_reads):
            text = pipe.read()
            if text is None:
                self._loop.forget(pipe.fd)
                return
            self._log_text(pid, text)
            self._relay_text(pid, pipe.stream, pipe.admit(text, time.monotonic()))
            if pipe.is_empty:
                return

    def _relay_text(self, pid: int, stream: TextStream, text: str) -> None:
        if not text or not self._config.log_to_driver:
            return
        task, origin = self._work_of(pid)
        for piece in pieces(text):
            self.relay(WorkerOutput(task, origin, stream, pid, piece))

    def _log_text(self, pid: int, text: str) -> None:
        """All of it goes into the file of what is written to descriptors."""
        worker = self._workers[pid]
        if text and worker.log is not None and not self._log(worker.log, self._work_of(pid)[0], text):
            worker.log.close()
            worker.log = None

    def _work_of(self, pid: int) -> tuple[int, int]:
        """The task that a worker has begun last, and the origin of that."""
        entry = next((e for e in self._client.clients() if e["pid"] == pid), None)
        return (entry["last_task"], entry["origin"]) if entry is not None else (0, 0)

    # ---- notes about what was dropped
    @property
    def deadline(self) -> float | None:
        return earliest(*(pipe.note_at for worker in self._workers.values() for pipe in worker.pipes))

    def pass_deadline(self, now: float) -> None:
        for pid, worker in self._workers.items():
            for pipe in worker.pipes:
                if pipe.note_at is not None and now >= pipe.note_at:
                    self._relay_text(pid, pipe.stream, pipe.note())
