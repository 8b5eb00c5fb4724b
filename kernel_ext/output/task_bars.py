"""The progress bars of tasks (of tqdm, of rich) in a notebook: in the end each says what became of its task.

A bar is a display that its worker updates. The worker cannot say that its task was cancelled, or that it died itself;
this module says it. A bar's last update and the task's result travel separately, so a cell that waits for the result
may end before the update comes. Notebook runners (nbconvert, papermill) save what a bar was at the end of a cell, so
the end of a cell waits a moment for it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...exceptions import SessionError
from ...output.progress_text import marked
from ...scheduler.ipc.messages import PROGRESS_MIME
from ...scheduler.sync.condition import Condition

if TYPE_CHECKING:
    from ...refs import ObjectRef
    from ...session.session import Session

SETTLE_S = 0.5  # that the end of a cell waits for the last word of bars whose tasks have ended
N_KEPT = 1000

Parts = dict[str, Any]  # of a display message: data, metadata, transient
Send = Callable[[str, Parts, int], None]


@dataclass
class _Bar:
    """A bar on view.

    `ref`: a result of its task, until that has ended. `fate`: what became of it then. `is_left`: it was never closed.
    """

    origin: int
    parts: Parts
    ref: ObjectRef | None = None
    fate: str = ""
    is_left: bool = False

    @property
    def content(self) -> dict[str, Any]:
        return self.parts["data"][PROGRESS_MIME]

    def shown(self) -> Parts:
        """As it is to be seen."""
        is_short = not self.content.get("complete", self.content["closed"]) and self.content["text"]
        if self.fate in ("failed", "cancelled") and is_short:
            return {**self.parts, "data": {**self.parts["data"], **marked(self.parts["data"], self.fate)}}
        return self.parts


class TaskBars:
    """The bars of one session's tasks.

    Parameters
    ----------
    session : Session
    send : callable
        ``send(kind, parts, origin)``: shows or updates a display, for the cell of that number; from any thread.
    """

    def __init__(self, session: Session, send: Send) -> None:
        self._session, self._send = session, send
        self._lock = threading.RLock()
        self._bars: OrderedDict[str, _Bar] = OrderedDict()  # by display
        self._changed = Condition()

    def show(self, kind: str, parts: Parts, task: int, origin: int) -> None:
        """A task shows or updates a bar."""
        identity = parts["transient"].get("display_id", "")
        with self._lock:
            bar = self._bars.get(identity)
            if bar is None:
                bar = self._bars[identity] = _Bar(origin, parts)
                for _ in range(len(self._bars) - N_KEPT):
                    self._bars.popitem(last=False)
                is_new = True
            else:
                bar.parts, is_new = parts, False
            self._send(kind, bar.shown(), origin)
        self._changed.notify_all()
        if is_new:
            self._follow(bar, task)

    def _follow(self, bar: _Bar, task: int) -> None:
        try:
            ref = bar.ref = self._session.client.ref_of(task) if task else None
            if ref is not None:  # a result was asked for
                self._session.notifier.add(ref, None, lambda: self._ended(bar))
        except SessionError:  # over
            bar.ref = None

    def _ended(self, bar: _Bar) -> None:
        """The task of a bar has ended."""
        ref, bar.ref = bar.ref, None
        try:
            fate = ref.client.info(ref)["state"] if ref is not None else ""
        except SessionError:
            fate = ""
        with self._lock:
            bar.fate = fate or "gone"
            if (shown := bar.shown()) is not bar.parts:
                self._send("update_display_data", shown, bar.origin)
        self._changed.notify_all()

    def settle(self, flush: Callable[[], None]) -> None:
        """Wait, for a moment at most, until bars whose tasks have ended have said how they end.

        `flush` shows what has come.
        """
        if not self._late():
            return

        def is_settled() -> bool:
            flush()
            return not self._late()

        self._changed.wait_for(is_settled, SETTLE_S)
        for bar in self._late():
            bar.is_left = True

    def _late(self) -> list[_Bar]:
        """Bars whose tasks have ended, while they have not."""
        with self._lock:
            bars = [*self._bars.values()]
        open_ones = [bar for bar in bars if not bar.content["closed"] and not bar.is_left]
        return [bar for bar in open_ones if bar.fate == "finished" or (not bar.fate and _is_ready(bar.ref))]


def _is_ready(ref: ObjectRef | None) -> bool:
    try:
        return ref is not None and ref.client.ready(ref)
    except SessionError:
        return False
