"""An experiment without trials: asks a searcher and tells it, with one trial at a time or several."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cellmesh.tune.search import NoSuggestion, Search

Config = dict[str, Any]
Call = tuple[Any, ...]  # what a journal has: the name of a method of `Search`, and its arguments


def begun(search: Search, space: Mapping[str, Any], num_samples: int = -1, seed: int = 0, mode: str = "min") -> Search:
    search.begin("loss", mode, space, num_samples, seed)
    return search


def suggestions(search: Search, n: int = 1000) -> list[Config]:
    """As many configurations as it has, at most n, without results."""
    found = []
    for trial in range(n):
        config = search.suggest(trial)
        if isinstance(config, NoSuggestion):
            break
        found.append(config)
    return found


class Loop:
    """Trials of an objective, each of which reports `n_reports` times. What happens is in `calls`."""

    def __init__(self, search: Search, objective: Callable[[Config], float], *, at_a_time: int = 1, n_reports: int = 1):
        self.search, self.objective, self.at_a_time, self.n_reports = search, objective, at_a_time, n_reports
        self.calls: list[Call] = []
        self.configs: list[Config] = []
        self.live: list[int] = []
        self.rng = np.random.default_rng(1)

    def tell(self, name: str, trial: int, *rest: Any) -> None:
        self.calls.append((name, trial, *rest))
        getattr(self.search, name)(trial, *rest)

    def run(self, n: int) -> list[Config]:
        """Until there are n configurations in all; those under way stay so."""
        while len(self.configs) < n:
            config = self.search.suggest(len(self.configs)) if len(self.live) < self.at_a_time else NoSuggestion.LATER
            if isinstance(config, NoSuggestion):
                self.end(self.live[int(self.rng.integers(len(self.live)))])
                continue
            self.calls.append(("replay", len(self.configs), config))
            self.live.append(len(self.configs))
            self.configs.append(config)
        return self.configs

    def end(self, trial: int) -> None:
        """Have a trial end: one in five fails, one in five is pruned."""
        self.live.remove(trial)
        loss = self.objective(self.configs[trial])
        for iteration in range(1, self.n_reports + 1):
            last = {"loss": loss + 1 / iteration, "training_iteration": iteration}
            self.tell("on_trial_result", trial, last)
        self.tell("on_trial_end", trial, last, trial % 5 == 3, trial % 5 == 4)

    def resumed(self, search: Search) -> Loop:
        """The same loop, gone on by another searcher that is told what has happened."""
        other = Loop(search, self.objective, at_a_time=self.at_a_time, n_reports=self.n_reports)
        for name, *arguments in self.calls:
            getattr(search, name)(*arguments)
        other.calls, other.configs, other.live = list(self.calls), list(self.configs), list(self.live)
        other.rng.bit_generator.state = self.rng.bit_generator.state
        return other
