"""The strip under a cell of `%%ranks`: what its ranks print and display, folded, alive while they run."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...scheduler.ipc.messages import PROGRESS_MIME
from ..cards.live_display import Bundle, LiveDisplay, Publish
from .folding import Output, View, fold, strip_html, strip_text

if TYPE_CHECKING:
    from ...refs import ObjectRef
    from ...scheduler.ipc.messages import WorkerOutput


class Strip:
    """One cell's. It appears with the first thing that there is to show.

    Parameters
    ----------
    publish : callable
        See `LiveDisplay`.
    parent : dict
        The message of the cell.
    view : View
        What of the output is to be seen, and how.
    """

    def __init__(self, publish: Publish, parent: dict[str, Any], view: View) -> None:
        self._publish, self._parent, self._view = publish, parent, view
        self._name = f"cellmesh-{uuid.uuid4().hex}"
        self._lock = threading.RLock()  # never held while the display is updated, which has a lock of its own
        self._outputs: dict[int, Output] = {}
        self._ranks: dict[int, int] = {}  # by task
        self._notes: list[str] = []
        self._waits = ""
        self._display: LiveDisplay[Strip] | None = None
        if view.title:
            self._changed()

    @contextmanager
    def submitting(self) -> Iterator[None]:
        """While the calls are submitted that `belongs` will tell of: what they print has to wait for that."""
        with self._lock:
            yield

    def belongs(self, ref: ObjectRef, rank: int) -> None:
        """A call runs the cell in this rank."""
        self._ranks[ref.creator] = rank

    def takes(self, piece: WorkerOutput) -> bool:
        """Something was printed or displayed; whether the strip shows it."""
        with self._lock:
            rank = self._ranks.get(piece.task)
            if rank is None:
                return False
            if self._view.only and rank not in self._view.only:
                return True
            output = self._outputs.setdefault(rank, Output())
            if piece.stream in ("stdout", "stderr", "log", "warning"):
                output.add("stdout" if piece.stream == "stdout" else "stderr", piece.text)
            else:
                content = json.loads(piece.bundle)
                if piece.stream == "clear_output":
                    output.clear(bool(content.get("wait")))
                elif PROGRESS_MIME in content["data"]:
                    return False  # a bar is a display of its own
                else:
                    display_id = (content.get("transient") or {}).get("display_id", "")
                    output.show(content["data"], display_id, piece.stream == "update_display")
        self._changed()
        return True

    def note(self, text: str) -> None:
        """A line that stays."""
        with self._lock:
            self._notes.append(text)
        self._changed()

    def waits(self, text: str) -> None:
        """The line that says who waits for whom just now; "" for nobody."""
        with self._lock:
            if text == self._waits:
                return
            self._waits = text
        self._changed()

    def finish(self) -> None:
        """The ranks have ended: show all that has come."""
        self.waits("")
        if self._display is not None:
            self._display.update(at_once=True)

    def _changed(self) -> None:
        with self._lock:
            if self._display is None:
                self._display = LiveDisplay(self._publish, self._parent, self, Strip._look, lambda strip: None)
                return
        self._display.update()

    def _look(self) -> Bundle:
        with self._lock:
            folded = fold({rank: output.parts for rank, output in self._outputs.items()}, self._view.all)
            notes = [*self._notes, *filter(None, [self._waits])]
        return {
            "text/plain": strip_text(folded, notes, self._view),
            "text/html": strip_html(folded, notes, self._view, self._name),
        }
