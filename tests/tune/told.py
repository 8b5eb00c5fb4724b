"""Telling a scheduler of events, in few words."""

from __future__ import annotations

from typing import Any

import numpy as np

from cellmesh.tune.schedulers import Decision, Scheduler

METRIC = "score"


class Told:
    """A scheduler that has begun, with `n` trials."""

    def __init__(
        self, scheduler: Scheduler, n: int = 0, mode: str = "max", config: dict[str, Any] | None = None
    ) -> None:
        self.scheduler = scheduler
        scheduler.begin(METRIC, mode, np.random.default_rng(0))
        self.n = 0
        self.at_adding = [decision for _ in range(n) for decision in self.add(config)]

    def all_run(self) -> Told:
        """No more trials come, and those that there are have begun."""
        assert list(self.scheduler.on_no_more_trials()) == []
        for trial in range(self.n):
            self.scheduler.on_trial_begin(trial)
        return self

    def add(self, config: dict[str, Any] | None = None) -> list[Decision]:
        self.n += 1
        return list(self.scheduler.on_trial_add(self.n - 1, config or {}))

    def reports(self, trial: int, time: float, score: Any) -> list[Decision]:
        result = {METRIC: score, "training_iteration": time, "time_total_s": time}
        return list(self.scheduler.on_trial_result(trial, result))

    def ends(self, trial: int, failed: bool = False) -> list[Decision]:
        return list(self.scheduler.on_trial_end(trial, None, failed))

    def no_more(self) -> list[Decision]:
        return list(self.scheduler.on_no_more_trials())

    def starved(self) -> list[Decision]:
        return list(self.scheduler.on_starved())
