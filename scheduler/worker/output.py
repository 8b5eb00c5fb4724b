"""Output of tasks: from `sys.stdout` and `sys.stderr` to the drivers, with the task and the cell that it came from.

The streams here replace Python's own. Text is sent at a newline, or 50 ms after the last piece of an unfinished line.
When a task prints line after line, lines that follow within 20 ms travel together. Each piece is tagged when it is
written, so nothing waits for the end of a task. Nothing is held back beyond it either: what a task has printed is sent
before its result is there, so a driver that has the result finds the text on its way. And what waits lies in memory
that outlives this process (`ipc.held_text`): of a worker that crashes or is killed the local scheduler sends it.

What C code and child processes write to the descriptors 1 and 2 does not come this way. The local scheduler reads those
pipes itself, so that the last words of a crashed worker are not lost with it.

A worker that prints faster than `TEXT_RATE` is cut off here, at the source, and the text says how much was dropped. If
the session keeps files of output, everything is in them.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Literal, TextIO

from msgspec import Struct, field

from ..ipc import held_text
from ..ipc.fitting import pieces
from ..ipc.messages import (
    FOREIGN_ORIGIN,
    MAX_MESSAGE_BYTES,
    MAX_NAME_CHARS,
    MAX_TEXT_CHARS,
    Message,
    Stream,
    TextStream,
    WorkerOutput,
)
from ..ipc.transport import Channel, ConnectionLost
from ..sync.token_bucket import Throttle, TokenBucket
from .integrations import ipython_display, log_records, rich_live, shown_warnings, tqdm_bars
from .log_file import LogFile

# Text per worker: enough to print a large table, far below what a notebook can take in a second.
TEXT_RATE, TEXT_BURST = 256 << 10, 1 << 20
# Pictures are larger; ten plots at once pass.
DISPLAY_RATE, DISPLAY_BURST = 2 << 20, 16 << 20
NOTES_PER_S, NOTES_BURST = 4, 10  # told at the end of a task
JOIN_S = 0.02  # lines that follow each other within this time are sent together
PARTIAL_S = 0.05  # an unfinished line is sent when nothing has been added for this long
NOTE_S = 1.0  # the note about what was dropped comes at least this often


class Tag(Struct, frozen=True):
    """The origin of text: the task's number and its cell's; zeros outside any task."""

    task: int = 0
    origin: int = 0
    name: str = ""  # of the task's function, where another machine shows what it prints


class Pending(Struct):
    """Text of one task on one stream that waits to be sent."""

    tag: Tag
    pieces: list[str] = field(default_factory=list[str])
    n_chars: int = 0


def integrate(tell: Callable[..., None], show: Callable[..., Any]) -> None:
    """Have what this process logs, warns of and displays go there. Once in a process; `Output.tell`, `Output.show`."""
    log_records.install(partial(tell, "log"))
    shown_warnings.install(partial(tell, "warning"))
    ipython_display.install(show)
    tqdm_bars.install(show)
    rich_live.install(show)


class Output:
    """Sends what this worker's tasks print and display.

    Parameters
    ----------
    client : Client
        Says which task the calling thread executes.
    channel : Channel
        To the local scheduler.
    held : int
        The descriptor of the memory for text that waits, see `held_text.create`; closed here.
    log_dir : str
        A folder for a file with all the text; "" for none.
    """

    def __init__(self, client: Any, channel: Channel, held: int, log_dir: str = "") -> None:
        self._client, self._channel = client, channel
        self._held = held_text.areas(held)
        os.close(held)
        self._n_posted = 0
        self._pid = os.getpid()
        self.name: str = ""  # of the actor that prints, if it has one
        self._lock = threading.RLock()  # a signal handler or a finalizer may print in the middle of a print
        self._pending: dict[TextStream, Pending] = {}  # by stream: not sent yet
        now = time.monotonic()
        self._log = LogFile(log_dir, self._pid) if log_dir else None
        kept_in = f"; {self._log.path} has all of it" if self._log else ""
        self._throttle: dict[TextStream, Throttle] = {
            "stdout": Throttle(TEXT_RATE, TEXT_BURST, now, kept_in),
            "stderr": Throttle(TEXT_RATE, TEXT_BURST, now, kept_in),
        }
        self._displays = TokenBucket(DISPLAY_RATE, DISPLAY_BURST, now)
        self._notes = TokenBucket(NOTES_PER_S, NOTES_BURST, now)
        self._sent_at = 0.0
        self.due: float | None = None  # when the flusher acts next
        self._due_changed = threading.Condition(self._lock)
        self._flusher_runs = False
        self._last_tag = Tag()
        self._files: dict[TextStream, TextIO] = {}  # where a forked child writes

    def install(self) -> None:
        """Replace sys.stdout and sys.stderr, take records and warnings, and catch IPython's displays, tqdm's bars and
        rich's should they be imported.
        """
        sys.stdout, sys.stderr = self.streams()
        integrate(self.tell, self.show)

    def streams(self) -> tuple[TaskStream, TaskStream]:
        """What is to stand in the places of sys.stdout and sys.stderr."""
        os.register_at_fork(after_in_child=self._use_descriptors)
        self._client.set_flush(self.task_ends)
        return TaskStream(self, "stdout", 1), TaskStream(self, "stderr", 2)

    # ---- text
    def write(self, stream: TextStream, text: str) -> None:
        """Take a piece of text for "stdout" or "stderr"."""
        if self._files:
            self._files[stream].write(text)
            return
        tag = self._tag()
        with self._lock:
            pending = self._pending.get(stream)
            if pending is not None and pending.tag is not tag and pending.tag != tag:
                self._send(stream)
                pending = None
            if pending is None:
                pending = self._pending[stream] = Pending(tag)
            pending.pieces.append(text)
            pending.n_chars += len(text)
            self._client.holds_output = True
            now = time.monotonic()
            if "\n" not in text:
                due = now + PARTIAL_S
            elif now - self._sent_at < JOIN_S:
                due = self._sent_at + JOIN_S
            else:
                due = now
            if due == now or pending.n_chars >= MAX_TEXT_CHARS:
                self._send(stream)
            else:
                self._held[stream].add(text, tag.task, tag.origin, self.name or tag.name)
                self._flush_at(due)

    def flush(self) -> None:
        """Send what has been written so far."""
        with self._lock:
            for stream in list(self._pending):
                self._send(stream)

    def task_ends(self) -> None:
        """Send what is held back, and tell what was dropped, before the task's result is there."""
        with self._lock:
            self.flush()
            if self._has_dropped() and self._notes.take(1, time.monotonic()):
                self._tell_dropped()

    def flush_soon(self) -> None:
        """The user's `flush`. A loop that flushes each of its lines must not send a message for each."""
        if self._files:
            for file in self._files.values():
                file.flush()
            return
        with self._lock:
            if time.monotonic() - self._sent_at < JOIN_S:
                self._flush_at(self._sent_at + JOIN_S)
            else:
                self.flush()

    def _send(self, stream: TextStream) -> None:
        pending = self._pending.pop(stream)
        throttle = self._throttle[stream]
        now = time.monotonic()
        self._sent_at = now
        text = "".join(pending.pieces)
        if self._log is not None and (problem := self._log.write(pending.tag.task, text)):
            self._log = None
            self._send_text("stderr", pending.tag, problem)
        text = throttle.admit(text, now)
        if throttle.n_bytes:
            self._flush_at(now + NOTE_S)
        held = self._held[stream]
        held.leaves_in(self._n_posted + 1)
        self._send_text(stream, pending.tag, text)
        held.clear()
        self._client.holds_output = bool(self._pending) or self._has_dropped()

    def _send_text(self, stream: TextStream, tag: Tag, text: str) -> None:
        for piece in pieces(text):
            self._post(WorkerOutput(tag.task, tag.origin, stream, self._pid, piece, name=self.name or tag.name))

    def _post(self, message: WorkerOutput) -> None:
        self._n_posted += 1
        try:
            self._channel.send(message)
        except ConnectionLost:
            # The local scheduler has gone, this process is about to be killed too; the user's print is not to blame.
            self._pending.clear()

    def send(self, message: Message) -> None:
        """Send another message to the local scheduler, behind what was printed before."""
        self.flush()
        self._channel.send(message)

    # ---- log records and warnings
    def tell(self, stream: Literal["log", "warning"], text: str, attributes: dict[str, Any]) -> None:
        """Send something that drivers decide whether to show. It counts as its text does on stderr."""
        if self._files:
            self.write("stderr", text)
            return
        import json  # late, as in `show`

        tag = self._tag()
        with self._lock:
            self.flush()  # what was printed before comes before
            if self._log is not None and (problem := self._log.write(tag.task, text)):
                self._log = None
                self._send_text("stderr", tag, problem)
            throttle, now = self._throttle["stderr"], time.monotonic()
            shown = throttle.admit(text, now)
            if not shown:
                self._client.holds_output = True
                self._flush_at(now + NOTE_S)
                return
            self._send_text("stderr", tag, shown.removesuffix(text))  # what was dropped before
            name = self.name or tag.name
            bundle = json.dumps(attributes, ensure_ascii=False)
            self._post(WorkerOutput(tag.task, tag.origin, stream, self._pid, text, bundle, name))

    # ---- displays
    def show(self, stream: Stream, data: dict[str, Any], metadata: dict[str, Any], transient: dict[str, Any]) -> None:
        """Send a rich display. `stream`: "display", "update_display" or "clear_output"."""
        if self._files:
            self.write("stdout", f"{data.get('text/plain', '')}\n")
            return
        import json  # here and in `ipython_display`: what most workers never need is imported late

        bundle = json.dumps(
            {"data": data, "metadata": metadata, "transient": transient}, default=repr, ensure_ascii=False
        )
        n_bytes = len(bundle) if bundle.isascii() else len(bundle.encode("utf-8", "replace"))
        tag = self._tag()
        with self._lock:
            self.flush()  # what was printed before comes before
            if n_bytes > MAX_MESSAGE_BYTES // 2:
                self._send_text(
                    "stderr",
                    tag,
                    f"[cellmesh does not show a display of {n_bytes >> 20} MB: at most "
                    f"{MAX_MESSAGE_BYTES >> 21} MB fit; return the object instead]\n",
                )
            elif self._displays.take(n_bytes, time.monotonic()):
                self._post(
                    WorkerOutput(tag.task, tag.origin, stream, self._pid, bundle=bundle, name=self.name or tag.name)
                )
            else:
                self._send_text(
                    "stderr",
                    tag,
                    f"[cellmesh dropped a display of {n_bytes:,} bytes: this worker "
                    f"displays more than {DISPLAY_RATE >> 20} MB/s]\n",
                )

    # ---- a forked child
    def _use_descriptors(self) -> None:
        """A forked child has no task, and the link is its parent's. Its descriptors 1 and 2 lead to the local
        scheduler."""
        self._channel.close()
        self._lock = threading.RLock()
        self._pending.clear()
        descriptors: dict[TextStream, int] = {"stdout": 1, "stderr": 2}
        for stream, fd in descriptors.items():
            self._files[stream] = open(fd, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)
        sys.stdout, sys.stderr = self._files["stdout"], self._files["stderr"]

    # ---- the task that prints
    def _tag(self) -> Tag:
        task, origin = self._client.current_task, 0
        if not task and threading.current_thread() is not threading.main_thread():
            # A thread that a task has started: what it prints belongs to what this process executes.
            mine = self._own_row()
            task, origin = mine["last_task"], mine["origin"]
        if self._last_tag.task != task:
            origin = origin or self._client.origin
            self._last_tag = Tag(task, origin, self._function_name() if origin >= FOREIGN_ORIGIN else "")
        return self._last_tag

    def _function_name(self) -> str:
        """The name of the function that this process runs; "" if unknown."""
        function = self._own_row()["function"]
        value: tuple[Any, ...] | None = self._client.peek(*function) if function[0] >= 0 else None
        return str(value[1])[:MAX_NAME_CHARS] if isinstance(value, tuple) and len(value) > 1 else ""

    def _own_row(self) -> dict[str, Any]:
        """This process's entry among the clients of the segment."""
        return next(entry for entry in self._client.clients() if entry["index"] == self._client.index)

    # ---- the flusher: a thread that exists once something had to wait, and sleeps unless something waits
    def _flush_at(self, due: float) -> None:
        if self.due is None or due < self.due:
            self.due = due
            self._due_changed.notify()
        if not self._flusher_runs:
            self._flusher_runs = True
            self._start_flusher()

    def _start_flusher(self) -> None:
        threading.Thread(target=self._run_flusher, name="cellmesh-output", daemon=True).start()

    def _run_flusher(self) -> None:
        with self._lock:
            while True:
                if self.due is None:
                    self._due_changed.wait()
                elif (left := self.due - time.monotonic()) > 0:
                    self._due_changed.wait(left)
                else:
                    self.due = None
                    self.flush()
                    self._tell_dropped()

    def _has_dropped(self) -> bool:
        return any(throttle.n_bytes for throttle in self._throttle.values())

    def _tell_dropped(self) -> None:
        for stream, throttle in self._throttle.items():
            self._send_text(stream, self._last_tag, throttle.note())


class TaskStream(io.TextIOBase):
    """`sys.stdout` or `sys.stderr` of a worker."""

    encoding = "utf-8"
    errors = "replace"
    newlines = None
    line_buffering = True

    def __init__(self, output: Output, name: TextStream, fd: int) -> None:
        self._output, self._fd = output, fd
        self.name: TextStream = name
        self.buffer = ByteStream(self, fd)

    def writable(self) -> bool:
        return True

    def write(self, text: Any) -> int:  # users may pass anything
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if text:
            self._output.write(self.name, text)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        self.write("".join(lines))

    def flush(self) -> None:
        self._output.flush_soon()

    def fileno(self) -> int:
        return self._fd  # for child processes: the local scheduler reads it

    def isatty(self) -> bool:
        return False

    def reconfigure(self, **options: object) -> None:
        """Accepted and without effect: there is no encoding between a task and its notebook to choose."""


class ByteStream(io.RawIOBase):
    """`sys.stdout.buffer`: bytes, decoded as UTF-8."""

    def __init__(self, text: TaskStream, fd: int) -> None:
        self._text, self._fd = text, fd
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        data = bytes(data)
        self._text.write(self._decoder.decode(data))
        return len(data)

    def flush(self) -> None:
        self._text.flush()

    def fileno(self) -> int:
        return self._fd
