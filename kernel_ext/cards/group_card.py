"""The card of futures by rank (`RefGroup`): a row for each, updated in place as their states change.

As with the card of a future, showing it never waits and never fetches; a thread asks for the previews.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from ..background import in_background
from .card import FINAL, ValueFacts, state_of, with_value
from .group_html import RankFacts, group_html, group_text
from .live_display import Bundle, LiveDisplay, Publish

if TYPE_CHECKING:
    from ...groups.ref_group import RefGroup
    from .card import Cards

N_LIVE_MAX = 32  # cards that follow their states; when there are more, the oldest stay as they are


@dataclass
class _Live:
    """A card on view that may still change."""

    refs: RefGroup[Any]
    values: dict[int, ValueFacts] = field(default_factory=dict)  # by place in the group
    asked: set[int] = field(default_factory=set)
    display: LiveDisplay[_Live] | None = None


class GroupCards:
    """The cards of groups of futures in one kernel.

    Parameters
    ----------
    cards : callable
        Gives the cards of single futures.
    publish : callable, optional
        As that of `Cards`.
    """

    def __init__(self, cards: Callable[[], Cards], publish: Publish | None) -> None:
        self._cards, self._publish = cards, publish
        self._live: dict[str, _Live] = {}
        self._lock = threading.Lock()

    def mimebundle(self, refs: RefGroup[Any]) -> Bundle:
        """Futures by rank as they are now, with their values where these are small and here."""
        live = _Live(refs)
        self._ask(live, self._new(live))
        return self._look(live)

    def show(self, refs: RefGroup[Any], parent: dict[str, Any]) -> None:
        """Display a card that will follow the states of its futures."""
        assert self._publish is not None
        card = _Live(refs)
        card.display = LiveDisplay(self._publish, parent, card, self._look, lambda card: None)
        with self._lock:
            self._live[card.display.display_id] = card
            for _ in range(len(self._live) - N_LIVE_MAX):
                self._live.pop(next(iter(self._live)))
        self._look_at(card)

    def on_change(self) -> None:
        """Something happened in the session."""
        with self._lock:
            cards = list(self._live.values())
        for card in cards:
            self._look_at(card)

    def _look_at(self, card: _Live) -> None:
        assert card.display is not None
        if new := self._new(card):
            in_background(partial(self._ask_and_show, card, new))
        elif len(card.values) < len(card.refs):
            card.display.update()
        self._drop_if_final(card)

    def _drop_if_final(self, card: _Live) -> None:
        """It need not be followed once all values have been asked for."""
        assert card.display is not None
        if len(card.values) == len(card.refs):
            with self._lock:
                self._live.pop(card.display.display_id, None)

    def _new(self, card: _Live) -> list[int]:
        """The places whose futures have ended, and whose values nobody has asked for."""
        ended = {i for i, ref in enumerate(card.refs) if state_of(ref) in FINAL}
        with self._lock:
            new = sorted(ended - card.asked)
            card.asked |= ended
        return new

    def _ask(self, card: _Live, places: list[int]) -> None:
        for i in places:
            card.values[i] = self._cards().value_facts(card.refs[i])

    def _ask_and_show(self, card: _Live, places: list[int]) -> None:
        self._ask(card, places)
        assert card.display is not None
        card.display.update(at_once=True)
        self._drop_if_final(card)

    def _look(self, card: _Live) -> Bundle:
        cards = self._cards()
        ranks = [
            RankFacts(rank, with_value(cards.facts(ref), card.values.get(i)))
            for i, (rank, ref) in enumerate(zip(card.refs.ranks, card.refs, strict=True))
        ]
        label = card.refs._label
        return {"text/plain": group_text(label, ranks), "text/html": group_html(label, ranks)}
