"""A run of learning as it is watched: results over time, in bounded memory, whoever computes them.

Whoever trains adds its results and says `front_end.current.learning_changed(run)`; cards and the panel read. A run
keeps at most `N_POINTS_MAX` points of each metric. When there are more, neighbours become one point, evenly over the
whole run: of a metric their mean, of a count (steps, iterations, seconds) the later one.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

N_POINTS_MAX = 1024  # even: more than the pixels of a curve
N_METRICS_MAX = 64  # further ones are not kept
ITERATION, STEPS = "training_iteration", "timesteps_total"

RunState = Literal["running", "paused", "reached", "stopped", "diverged", "failed"]
Column = NDArray[np.float64]


@dataclass(frozen=True)
class LearningView:
    """A run as it was at a moment.

    Attributes
    ----------
    title : str
        What learns what: "PPO on CartPole-v1".
    settings : str
        With what, in words.
    state : str
        running; paused (whoever asks for results has not asked for the next one); reached (its goal), stopped,
        diverged, failed.
    why : str
        Why it is over.
    began_at, ended_at : float
        Seconds since 1970; NaN while it has not ended.
    goal : tuple of str and float, optional
        A metric, and the value from which on it ends.
    n_results : int
    n_per_point : int
        Results of each point but the last; when it grows, all points are others.
    last : dict of str to float
        The latest result.
    at : ndarray of shape (n,), float64
        When each point was added, in seconds since 1970.
    columns : dict of str to ndarray of shape (n,), float64
        Each metric, in the order in which they came; NaN where there was none.
    """

    title: str
    settings: str
    state: RunState
    why: str
    began_at: float
    ended_at: float
    goal: tuple[str, float] | None
    n_results: int
    n_per_point: int
    last: dict[str, float]
    at: Column
    columns: dict[str, Column]

    @property
    def is_over(self) -> bool:
        """Whether nothing is to come, unless it is trained again."""
        return is_over(self.state)


class LearningRun:
    """One run of learning; one thread adds to it, any may read.

    Parameters
    ----------
    title, settings : str
        As those of `LearningView`.

    Attributes
    ----------
    n_changes : int
        Grows with every change.
    """

    n_changes: int

    def __init__(self, title: str, settings: str = "") -> None:
        self.n_changes = 0
        self._lock = threading.Lock()
        self._title, self._settings = title, settings
        self._state: RunState = "paused"
        self._why = ""
        self._began_at, self._ended_at = time.time(), math.nan
        self._goal: tuple[str, float] | None = None
        self._n_results, self._last = 0, dict[str, float]()
        self._n = 0  # points
        self._width = 1  # results of a point
        self._n_in_last = 0  # results of the last point
        self._at = np.empty(N_POINTS_MAX)
        self._columns: dict[str, Column] = {}
        self._counts: dict[str, int] = {}  # how many results of the last point have a metric

    def begin(self, goal: tuple[str, float] | None = None) -> None:
        """Learning begins, or goes on."""
        with self._lock:
            self._state, self._why, self._goal, self._ended_at = "running", "", goal, math.nan
            if not self._n_results:
                self._began_at = time.time()
            self.n_changes += 1

    def add(self, result: Mapping[str, float]) -> None:
        """Take in a result."""
        with self._lock:
            self._state = "running"
            self._n_results += 1
            self._last = dict(result)
            if self._n_in_last in (0, self._width):
                self._begin_point()
            self._n_in_last += 1
            here = self._n - 1
            self._at[here] = time.time()
            for name, value in result.items():
                column = self._columns.get(name)
                if column is None:
                    if len(self._columns) == N_METRICS_MAX:
                        continue
                    column = self._columns[name] = np.full(N_POINTS_MAX, np.nan)
                if value != value:  # NaN: there is none yet
                    continue
                n = self._counts[name] = self._counts.get(name, 0) + 1
                column[here] = value if n == 1 or is_count(name) else column[here] + (value - column[here]) / n
            self.n_changes += 1

    def _begin_point(self) -> None:
        if self._n == N_POINTS_MAX:
            half = self._n // 2
            self._at[:half] = self._at[1::2]
            for name, column in self._columns.items():
                column[:half] = _merged(column[0::2], column[1::2], is_count(name))
                column[half:] = np.nan
            self._n, self._width = half, 2 * self._width
        self._n += 1
        self._n_in_last = 0
        self._counts.clear()

    def pause(self) -> None:
        """Nobody asks for the next result now."""
        with self._lock:
            if self._state == "running":
                self._state = "paused"
                self.n_changes += 1

    def end(self, state: RunState, why: str = "") -> None:
        """Learning is over, for the time being."""
        with self._lock:
            self._state, self._why, self._ended_at = state, why, time.time()
            self.n_changes += 1

    @property
    def is_over(self) -> bool:
        """Whether nothing is to come, unless it is trained again."""
        return is_over(self._state)

    def look(self) -> LearningView:
        """The run as it is now."""
        with self._lock:
            return LearningView(
                self._title,
                self._settings,
                self._state,
                self._why,
                self._began_at,
                self._ended_at,
                self._goal,
                self._n_results,
                self._width,
                self._last,
                self._at[: self._n].copy(),
                {name: column[: self._n].copy() for name, column in self._columns.items()},
            )


def is_over(state: RunState) -> bool:
    """Whether a run in that state has ended."""
    return state not in ("running", "paused")


def is_count(name: str) -> bool:
    """Whether a metric only grows, so that points have its latest value and not the mean."""
    return name == ITERATION or name.endswith("_total") or name == "time_total_s"


def _merged(first: Column, second: Column, is_counted: bool) -> Column:
    there = ~np.isnan(second)
    if is_counted:
        return np.where(there, second, first)
    both = there & ~np.isnan(first)
    return np.where(both, first + (second - first) / 2, np.where(there, second, first))
