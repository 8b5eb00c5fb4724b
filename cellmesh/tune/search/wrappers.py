"""Searchers around another one: `ConcurrencyLimiter` and `Repeater`.

Both take what `as_search` takes, and are a `Search` themselves.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .adapter import SearcherAdapter, as_search
from .protocol import NoSuggestion, Search

TRIAL_INDEX = "__trial_index__"


def _check_count(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name}={value!r}: give a whole number above 0")


class ConcurrencyLimiter(Search):
    """Lets few trials of a searcher be under way at a time, so that it learns from one before it suggests the next.

    Parameters
    ----------
    searcher : Search or object in the shape of `Searcher`
    max_concurrent : int
        How many trials, > 0.
    batch : bool
        Tell the searcher of the ends of trials once all of those under way have ended, in the order in which they
        ended.
    """

    def __init__(self, searcher: Any, max_concurrent: int, batch: bool = False) -> None:
        _check_count("max_concurrent", max_concurrent)
        self.search: Search = as_search(searcher)
        self.is_adaptive: bool = self.search.is_adaptive
        self.modules: tuple[str, ...] = self.search.modules
        self.max_concurrent: int = max_concurrent
        self.batch: bool = batch
        take_over = getattr(getattr(self.search, "searcher", None), "set_max_concurrency", None)
        self._limits = take_over is None or not take_over(max_concurrent)  # otherwise the searcher does itself
        self._live: set[int] = set()  # with `batch` also those that have ended and were not told
        self._ended: dict[int, tuple[Mapping[str, Any] | None, bool, bool]] = {}

    def begin(self, metric: str | None, mode: str, space: Mapping[str, Any], num_samples: int, seed: int) -> None:
        self.search.begin(metric, mode, space, num_samples, seed)

    def count(self) -> int | None:
        return self.search.count()

    def suggest(self, trial: int) -> dict[str, Any] | NoSuggestion:
        if self._limits and len(self._live) >= self.max_concurrent:
            return NoSuggestion.LATER
        suggested = self.search.suggest(trial)
        if not isinstance(suggested, NoSuggestion):
            self._live.add(trial)
        return suggested

    def on_trial_result(self, trial: int, result: Mapping[str, Any]) -> None:
        self.search.on_trial_result(trial, result)

    def on_trial_end(self, trial: int, result: Mapping[str, Any] | None, failed: bool, pruned: bool = False) -> None:
        self._ended[trial] = result, failed, pruned
        if self._limits and self.batch and self._ended.keys() != self._live:
            return
        for number, ended in self._ended.items():
            self.search.on_trial_end(number, *ended)
        self._live -= self._ended.keys()
        self._ended = {}

    def replay(self, trial: int, config: Mapping[str, Any]) -> None:
        self._live.add(trial)
        self.search.replay(trial, config)

    def describe(self) -> dict[str, Any] | None:
        inner = self.search.describe()
        if inner is None:
            return None
        return {"kind": "limiter", "search": inner, "max_concurrent": self.max_concurrent, "batch": self.batch}


@dataclass
class _Group:
    """Trials of one configuration. The searcher knows the first of them."""

    first: int
    config: Mapping[str, Any]
    n: int = 1
    values: dict[int, float] = field(default_factory=dict)  # of those that have ended; NaN: it has none


class Repeater(Search):
    """Tries each configuration several times, and tells the searcher the mean.

    Parameters
    ----------
    searcher : Search or object in the shape of `Searcher`
    repeat : int
        How often, > 0. `num_samples` counts all trials: 15 are three configurations, five times each. What is left over
        of a division is not tried.
    set_index : bool
        Put the number of the repetition, from 0, into the configuration, as `__trial_index__`.

    Notes ----- The searcher hears of no intermediate results. A trial that failed or has no metric does not count for
    the mean; if none is left, the searcher is told of a failure. Schedulers that stop trials early make means of unlike
    numbers.
    """

    def __init__(self, searcher: Any, repeat: int = 1, set_index: bool = True) -> None:
        _check_count("repeat", repeat)
        self.search: Search = as_search(searcher)
        self.is_adaptive: bool = self.search.is_adaptive
        self.modules: tuple[str, ...] = self.search.modules
        self.repeat: int = repeat
        self.set_index: bool = set_index
        self._metric: str | None = None
        self._groups: dict[int, _Group] = {}  # by trial
        self._open: _Group | None = None  # the latest, while trials of it are left

    def begin(self, metric: str | None, mode: str, space: Mapping[str, Any], num_samples: int, seed: int) -> None:
        own = self.search.metric if isinstance(self.search, SearcherAdapter) else None
        self._metric = own if isinstance(own, str) else metric
        if 0 < num_samples < self.repeat:
            raise ValueError(f"num_samples={num_samples} counts all trials, and is less than repeat={self.repeat}")
        if num_samples % self.repeat and num_samples != -1:
            warnings.warn(
                f"num_samples={num_samples} counts all trials: {num_samples % self.repeat} are left over of groups of "
                f"{self.repeat}, and are not tried",
                stacklevel=2,
            )
        self.search.begin(metric, mode, space, num_samples if num_samples == -1 else num_samples // self.repeat, seed)

    def count(self) -> int | None:
        n = self.search.count()
        return None if n is None else n * self.repeat

    def suggest(self, trial: int) -> dict[str, Any] | NoSuggestion:
        if self._open is None:
            suggested = self.search.suggest(trial)
            if isinstance(suggested, NoSuggestion):
                return suggested
            index = self._join(trial, suggested)
        else:
            suggested = dict(self._open.config)
            index = self._join(trial, suggested)
        config = copy.deepcopy(suggested)
        return {**config, TRIAL_INDEX: index} if self.set_index else config

    def _join(self, trial: int, config: Mapping[str, Any]) -> int:
        """Put a trial into the open group, or begin one; which of its trials it is."""
        if self._open is None:
            group, index = _Group(trial, config), 0
        else:
            group, index = self._open, self._open.n
            group.n += 1
        self._groups[trial] = group
        self._open = group if group.n < self.repeat else None
        return index

    def on_trial_end(self, trial: int, result: Mapping[str, Any] | None, failed: bool, pruned: bool = False) -> None:
        group = self._groups.pop(trial)
        known = {} if result is None or failed or self._metric is None else result
        group.values[trial] = float(known.get(self._metric or "", math.nan))
        if len(group.values) < self.repeat:
            return
        found = [value for value in group.values.values() if not math.isnan(value)]
        mean = {self._metric: sum(found) / len(found)} if found and self._metric is not None else None
        self.search.on_trial_end(group.first, mean, failed=mean is None)

    def replay(self, trial: int, config: Mapping[str, Any]) -> None:
        plain = {key: value for key, value in config.items() if key != TRIAL_INDEX or not self.set_index}
        if self._join(trial, plain) == 0:
            self.search.replay(trial, plain)

    def describe(self) -> dict[str, Any] | None:
        inner = self.search.describe()
        if inner is None:
            return None
        return {"kind": "repeater", "search": inner, "repeat": self.repeat, "set_index": self.set_index}
