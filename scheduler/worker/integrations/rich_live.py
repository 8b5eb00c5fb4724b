"""rich's live displays inside tasks (progress bars, spinners, tables that change): each line is a bar as tqdm's are.

Without a terminal rich shows nothing until the end. Only what goes to the worker's stdout and stderr is taken.
"""

from __future__ import annotations

import io
import os
import time
from typing import Any

from .import_hook import Show, on_import
from .tqdm_bars import UPDATE_S, send_bar

N_COLUMNS = 80


def install(show: Show) -> None:
    """Route live displays to `show`, once rich's are imported."""
    on_import("rich.live", lambda module: replace_methods(module.Live, show))
    on_import("rich.progress", lambda module: replace_end(module.Progress))


def replace_methods(live: Any, show: Show) -> None:
    """Give rich's class a way to display that needs no terminal; its own thread calls it, and its end."""
    start, stop, refresh = live.start, live.stop, live.refresh

    def started(self: Any, *args: Any, **kwargs: Any) -> None:
        if _is_taken(self.console) and not self.is_started:
            # FORCE_COLOR, as kernels set it, makes a terminal of everything, whose cursor is moved then.
            self._cellmesh_before = self.console._force_terminal, self.console.is_interactive
            self.console._force_terminal = self.console.is_interactive = False
        start(self, *args, **kwargs)

    def stopped(self: Any) -> None:
        stop(self)
        if before := self.__dict__.pop("_cellmesh_before", None):
            self.console._force_terminal, self.console.is_interactive = before

    def refreshed(self: Any) -> None:
        if not _is_taken(self.console) or getattr(self, "_nested", False):  # which has that around it refreshed
            refresh(self)
            return
        with self._lock:
            now = time.monotonic()
            if not self.is_started or now - self.__dict__.get("_cellmesh_shown_at", 0.0) >= UPDATE_S:
                self._cellmesh_shown_at = now
                _send(self, show)

    live.start, live.stop, live.refresh = started, stopped, refreshed


def replace_end(progress: Any) -> None:
    """Without a terminal rich ends its bars with an empty line."""
    stop = progress.stop

    def stopped(self: Any) -> None:
        if _is_taken(self.console):
            self.live.stop()
        else:
            stop(self)

    progress.stop = stopped


def _is_taken(console: Any) -> bool:
    return getattr(console.file, "name", "") in ("stdout", "stderr")


def _send(live: Any, show: Show) -> None:
    import html

    from rich.console import Console

    page = io.StringIO()
    if live.is_started or not live.transient:
        Console(file=page, width=N_COLUMNS, no_color=True).print(live.renderable)
    lines = [line.rstrip() for line in page.getvalue().rstrip().splitlines()]
    known: list[str] = live.__dict__.setdefault("_cellmesh_ids", [])
    n_before = len(known)
    known.extend(os.urandom(8).hex() for _ in lines[n_before:])
    for i, identity in enumerate(known):
        text = lines[i] if i < len(lines) else ""
        send_bar(show, identity, text, html.escape(text), i >= n_before, not live.is_started)
