"""The graph in a cell: the panel's view as a widget, and a picture where no widget can run.

The widget gets what the panel gets, as anywidget's custom messages, from the same recorder. Its requests come on its
own comm. A widget cannot be seen in an exported notebook, so its output holds a picture of the graph as well, which is
drawn again once the tasks are done.
"""
from __future__ import annotations

import functools
import gzip
import threading
import time
import uuid
from collections.abc import Callable
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import anywidget

from ..scheduler.threads import Later
from .graph_view import GraphView
from .host import current
from .panel_messages import NOTHING, Counts, Snapshot
from .picture import graph_svg

if TYPE_CHECKING:
    from .host import Host

REDRAW_INTERVAL_S = 5.0  # of the still picture, at most; each time the widget's view is made anew
# A cell that is run again makes a new widget, and nobody says that the old one is gone: only the newest are drawn
# again.
N_REDRAWN_MAX = 4
_redrawn: list[Callable[[], None]] = []

TEXT = "The task graph of this notebook."


def _built(name: str) -> bytes:
    """A part of the front end's code, empty if it has not been built (in a source tree)."""
    file = files(__package__) / "static" / name
    return file.read_bytes() if file.is_file() else b""


@functools.cache
def _code() -> bytes:
    """The view's code as the loader wants it. Not the widget's module itself, which is saved with every notebook."""
    return gzip.compress(_built("widget.js"), 9, mtime=0)


class GraphWidget(anywidget.AnyWidget):  # type: ignore[misc]
    """The live graph of the kernel's session.

    Parameters
    ----------
    host : Host
    """

    _esm = _built("loader.js").decode()

    def __init__(self, host: Host) -> None:
        super().__init__()
        self._host = host
        self._key = f"widget-{uuid.uuid4().hex}"
        self._views: set[str] = set()  # every view of the widget gets every message; they share one subscription
        self._display_id = f"cellmesh-{uuid.uuid4().hex}"
        self._parent: dict[str, Any] = {}
        self._n_ended: int | None = None  # tasks that had ended in the picture on view; None: not on view
        self._drawn_at = 0.0
        self._timer: Later | None = None
        self._drawing = threading.Lock()
        if hasattr(self.comm, "_reply_subshell_for"):
            # Messages are sent from other threads than the one that answers; ipykernel must not take that for a reason
            # to have the front end's next message answered by the main thread, where it waits for the running cell.
            self.comm._reply_subshell_for = lambda data, default: default
        self.on_msg(self._on_message)
        _redrawn.append(host.on_change(self._redraw_when_done))
        if len(_redrawn) > N_REDRAWN_MAX:
            _redrawn.pop(0)()

    def _on_message(self, widget: object, content: dict[str, Any], buffers: list[Any]) -> None:
        if content.get("op") == "code":
            self._deliver({"type": "code"}, [memoryview(_code())])
            return

        def reply(answer: dict[str, Any]) -> None:
            self._deliver({"type": "reply", "request": content.get("request"), "content": answer}, [])

        self._host.panels.answer(content, reply, self._open, self._close)

    def _open(self, view: str) -> None:
        self._views.add(view)
        self._host.panels.subscribe(self._key, self._deliver)

    def _close(self, view: str) -> None:
        self._views.discard(view)
        if not self._views:
            self._host.panels.unsubscribe(self._key)

    def _deliver(self, data: dict[str, Any], buffers: list[memoryview]) -> None:
        self._host.send_comm(self.comm.comm_id, {"method": "custom", "content": data}, buffers)

    def close(self) -> None:
        """Stop sending, and remove the widget."""
        self._host.panels.unsubscribe(self._key)
        super().close()

    # --- display

    def _ipython_display_(self, **kwargs: Any) -> None:
        self._parent = self._host.kernel.get_parent("shell")
        self._publish(update=False)

    def _publish(self, update: bool) -> None:
        data, _ = super()._repr_mimebundle_()
        svg, self._n_ended = picture(self._host)
        self._drawn_at = time.monotonic()
        self._host.publish({**data, "text/plain": TEXT, "text/html": svg}, self._display_id, update, self._parent)

    def _redraw_when_done(self) -> None:
        """Draw the picture again when all tasks have ended, some of which had not when it was drawn."""
        recorder = self._host.recorder
        if self._n_ended is None or recorder is None:
            return
        with recorder.lock:
            counts = recorder.graph.counts()
        if counts.waiting or counts.ready or counts.running or _ended(counts) == self._n_ended:
            return
        with self._drawing:
            if self._timer is None:
                pause = max(0.0, self._drawn_at + REDRAW_INTERVAL_S - time.monotonic())
                self._timer = Later(pause, self._redraw, "cellmesh-widget")
            self._timer.start()

    def _redraw(self) -> None:
        with self._drawing:
            self._timer = None
        self._publish(update=True)


class StillGraph:
    """The graph as it was when this was made; for wherever no widget can run."""

    def __init__(self, host: Host) -> None:
        self._svg, _ = picture(host)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": TEXT, "text/html": self._svg}


def picture(host: Host) -> tuple[str, int]:
    """The graph now as SVG, and how many of its tasks had ended."""
    if host.recorder is None:
        return graph_svg(Snapshot(), NOTHING), 0
    now_s = host.recorder.now_s()
    message = host.recorder.look(lambda graph: GraphView(graph).next(now_s))
    assert message is not None  # the first one is a snapshot, which there always is
    return graph_svg(*message), _ended(message[0].counts)


def _ended(counts: Counts) -> int:
    return counts.finished + counts.failed + counts.cancelled


def graph_view() -> GraphWidget | StillGraph:
    """The notebook's live graph, as a widget to display.

    Raises
    ------
    RuntimeError
        When the extension is not loaded.
    """
    host = current()
    if host is None:
        raise RuntimeError("the graph is recorded from %load_ext cellmesh on: run that first")
    return GraphWidget(host) if host.kernel is not None and GraphWidget._esm else StillGraph(host)
