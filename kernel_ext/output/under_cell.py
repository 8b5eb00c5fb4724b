"""What tasks print and display goes under the cell that submitted them, live, also when that cell has ended long ago.

A worker's output carries the number of the cell run that it descends from (`origin`). The cell registry keeps the run's
parent message, which is all that a front end needs to put a message into that cell's output. It does not matter which
cell runs now, or which thread sends. So nothing is printed here: messages go straight to iopub.
"""

from __future__ import annotations

import json
import sys
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ...output import log_records, shown_warnings
from ...output.driver import Piece, Pump, TaskNames, TaskText, is_output, tasks_of
from ...output.whose import OwnOutput
from ...scheduler.ipc.messages import PROGRESS_MIME, NodeEvent, WorkerOutput
from ...scheduler.sync.token_bucket import TokenBucket
from .parent import under
from .tails import Tails, tails_of

if TYPE_CHECKING:
    from ...objstore._core import Client
    from ...session.session import Session
    from ..cells.registry import CellRegistry
    from .task_bars import TaskBars

# A grey of the 256-colour table that is readable on white and on black; "faint" is not rendered by JupyterLab.
GREY = ("\x1b[38;5;244m", "\x1b[0m")
# The server drops all output of a kernel that sends more than 1 MB of text a second, averaged over 3 s.
TEXT_CHARS_PER_SECOND = 400_000
TEXT_CHARS_BURST = 1_000_000
N_CELLS_KEPT = 256  # cells whose unfinished lines are remembered
N_SHOWN_ELSEWHERE = 16  # cells whose late output goes to what has shown the rest


class Takes(Protocol):
    """Shows the output of some tasks in its own way."""

    def takes(self, piece: WorkerOutput) -> bool:
        """Whether it is of these tasks, and shown."""
        ...


T = TypeVar("T", bound=Takes)


class CellOutput:
    """Routes the output of one session's tasks to cells.

    Parameters
    ----------
    kernel : ipykernel.kernelbase.Kernel
    registry : CellRegistry
    on_text : callable
        ``on_text(client, tasks)``: these tasks have printed something.
    update : callable, optional
        ``update(content, parent)``: updates a display of the cell with that parent, which may have ended.
    """

    def __init__(
        self,
        kernel: Any,
        registry: CellRegistry,
        on_text: Callable[[Client, set[int]], None] = lambda client, tasks: None,
        update: Callable[[dict[str, Any], dict[str, Any]], None] | None = None,
    ) -> None:
        self._kernel = kernel
        self._registry = registry
        self._texts: OrderedDict[int, TaskText] = OrderedDict()
        self._elsewhere: OrderedDict[int, Takes] = OrderedDict()
        self._bucket = TokenBucket(TEXT_CHARS_PER_SECOND, TEXT_CHARS_BURST, time.monotonic())
        self._n_dropped: dict[int, int] = {}
        self._remedy = ""
        self._pump = Pump(self.write)
        self._names: TaskNames | None = None
        self._own: OwnOutput | None = None
        self._tails = Tails()
        self._on_text: Callable[[set[int]], None] = lambda tasks: None
        self._tell, self._update = on_text, update
        self._bars: TaskBars | None = None
        self._holds_written = False
        self._forget: Callable[[], None] = lambda: None
        self._hear_out: Callable[[int], None] = lambda task: None
        self._hear_printed: Callable[[], None] = lambda: None

    def start(self, session: Session) -> None:
        """Show the output of this session until it ends, or until `stop`."""
        client = session.client
        self._names, self._own, self._tails = TaskNames(client), OwnOutput(client), tails_of(client)
        self._on_text = lambda tasks: self._tell(client, tasks)
        self._hear_out, self._hear_printed = session.hear_out, session.hear_printed
        from .task_bars import TaskBars

        self._bars = TaskBars(session, self._display)
        if session.config.log_dir:
            self._remedy = f"; the files in {session.config.log_dir} have all of it"
        self._forget = session.node.link.add_listener(
            lambda message: self._pump.add(message) if is_output(message) else None
        )
        session.ends_showing.append(self._finish)

    def catch_up(self, task: int) -> None:
        """Send what a failed task has printed. It may still be on its way, and the error is to stand below it."""
        self._hear_out(task)
        self._pump.flush()

    def shows(self, other: T, origin: int) -> T:
        """Have another show what it takes of the output of this cell."""
        self._elsewhere[origin] = other
        while len(self._elsewhere) > N_SHOWN_ELSEWHERE:
            self._elsewhere.popitem(last=False)
        return other

    def stop(self) -> None:
        """Send what is held back, and nothing afterwards."""
        self._forget()
        self._finish()

    def _finish(self) -> None:
        """Send what is held back; what still comes, as workers leave, is sent at once."""
        self._hear_printed = lambda: None
        self._pump.finish()

    def write(self, pieces: list[Piece], quiet: bool) -> bool:
        """Send pieces of output in order; whether something is held back (see `Pump`)."""
        pieces = self._own.of(pieces) if self._own else pieces
        names = self._names.of(tasks_of(pieces)) if self._names else {}
        for piece in pieces:
            if isinstance(piece, NodeEvent):
                self._texts_of(piece.origin).add_plain("stderr", f"cellmesh: {piece.text}\n")
            elif isinstance(piece, WorkerOutput):
                self._write_one(piece, names.get(piece.task, ""))
        if printed := {piece.task for piece in pieces if isinstance(piece, WorkerOutput) and piece.text}:
            self._on_text(printed)
        holds = False
        for origin, texts in list(self._texts.items()):
            self._send_text(origin, texts, quiet)
            holds |= texts.holds
        self._flush_written()
        return holds or bool(self._n_dropped)

    def _write_one(self, piece: WorkerOutput, name: str) -> None:
        texts = self._texts_of(piece.origin)
        if piece.stream in ("stdout", "stderr", "log", "warning"):
            if piece.stream == "warning" and shown_warnings.is_ignored(piece):
                return
            self._tails.add(piece.task, piece.text)
            if piece.stream == "log" and self._is_logged(piece, texts):
                return
            if self._is_shown_elsewhere(piece):
                return
            stream = "stdout" if piece.stream == "stdout" else "stderr"
            if name and name == self._registry.body(piece.origin):  # it is the cell's own output
                texts.add_plain(stream, piece.text)
            else:
                texts.add(stream, piece.text, task=piece.task, pid=piece.pid, name=piece.name or name)
            return
        if self._is_shown_elsewhere(piece):
            return
        self._send_text(piece.origin, texts, quiet=False)
        content = json.loads(piece.bundle)
        if piece.stream == "clear_output":
            self._texts[piece.origin] = TaskText(GREY)
            self._send("clear_output", {"wait": bool(content.get("wait"))}, piece.origin)
        else:
            kind = "update_display_data" if piece.stream == "update_display" else "display_data"
            parts = {name: content.get(name) or {} for name in ("data", "metadata", "transient")}
            if PROGRESS_MIME in parts["data"] and self._bars is not None:
                self._bars.show(kind, parts, piece.task, piece.origin)
            else:
                self._display(kind, parts, piece.origin)

    def _is_shown_elsewhere(self, piece: WorkerOutput) -> bool:
        other = self._elsewhere.get(piece.origin)
        return other is not None and other.takes(piece)

    def _is_logged(self, piece: WorkerOutput, texts: TaskText) -> bool:
        """Have the notebook's handlers handle a record, if there are any for it; False: it is shown as text."""
        record = log_records.record_of(piece)
        if not log_records.has_handlers(record):
            return not log_records.is_for_stderr(record)
        self._send_text(piece.origin, texts, quiet=False)
        if self._admits(piece.origin, len(piece.text)):
            with under(self._parent_of(piece.origin)):
                log_records.hand_over(record)
            self._holds_written = True
        return True

    def _display(self, kind: str, parts: dict[str, Any], origin: int) -> None:
        if kind == "update_display_data" and self._update is not None:
            self._update(parts, self._parent_of(origin))
        else:
            self._send(kind, parts, origin)

    def settle(self, is_interactive: bool) -> None:
        """Show what has come before a cell ends: the notebook is saved as it is then.

        A program that runs a notebook sees nothing of what comes later.
        """
        if not is_interactive:
            self._hear_printed()
            self._pump.flush(quiet=True)
        if self._bars is not None:
            self._bars.settle(self._pump.flush)

    def _texts_of(self, origin: int) -> TaskText:
        texts = self._texts.get(origin)
        if texts is None:
            texts = self._texts[origin] = TaskText(GREY)
            while len(self._texts) > N_CELLS_KEPT:
                self._send_text(*self._texts.popitem(last=False), quiet=True)
        return texts

    def _send_text(self, origin: int, texts: TaskText, quiet: bool) -> None:
        for stream, text in texts.take(quiet):
            if self._admits(origin, len(text)):
                self._send("stream", {"name": stream, "text": text}, origin)
        if quiet:
            self._tell_dropped(origin)

    def _admits(self, origin: int, n_chars: int) -> bool:
        """Whether so much text may be shown now; if not it is counted, and told later."""
        if self._bucket.take(n_chars, time.monotonic()):
            self._tell_dropped(origin)
            return True
        self._n_dropped[origin] = self._n_dropped.get(origin, 0) + n_chars
        return False

    def _tell_dropped(self, origin: int) -> None:
        count = self._n_dropped.pop(origin, 0)
        if count:
            note = (
                f"\n[cellmesh: {count:,} characters of output are not shown, as tasks print more than "
                f"{TEXT_CHARS_PER_SECOND // 1000} kB/s{self._remedy}]\n"
            )
            self._send("stream", {"name": "stderr", "text": note}, origin)

    def _send(self, kind: str, content: dict[str, Any], origin: int) -> None:
        self._flush_written()  # it came before
        # Output of a task that no cell has submitted, or a forgotten one, goes to the cell in front.
        topic = f"stream.{content['name']}" if kind == "stream" else kind
        self._kernel.session.send(
            self._kernel.iopub_socket, kind, content, parent=self._parent_of(origin), ident=topic.encode()
        )

    def _flush_written(self) -> None:
        """Send what handlers of log records have written; ipykernel would do it a moment later."""
        if self._holds_written:
            self._holds_written = False
            sys.stdout.flush()
            sys.stderr.flush()

    def _parent_of(self, origin: int) -> dict[str, Any]:
        return self._registry.cell(origin).parent or self._registry.current.parent
