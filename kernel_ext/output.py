"""What tasks print and display, under the cell that submitted them: live, and also when that cell has long finished.

A worker's output carries the number of the cell run it descends from (`origin`). The run's parent message, which the
cell registry keeps, is all that a front end needs to put a message into that cell's output; it does not matter which
cell runs now, or which thread sends. So nothing is printed here: messages go straight to iopub.
"""
from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..driver_output import Pump, TaskNames, TaskText, is_output, tasks_of
from ..scheduler.budget import Budget
from ..scheduler.messages import Message, NodeEvent, WorkerOutput
from .tails import Tails, tails_of

if TYPE_CHECKING:
    from ..objstore._core import Client
    from ..session import Session
    from .cell_registry import CellRegistry

# A grey of the 256-colour table that is readable on white and on black; "faint" is not rendered by JupyterLab.
GREY = ("\x1b[38;5;244m", "\x1b[0m")
# The server drops all output of a kernel that sends more than 1 MB of text a second, averaged over 3 s.
TEXT_CHARS_PER_SECOND = 400_000
TEXT_CHARS_BURST = 1_000_000
N_CELLS_KEPT = 256  # cells whose unfinished lines are remembered


class CellOutput:
    """Routes the output of one session's tasks to cells.

    Parameters
    ----------
    kernel : ipykernel.kernelbase.Kernel
    registry : CellRegistry
    on_text : callable
        ``on_text(client, tasks)``: these tasks have printed something.
    """

    def __init__(self, kernel: Any, registry: CellRegistry,
                 on_text: Callable[[Client, set[int]], None] = lambda client, tasks: None) -> None:
        self._kernel = kernel
        self._registry = registry
        self._texts: OrderedDict[int, TaskText] = OrderedDict()
        self._budget = Budget(TEXT_CHARS_PER_SECOND, TEXT_CHARS_BURST, time.monotonic())
        self._n_dropped: dict[int, int] = {}
        self._remedy = ""
        self._pump = Pump(self.write)
        self._names: TaskNames | None = None
        self._tails = Tails()
        self._on_text: Callable[[set[int]], None] = lambda tasks: None
        self._tell = on_text
        self._forget: Callable[[], None] = lambda: None
        self._hear_out: Callable[[int], None] = lambda task: None

    def start(self, session: Session) -> None:
        """Show the output of this session until it ends, or until `stop`."""
        client = session.client
        self._names, self._tails = TaskNames(client), tails_of(client)
        self._on_text = lambda tasks: self._tell(client, tasks)
        self._hear_out = session.hear_out
        if session.config.log_dir:
            self._remedy = f"; the files in {session.config.log_dir} have all of it"
        self._forget = session.node.link.add_listener(
            lambda message: self._pump.add(message) if is_output(message) else None)

    def catch_up(self, task: int) -> None:
        """Send what a task has printed that has failed; it may be on its way still, and its error is to stand below."""
        self._hear_out(task)
        self._pump.flush()

    def stop(self) -> None:
        """Send what is held back, and nothing afterwards."""
        self._forget()
        self._pump.finish()

    def write(self, pieces: list[Message], quiet: bool) -> bool:
        """Send pieces of output in order; whether something is held back (see `Pump`)."""
        names = self._names.of(tasks_of(pieces)) if self._names else {}
        for piece in pieces:
            if isinstance(piece, NodeEvent):
                self._texts_of(0).add_plain("stderr", f"cellmesh: {piece.text}\n")
            elif isinstance(piece, WorkerOutput):
                self._write_one(piece, names.get(piece.task, ""))
        if printed := {piece.task for piece in pieces if isinstance(piece, WorkerOutput) and piece.text}:
            self._on_text(printed)
        holds = False
        for origin, texts in list(self._texts.items()):
            self._send_text(origin, texts, quiet)
            holds |= texts.holds
        return holds or bool(self._n_dropped)

    def _write_one(self, piece: WorkerOutput, name: str) -> None:
        texts = self._texts_of(piece.origin)
        if piece.stream in ("stdout", "stderr"):
            self._tails.add(piece.task, piece.text)
            if name and name == self._registry.body(piece.origin):  # it is the cell's own output
                texts.add_plain(piece.stream, piece.text)
            else:
                texts.add(piece.stream, piece.text, task=piece.task, pid=piece.pid, name=piece.name or name)
            return
        self._send_text(piece.origin, texts, quiet=False)
        content = json.loads(piece.bundle)
        if piece.stream == "clear_output":
            self._texts[piece.origin] = TaskText(GREY)
            self._send("clear_output", {"wait": bool(content.get("wait"))}, piece.origin)
        else:
            kind = "update_display_data" if piece.stream == "update_display" else "display_data"
            parts = {name: content.get(name) or {} for name in ("data", "metadata", "transient")}
            self._send(kind, parts, piece.origin)

    def _texts_of(self, origin: int) -> TaskText:
        texts = self._texts.get(origin)
        if texts is None:
            texts = self._texts[origin] = TaskText(GREY)
            while len(self._texts) > N_CELLS_KEPT:
                self._send_text(*self._texts.popitem(last=False), quiet=True)
        return texts

    def _send_text(self, origin: int, texts: TaskText, quiet: bool) -> None:
        for stream, text in texts.take(quiet):
            if self._budget.take(len(text), time.monotonic()):
                self._tell_dropped(origin)
                self._send("stream", {"name": stream, "text": text}, origin)
            else:
                self._n_dropped[origin] = self._n_dropped.get(origin, 0) + len(text)
        if quiet:
            self._tell_dropped(origin)

    def _tell_dropped(self, origin: int) -> None:
        count = self._n_dropped.pop(origin, 0)
        if count:
            note = (f"\n[cellmesh: {count:,} characters of output are not shown, as tasks print more than "
                    f"{TEXT_CHARS_PER_SECOND // 1000} kB/s{self._remedy}]\n")
            self._send("stream", {"name": "stderr", "text": note}, origin)

    def _send(self, kind: str, content: dict[str, Any], origin: int) -> None:
        # What no cell has submitted, or a forgotten one, goes to the cell in front.
        parent = self._registry.cell(origin).parent or self._registry.current.parent
        topic = f"stream.{content['name']}" if kind == "stream" else kind
        self._kernel.session.send(self._kernel.iopub_socket, kind, content, parent=parent, ident=topic.encode())
