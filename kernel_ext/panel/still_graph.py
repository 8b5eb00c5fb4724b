"""The graph in a cell as a picture and as text: for terminals, and for notebooks that are read later."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..background import Delayed, in_background
from ..graph.summary import counts_of
from ..graph.view import GraphView
from ..panel_messages import NOTHING, Arrays, Counts, GraphMessage, Snapshot
from .graph_text import graph_text
from .picture import graph_svg

if TYPE_CHECKING:
    from ..cards.live_display import Bundle
    from ..host import Host

REDRAW_INTERVAL_S = 5.0  # at most; each time the view of a widget beside it is made again
# A cell that is run again makes a new picture, and nothing says that the old one is gone: only the newest are drawn
# again.
N_REDRAWN_MAX = 4
_redrawn: list[Callable[[], None]] = []


class StillGraph:
    """The graph as it was when this was made, for places where nothing can be updated."""

    def __init__(self, host: Host) -> None:
        self._bundle, _ = still(host)

    def __repr__(self) -> str:
        return self._bundle["text/plain"]

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Bundle:
        return self._bundle


class LivePicture:
    """The picture under a cell, drawn again when the tasks are done.

    Parameters
    ----------
    host : Host
    beside : callable
        Gives further forms of the same display.
    """

    def __init__(self, host: Host, beside: Callable[[], dict[str, Any]] = dict) -> None:
        self._host, self._beside = host, beside
        self._display_id = f"cellmesh-{uuid.uuid4().hex}"
        self._parent: dict[str, Any] = {}
        self._n_ended: int | None = None  # tasks that had ended in the picture on view; None: not on view
        self._drawn_at = 0.0
        self._timer: Delayed | None = None
        self._drawing = threading.Lock()
        _redrawn.append(host.on_change(self._redraw_when_done))
        if len(_redrawn) > N_REDRAWN_MAX:
            _redrawn.pop(0)()

    def show(self) -> None:
        """Display it under the cell that runs now."""
        self._parent = self._host.kernel.get_parent("shell")
        self._publish(update=False)

    _ipython_display_ = show

    def _publish(self, update: bool) -> None:
        bundle, self._n_ended = still(self._host)
        self._drawn_at = time.monotonic()
        self._host.iopub.publish({**self._beside(), **bundle}, self._display_id, update, self._parent)

    def _redraw_when_done(self) -> None:
        """Draw the picture again when all tasks have ended, some of which had not when it was drawn."""
        recorder = self._host.recorder
        if self._n_ended is None or recorder is None:
            return
        with recorder.lock:
            counts = counts_of(recorder.graph)
        if counts.waiting or counts.queued or counts.running or _ended(counts) == self._n_ended:
            return
        with self._drawing:
            if self._timer is None:
                pause = max(0.0, self._drawn_at + REDRAW_INTERVAL_S - time.monotonic())
                self._timer = in_background(self._redraw, pause)

    def _redraw(self) -> None:
        with self._drawing:
            self._timer = None
        self._publish(update=True)


def still(host: Host) -> tuple[Bundle, int]:
    """The graph now as picture and text, and how many of its tasks had ended."""
    header: GraphMessage = Snapshot()
    arrays: Arrays = NOTHING
    if host.recorder is not None:
        now_s = host.recorder.now_s()
        message = host.recorder.look(lambda graph: GraphView(graph).next(now_s))
        assert message is not None  # the first one is a snapshot, which there always is
        header, arrays = message
    return {"text/plain": graph_text(header, arrays), "text/html": graph_svg(header, arrays)}, _ended(header.counts)


def _ended(counts: Counts) -> int:
    return counts.finished + counts.failed + counts.cancelled
