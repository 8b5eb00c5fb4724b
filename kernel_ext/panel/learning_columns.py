"""Runs of learning as columns, for one front end: what has changed since it was told last. Pure.

Times are told as seconds since an origin, when the session began.

Points are only added, but for the last one, which takes in further results until it is full. So a message has the
points from that one on, and all of them once neighbours have become one point.
"""

from __future__ import annotations

import math

import numpy as np

from ...observe.learning import LearningView
from ...text import in_one_line
from ..panel_messages import LearningArrays, LearningLabel, LearningPoints

TITLE_CHARS, SETTINGS_CHARS, WHY_CHARS, NAME_CHARS = 120, 400, 1000, 80


class LearningColumns:
    """What one front end knows of the points of runs."""

    def __init__(self) -> None:
        self._n = 0
        self._told: dict[int, tuple[int, int]] = {}  # of each run: its results, and those of a point, then

    def next(self, run: int, view: LearningView, origin: float) -> tuple[LearningPoints, LearningArrays] | None:
        """The next message about a run; None if there is nothing to tell."""
        n_results, n_per_point = self._told.get(run, (0, 0))
        if n_results == view.n_results:
            return None
        is_longer = n_per_point == view.n_per_point
        first = (n_results - 1) // n_per_point if is_longer else 0
        header, arrays = points_of(run, view, origin, first)
        header.n = self._n
        self._n += 1
        self._told[run] = view.n_results, view.n_per_point
        return header, arrays


def points_of(run: int, view: LearningView, origin: float, first: int = 0) -> tuple[LearningPoints, LearningArrays]:
    """The points of a run from the number `first` on, as a message."""
    values = np.stack([view.at[first:] - origin, *(column[first:] for column in view.columns.values())])
    metrics = [in_one_line(name, NAME_CHARS) for name in view.columns]
    header = LearningPoints(run=run, metrics=metrics, first=first, points=values.shape[1], values=values.size)
    return header, LearningArrays(values)


def label_of(run: int, view: LearningView, origin: float) -> LearningLabel:
    """A run in the list of all."""
    goal, goal_value = view.goal or ("", math.nan)
    return LearningLabel(
        run,
        in_one_line(view.title, TITLE_CHARS),
        in_one_line(view.settings, SETTINGS_CHARS),
        view.state,
        in_one_line(view.why, WHY_CHARS),
        view.began_at - origin,
        None if math.isnan(view.ended_at) else view.ended_at - origin,
        in_one_line(goal, NAME_CHARS),
        goal_value if math.isfinite(goal_value) else None,
        view.n_results,
    )
