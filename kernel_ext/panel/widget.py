"""The graph in a cell as a widget with the panel's view.

The widget gets what the panel gets, from the same recorder, as anywidget's custom messages. Its requests come on its
own comm. Its output holds a picture of the graph too (`still_graph`), for places where no widget can run.
"""

from __future__ import annotations

import functools
import gzip
import uuid
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import anywidget

from .still_graph import LivePicture

if TYPE_CHECKING:
    from ..host import Host


def _built(name: str) -> bytes:
    """A part of the front end's code, empty if it has not been built (in a source tree)."""
    file = files(__spec__.parent) / "static" / name
    return file.read_bytes() if file.is_file() else b""


@functools.cache
def _code() -> bytes:
    """The view's code as the loader wants it. Not the widget's module itself, which is saved with every notebook."""
    return gzip.compress(_built("widget.js"), 9, mtime=0)


class GraphWidget(anywidget.AnyWidget):
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
        self._picture = LivePicture(host, self._as_widget)
        comm: Any = self.comm
        if hasattr(comm, "_reply_subshell_for"):
            # Messages are sent from other threads than the one that answers; ipykernel must not take that for a reason
            # to have the front end's next message answered by the main thread, where it waits for the running cell.
            comm._reply_subshell_for = lambda data, default: default
        self.on_msg(self._on_message)

    def _as_widget(self) -> dict[str, Any]:
        made: Any = super()._repr_mimebundle_()
        return made[0]

    def _on_message(self, widget: object, content: dict[str, Any], buffers: list[Any]) -> None:
        if content.get("op") == "code":
            self._deliver({"type": "code"}, [memoryview(_code())])
            return

        def reply(answer: dict[str, Any]) -> None:
            self._deliver({"type": "reply", "request": content.get("request"), "content": answer}, [])

        self._host.panels.answer(content, reply, self._open, self._close, self._key)

    def _open(self, view: str) -> None:
        self._views.add(view)
        self._host.panels.subscribe(self._key, self._deliver)

    def _close(self, view: str) -> None:
        self._views.discard(view)
        if not self._views:
            self._host.panels.unsubscribe(self._key)

    def _deliver(self, data: dict[str, Any], buffers: list[memoryview]) -> None:
        comm: Any = self.comm
        self._host.iopub.send_comm(comm.comm_id, {"method": "custom", "content": data}, buffers)

    def close(self) -> None:
        """Stop sending, and remove the widget."""
        self._host.panels.unsubscribe(self._key)
        super().close()

    def _ipython_display_(self, **kwargs: Any) -> None:
        self._picture.show()
