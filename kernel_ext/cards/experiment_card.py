"""The card of an experiment, which follows its journal: one display, updated in place, until the experiment ends."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Any

from ...tracebacks import readable_place
from ...tune.exceptions import TuneError
from ...tune.experiment import Experiment
from ...tune.watching.following import following
from ..cells.registry import registry
from .experiment_facts import ExperimentFacts, facts_of
from .experiment_html import experiment_html, experiment_text
from .live_display import Bundle, LiveDisplay, Publish

N_LIVE_MAX = 20  # cards that follow their experiment; when there are more, the oldest stay as they are


class ExperimentCards:
    """The cards of experiments in one kernel.

    Parameters
    ----------
    publish : callable
    """

    def __init__(self, publish: Publish) -> None:
        self._publish = publish
        self._live: list[_Card] = []
        self._latest: dict[str, str] = {}  # path of an experiment -> message of the cell that has shown it last
        self._lock = threading.Lock()

    def show(self, experiment: Experiment, parent: dict[str, Any]) -> None:
        """Display a card that follows the experiment, unless this cell has one already."""
        cell = parent.get("header", {}).get("msg_id", "")
        if cell and self._latest.get(experiment.path) == cell:
            return
        self._latest[experiment.path] = cell
        card = _Card(experiment)
        card.display = LiveDisplay(self._publish, parent, card, bundle_of, lambda card: None)
        if card.is_over:
            return
        with self._lock:
            self._live.append(card)
            del self._live[:-N_LIVE_MAX]
        following.add(experiment, card.size_bytes, lambda is_last: self._changed(card, is_last))

    def refresh(self, path: str = "") -> None:
        """Have the cards of an experiment, or all, show how far it is now: what stands under a cell when it ends is
        what is saved.
        """
        with self._lock:
            live = list(self._live)
        for card in live:
            if path in ("", card.experiment.path) and card.display is not None and card.is_behind:
                card.display.update(at_once=True)

    def _changed(self, card: _Card, is_last: bool) -> None:
        with self._lock:
            is_live = card in self._live
            if is_last and is_live:
                self._live.remove(card)
        if is_last:
            card.experiment.leave()
        if is_live and card.display is not None and (is_last or card.is_behind):  # the end of a cell may have shown it
            card.display.update(at_once=is_last)


class _Card:
    """A card on view that may still change."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self.display: LiveDisplay[_Card] | None = None
        self.is_over = False
        self.size_bytes = 0  # of the journal, when it was looked at

    @property
    def is_behind(self) -> bool:
        """Whether something has happened since."""
        return self.experiment.size_bytes != self.size_bytes


def bundle_of(card: _Card) -> Bundle:
    """The card in every form, as it is now."""
    card.size_bytes = card.experiment.size_bytes
    facts = _look(card.experiment)
    card.is_over = facts.state not in ("running", "paused")
    return {"text/plain": experiment_text(facts), "text/html": experiment_html(facts)}


def _look(experiment: Experiment) -> ExperimentFacts:
    cell = registry.experiment_cell(experiment.name)
    try:
        facts = experiment.look(lambda view: facts_of(view, time.time(), experiment.is_run, cell))
    except (TuneError, OSError) as error:  # its journal is damaged, or has been deleted
        return ExperimentFacts(experiment.name, "unreadable", why=str(error))
    if facts.error is None:
        return facts
    trial, text, line = facts.error
    return replace(facts, error=(trial, text, readable_place(line)))
