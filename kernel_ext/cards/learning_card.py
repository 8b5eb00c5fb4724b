"""The card of a run of learning: one display under the cell that trains, updated in place while results come."""

from __future__ import annotations

import threading
import time
from typing import Any

from ...observe.learning import LearningRun
from .learning_html import learning_html, learning_text
from .live_display import Bundle, LiveDisplay, Publish

N_LIVE_MAX = 20  # cards that are kept up to date; when there are more, the oldest stay as they are


class LearningCards:
    """The cards of runs in one kernel.

    Parameters
    ----------
    publish : callable
    """

    def __init__(self, publish: Publish) -> None:
        self._publish = publish
        self._cards: list[_Card] = []
        self._lock = threading.Lock()

    def show(self, run: LearningRun, parent: dict[str, Any]) -> None:
        """Display a card that follows the run, unless this cell has one already."""
        cell = _cell_of(parent)
        if cell and any(card.run is run and card.cell == cell for card in self._cards):
            return
        card = _Card(run, cell)
        card.display = LiveDisplay(self._publish, parent, card, bundle_of, lambda card: None)
        with self._lock:
            self._cards.append(card)
            del self._cards[:-N_LIVE_MAX]

    def changed(self, run: LearningRun, parent: dict[str, Any]) -> None:
        """The run has a new result, or is over: the cards show it; there is one under the cell that trains."""
        shown = [card for card in self._cards if card.run is run]
        in_cell = threading.current_thread() is threading.main_thread()  # another thread goes on beside other cells
        if not run.is_over and (in_cell or not shown):
            self.show(run, parent)
        self._update(shown, at_once=run.is_over)

    def refresh(self) -> None:
        """Have all cards show how far their run is now: what stands under a cell when it ends is what is saved. A
        run that goes on in a loop of the cell is paused then.
        """
        for card in self._cards:
            card.run.pause()
        self._update(list(self._cards), at_once=True)

    def _update(self, cards: list[_Card], at_once: bool) -> None:
        for card in cards:
            if card.display is not None and card.n_changes != card.run.n_changes:
                card.display.update(at_once)


class _Card:
    """A card on view."""

    def __init__(self, run: LearningRun, cell: str) -> None:
        self.run, self.cell = run, cell
        self.display: LiveDisplay[_Card] | None = None
        self.n_changes = -1  # of the run, when it was looked at


def _cell_of(parent: dict[str, Any]) -> str:
    return parent.get("header", {}).get("msg_id", "")


def bundle_of(card: _Card) -> Bundle:
    """The card in every form, as it is now."""
    card.n_changes = card.run.n_changes
    view, now = card.run.look(), time.time()
    return {"text/plain": learning_text(view, now), "text/html": learning_html(view, now)}
