"""What the kernel publishes on iopub beside a cell's own output: displays that are updated later, messages of comms.

Everything goes straight through the session of the kernel, from any thread. Notebook runners (nbclient) accept updates
of any display, but only as part of the cell that they wait for. So an update goes out as part of the cell that runs;
one that comes between two cells is repeated in the next.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

Content = dict[str, Any]
Parent = dict[str, Any]  # the message of a request to execute a cell


class Iopub:
    """One kernel's iopub channel.

    Parameters
    ----------
    kernel : ipykernel.kernelbase.Kernel or None
        None in a terminal, where nothing of this can be used.
    """

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._running: Parent | None = None  # the cell that runs now
        self._lock = threading.Lock()
        self._between_cells: dict[str, Content] = {}  # updates of displays while no cell ran

    def send(
        self,
        kind: str,
        content: Content,
        parent: Parent | None = None,
        topic: str = "",
        buffers: list[memoryview] | None = None,
    ) -> None:
        """Publish a message on iopub; from any thread that lives on, and see `send_for_others`."""
        self._kernel.session.send(
            self._kernel.iopub_socket, kind, content, parent=parent, ident=(topic or kind).encode(), buffers=buffers
        )

    def send_for_others(self, kind: str, content: Content, parent: Parent, topic: str = "") -> None:
        """Publish a message on iopub; from any thread."""
        from .background import by_one_thread  # with what it needs not before there is something to show

        by_one_thread(partial(self.send, kind, content, parent, topic))

    def send_comm(self, comm_id: str, data: dict[str, Any], buffers: list[memoryview]) -> None:
        """Publish a message on a comm that a front end has opened."""
        self.send("comm_msg", {"comm_id": comm_id, "data": data}, topic=f"comm-{comm_id}", buffers=buffers)

    def publish(self, bundle: Content, display_id: str, update: bool, parent: Parent) -> None:
        """Show a display that can be updated, or update it; the latter from any thread."""
        if not update:  # what was printed before stands above it
            sys.stdout.flush()
            sys.stderr.flush()
        content = {"data": bundle, "metadata": {}, "transient": {"display_id": display_id}}
        if not update:
            self.send("display_data", content, parent)
            return
        self.update(content, parent)

    def update(self, content: Content, parent: Parent) -> None:
        """Update a display under the cell with that parent; from any thread."""
        with self._lock:
            if self._running is None:
                self._between_cells[content["transient"]["display_id"]] = content
            self.send_for_others("update_display_data", content, self._running or parent)

    def live_display(self, display_id: str) -> Callable[[Content], None]:
        """A function that shows a bundle under the cell that runs now, and from the second call on updates it."""
        parent, is_shown = self._kernel.get_parent("shell"), False

        def publish(bundle: Content) -> None:
            nonlocal is_shown
            update, is_shown = is_shown, True
            self.publish(bundle, display_id, update, parent)

        return publish

    def cell_begins(self) -> None:
        """A cell begins: what was updated before is repeated as part of it."""
        with self._lock:
            self._running = self._kernel.get_parent("shell")
            for content in self._between_cells.values():
                self.send("update_display_data", content, self._running)
            self._between_cells.clear()

    def cell_ends(self) -> None:
        """A cell ends."""
        with self._lock:
            self._running = None

    def say_busy(self) -> None:
        """Say once more that the kernel is busy, if a cell runs."""
        # Under the lock: a cell that ends now says "idle" after `cell_ends`, so after this.
        with self._lock:
            if self._running is not None:
                self.send("status", {"execution_state": "busy"}, self._running)
