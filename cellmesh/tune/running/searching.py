"""Asks the searcher for configurations and tells it what has come of them, off the path of results."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from ...objstore import code_pickles
from ...text import in_one_line
from ..exceptions import in_words, where
from ..records import Asked, Event, NoneLeft, Suggested
from ..resources import options_of
from ..schedulers.explore import copied
from ..search.protocol import NoSuggestion, Search
from ..space import to_json, unstored

if TYPE_CHECKING:
    import asyncio


class Searching:
    """A searcher that learns has a thread of its own, in which it is called in order; others answer at once.

    Parameters
    ----------
    search : Search
        `begin` has been called on it.
    resources : callable, optional
        Says of a configuration what its trial takes.
    loop : asyncio.AbstractEventLoop
        The controller's.
    feed : callable
        Takes its answers, on that loop.
    """

    def __init__(
        self,
        search: Search,
        resources: Callable[[dict[str, Any]], Any] | None,
        loop: asyncio.AbstractEventLoop,
        feed: Callable[[Event], None],
    ) -> None:
        self._search, self._resources, self._loop, self._feed = search, resources, loop, feed
        self._hears_results = type(search).on_trial_result is not Search.on_trial_result
        self._has_thread = False
        self._calls: SimpleQueue[tuple[Callable[..., None], tuple[Any, ...]]] = SimpleQueue()  # for it
        self._is_closed = False
        self._n_suggested = 0

    def suggest(self) -> None:
        """Ask for the next configuration; `Suggested` or `NoneLeft` answers."""
        self._call(self._suggest_now)

    def tell_result(self, trial: int, result: Mapping[str, Any]) -> None:
        """A trial has reported."""
        if self._hears_results:
            self._call(self._search.on_trial_result, trial, result)

    def tell_end(self, trial: int, result: Mapping[str, Any] | None, failed: bool, pruned: bool) -> None:
        """A trial is over."""
        self._call(self._search.on_trial_end, trial, result, failed, pruned)

    def replay(self, record: Suggested) -> None:
        """It has suggested this, before another controller went on. Nothing is under way."""
        self._search.replay(record.trial, record.config)
        self._n_suggested = record.trial + 1

    def close(self) -> None:
        """Nothing is asked any more."""
        self._is_closed = True
        self._calls.put((lambda: None, ()))

    def _suggest_now(self) -> None:
        """Runs where the searcher runs, one at a time."""
        found = self._search.suggest(self._n_suggested)
        if isinstance(found, NoSuggestion):
            self._answer(NoneLeft(at=time.time(), later=found is NoSuggestion.LATER))
            return
        code = code_pickles.dumps(found) if any(unstored(to_json(found))) else b""
        try:
            resources = None if self._resources is None else options_of(self._resources(copied(found)))
        except Exception as error:
            text = f"resources failed for the configuration {in_one_line(repr(found))}: {in_words(error)}{where(error)}"
            self._answer(Asked(at=time.time(), what="stop", why=text, failed=True))
            return
        number = self._n_suggested
        self._answer(Suggested(at=time.time(), trial=number, config=found, code=code, resources=resources))
        self._n_suggested += 1

    def _call(self, call: Callable[..., None], *arguments: Any) -> None:
        if not self._search.is_adaptive:
            self._call_now(call, arguments)
            return
        if not self._has_thread:
            self._has_thread = True
            threading.Thread(target=self._work, name="cellmesh-search", daemon=True).start()
        self._calls.put((call, arguments))

    def _work(self) -> None:
        """In its thread: all calls, one after the other."""
        while not self._is_closed:
            self._call_now(*self._calls.get())

    def _call_now(self, call: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        try:
            call(*arguments)
        except Exception as error:
            self._answer(self._failed(error))

    def _failed(self, error: BaseException) -> Event:
        text = f"{type(self._search).__name__} failed: {in_words(error)}{where(error)}"
        return Asked(at=time.time(), what="stop", why=text, failed=True)

    def _answer(self, event: Event) -> None:
        if self._has_thread:
            self._loop.call_soon_threadsafe(self._feed, event)
        else:
            self._feed(event)
