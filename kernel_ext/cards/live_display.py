"""A display that is updated in place when something changes, but not more often than people can read."""

from __future__ import annotations

import threading
import time
import uuid
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

from ..background import Delayed, in_background

UPDATE_INTERVAL_S = 0.25  # of one display

T = TypeVar("T")
Bundle = dict[str, str]
# publish(bundle, display_id, update, parent)
Publish = Callable[[Bundle, str, bool, dict[str, Any]], None]


class LiveDisplay(Generic[T]):
    """One display.

    Parameters
    ----------
    publish : callable
    parent : dict
        The message of the cell under which it stands.
    card : object
        What is shown. It may hold the display, which knows it weakly; once it is gone nothing is updated any more.
    look : callable
        Gives what is to be shown of the card, as it is now; called by one thread at a time.
    then : callable
        Called with the card after each look that `update` has caused.
    """

    def __init__(
        self, publish: Publish, parent: dict[str, Any], card: T, look: Callable[[T], Bundle], then: Callable[[T], None]
    ) -> None:
        self.display_id = f"cellmesh-{uuid.uuid4().hex}"
        self.parent = parent
        self._publish, self._look, self._then = publish, look, then
        self._card = weakref.ref(card)
        self._lock = threading.Lock()
        self._timer: Delayed | None = None
        self._looked_at = time.monotonic()
        self._bundle = look(card)
        publish(self._bundle, self.display_id, False, parent)

    def update(self, at_once: bool = False) -> None:
        """Look again and show what is new: now, or some time after the last look."""
        card = self._card()
        if card is None:
            return
        with self._lock:
            pause = self._looked_at + UPDATE_INTERVAL_S - time.monotonic()
            if pause > 0 and not at_once:
                if self._timer is None:
                    self._timer = in_background(partial(self.update, True), pause)
                return
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            bundle, self._looked_at = self._look(card), time.monotonic()
            if bundle != self._bundle:
                self._bundle = bundle
                self._publish(bundle, self.display_id, True, self.parent)
        self._then(card)
