"""tqdm's progress bars inside tasks: the worker sends what a bar says, the driver decides where it stands.

A bar is a display with an id, updated in place, so a notebook needs nothing for it; a terminal draws all bars below
each other from the bundle's own type. Only bars on the worker's stdout and stderr are taken.
"""

from __future__ import annotations

import os
import time
from types import ModuleType
from typing import Any

from ...ipc.messages import BAR_COLOUR, PROGRESS_MIME
from .import_hook import Show, on_import

UPDATE_S = 0.1  # between two updates of a bar, tqdm's own interval; a loop may ask for thousands
N_COLUMNS = 60  # of the text: a name goes before it, and the width of the window is not known here


def install(show: Show) -> None:
    """Route bars to `show`, once tqdm is imported. Its notebook bars are widgets of a kernel: plain ones here."""
    on_import("tqdm.std", lambda module: replace_methods(module.tqdm, show))

    def replace_notebook(module: ModuleType) -> None:
        from tqdm.std import tqdm, trange

        vars(module).update(tqdm=tqdm, tqdm_notebook=tqdm, trange=trange, tnrange=trange)

    on_import("tqdm.notebook", replace_notebook)


def replace_methods(tqdm: Any, show: Show) -> None:
    """Give tqdm's class ways to display that need no terminal."""
    draw, clear, close, move = tqdm.display, tqdm.clear, tqdm.close, tqdm.moveto

    def is_taken(bar: Any) -> bool:
        return getattr(bar, "sp", None) is not None and getattr(bar.fp, "name", "") in ("stdout", "stderr")

    def display(self: Any, msg: str | None = None, pos: int | None = None) -> Any:
        if not is_taken(self):
            return draw(self, msg, pos)
        now = time.monotonic()
        if now - self.__dict__.get("_cellmesh_shown_at", 0.0) >= UPDATE_S:
            self._cellmesh_shown_at = now
            _send(self, show, closed=False)
        return True

    def finish(self: Any) -> None:
        if self.disable or not is_taken(self):
            close(self)
            return
        self.disable = True
        self.pos, position = 0, self.pos
        self._decr_instances(self)
        if "_cellmesh_id" in self.__dict__:
            self.leave = position == 0 if self.leave is None else self.leave
            self._ema_dt = lambda: None  # of a bar that is over the rate of the whole run is shown
            _send(self, show, closed=True)

    def cleared(self: Any, nolock: bool = False) -> None:
        if not is_taken(self):
            clear(self, nolock)

    def moved(self: Any, n: int) -> None:
        if not is_taken(self):
            move(self, n)

    tqdm.display, tqdm.close, tqdm.clear, tqdm.moveto = display, finish, cleared, moved


def _send(bar: Any, show: Show, closed: bool) -> None:
    is_first = "_cellmesh_id" not in bar.__dict__
    bar._cellmesh_id = bar.__dict__.get("_cellmesh_id") or os.urandom(8).hex()
    text = bar.format_meter(**{**bar.format_dict, "ncols": N_COLUMNS, "colour": None})
    is_shown = not closed or bool(bar.leave)
    complete = closed if not bar.total else bar.n >= bar.total
    send_bar(
        show, bar._cellmesh_id, text if is_shown else "", _html(bar) if is_shown else "", is_first, closed, complete
    )


# As wide as there is room, and no wider, so that no output gets a scrollbar.
STYLE = (
    "display:flex;flex-wrap:wrap;align-items:center;column-gap:.6em;overflow:hidden;line-height:1.6;"
    "font-family:var(--jp-code-font-family,monospace);white-space:pre-wrap;overflow-wrap:anywhere"
)


def send_bar(
    show: Show, identity: str, text: str, html: str, is_first: bool, closed: bool, complete: bool | None = None
) -> None:
    """Show a bar for the first time, or in place of what it was; without a text it goes.

    `complete`: nothing is left to do.
    """
    state = {"id": identity, "text": text, "closed": closed, "complete": closed if complete is None else complete}
    show(
        "display" if is_first else "update_display",
        {PROGRESS_MIME: state, "text/plain": text, "text/html": html and f'<div style="{STYLE}">{html}</div>'},
        {},
        {"display_id": identity},
    )


def _html(bar: Any) -> str:
    """A bar as the page's own progress element, with tqdm's words on its sides."""
    import html  # a millisecond that only workers with bars need spend

    facts = {**bar.format_dict, "colour": None, "ncols": None}
    before = bar.format_meter(**{**facts, "bar_format": "{l_bar}" if bar.total else "{desc}"}).rstrip("|")
    after = bar.format_meter(**{**facts, "bar_format": "{r_bar}" if bar.total else None}).lstrip("|")
    element = ""
    if bar.total:
        style = f"flex:1 1 4em;max-width:20em;margin:0;{BAR_COLOUR}"
        element = f'<progress max="{bar.total}" value="{min(bar.n, bar.total)}" style="{style}"></progress>'

    def words(text: str) -> str:
        return f"<span>{html.escape(text.strip())}</span>" if text.strip() else ""

    return f"{words(before)}{element}{words(after)}"
