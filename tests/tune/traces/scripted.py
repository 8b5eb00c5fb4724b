"""What trials report in a trace, by its seed, so that only the order of events and the decisions are recorded.

Read by the recorder, which runs with Ray, and by the test, which runs without.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

METRIC = "score"


@dataclass(frozen=True)
class Always:
    """A function for Ray and a domain for us: a value for which nothing is drawn."""

    value: Any

    def __call__(self) -> Any:
        return self.value

    def sample(self, rng: object) -> Any:
        return self.value


MUTATIONS: dict[str, Any] = {"lr": Always(0.5), "units": Always(64), "act": ["a", "b", "c", "d"]}


@dataclass(frozen=True)
class Script:
    """Values are drawn from few numbers if `is_coarse`, so that there are ties. NaN comes at the rate `nan`."""

    seed: int
    is_coarse: bool = False
    nan: float = 0.0
    stride: int = 1  # most that the time grows by from one report to the next

    def time(self, trial: int, n_reports: int) -> int:
        """After so many reports."""
        if self.stride == 1:
            return n_reports
        steps = np.random.default_rng((self.seed, trial, 1)).integers(1, self.stride + 1, size=n_reports)
        return int(steps.sum())

    def value(self, trial: int, time: int) -> float:
        rng = np.random.default_rng((self.seed, trial, time, 2))
        if rng.random() < self.nan:
            return math.nan
        quality = np.random.default_rng((self.seed, trial, 3)).normal()
        value = quality + 0.3 * rng.normal() + 0.05 * time
        return round(float(value) * 4) / 4 if self.is_coarse else float(value)

    def config(self, trial: int) -> dict[str, Any]:
        rng = np.random.default_rng((self.seed, trial, 4))
        return {"lr": float(rng.random()), "units": int(rng.integers(8, 128)), "act": "abcd"[rng.integers(4)]}

    def result(self, trial: int, time: int) -> dict[str, Any]:
        return {METRIC: self.value(trial, time), "training_iteration": time, "time_total_s": float(time)}


class Draws:
    """`random`'s functions, by numpy's generator: so that two programs which draw alike draw the same."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def random(self) -> float:
        return self.rng.random()

    def choice(self, values: Any) -> Any:
        return values[int(self.rng.integers(len(values)))]
