"""The median stopping rule: a trial ends when it has never been as good as the others are on average."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from statistics import median
from typing import Any

from .built_in import WORST, is_number
from .protocol import Decision, Decisions, Pause, Resume, Stop
from .turns import TakesTurns, Turns


class _Curve:
    """What a trial has reported, in the order of time. Means begin at `since`."""

    def __init__(self, since: float) -> None:
        self.times: list[float] = []
        self._since = since
        self._sums = [0.0]
        self._best = [WORST]

    def add(self, time: float, score: float) -> None:
        """A result takes the place of those that are as late or later: the trial has been set back."""
        n = bisect_left(self.times, time)
        del self.times[n:], self._sums[n + 1 :], self._best[n + 1 :]
        self.times.append(time)
        self._sums.append(self._sums[-1] + (score if time >= self._since else 0.0))
        self._best.append(max(self._best[-1], score))

    @property
    def last_time(self) -> float:
        return self.times[-1] if self.times else -math.inf

    @property
    def best(self) -> float:
        return self._best[-1]

    def mean(self, until: float) -> float:
        """Over the results up to this time, included; NaN: there are none."""
        first, end = bisect_left(self.times, self._since), bisect_right(self.times, until)
        return self._sums[end] / (end - first) if end > first else math.nan


class MedianStopping(TakesTurns):
    """Stops a trial at time t if its best result so far is worse than the median of the running means of the others.

    Parameters
    ----------
    time_attr, metric, mode
        See `BuiltIn`.
    grace_period : float
        No trial is stopped before, and means begin here; in units of `time_attr` (seconds, unless it is given), >= 0.
    min_samples_required : int
        Other trials of which a mean is needed for a median; >= 1.
    min_time_slice : float
        Where there are not as many, and trials may be waiting, a trial yields to them after this time since it
        last did, in units of `time_attr`; >= 0. It goes on once there are, or when every trial has begun.
    hard_stop : bool
        Whether trials are stopped; else they are paused, and run to their ends after all others have come to theirs.

    Notes
    -----
    The others are all that have reported at t or later, whether they have ended or not (the paper takes those that have
    ended). Running mean: of what one of them reported from `grace_period` to t; it is the worst there can be where NaN
    is among that.

    References
    ----------
    D. Golovin, B. Solnik, S. Moitra, G. Kochanski, J. Karro, D. Sculley: Google Vizier: A Service for Black-Box
    Optimization. KDD 2017.
    """

    name = "median"

    def __init__(
        self,
        time_attr: str = "time_total_s",
        metric: str | None = None,
        mode: str | None = None,
        grace_period: float = 60.0,
        min_samples_required: int = 3,
        min_time_slice: float = 0,
        hard_stop: bool = True,
    ) -> None:
        super().__init__(time_attr, metric, mode)
        self._require("grace_period", is_number(grace_period) and grace_period >= 0, "a number >= 0")
        is_count = is_number(min_samples_required) and min_samples_required >= 1
        self._require("min_samples_required", is_count, "a whole number >= 1")
        self._require("min_time_slice", is_number(min_time_slice) and min_time_slice >= 0, "a number >= 0")
        self._grace_period = grace_period
        self._n_needed = min_samples_required
        self._slice = min_time_slice
        self._is_hard = hard_stop

    def _reset(self) -> None:
        self._curves: dict[int, _Curve] = {}  # of trials that have ended, too
        self._set_aside: list[int] = []  # would have been stopped; in that order
        self._is_free: set[int] = set()  # were set aside and run to their ends now
        self._yielded_at: dict[int, float] = {}
        self._turns = Turns()

    def on_trial_add(self, trial: int, config: Mapping[str, Any]) -> Decisions:
        self._curves[trial] = _Curve(self._grace_period)
        self._turns.add(trial)
        return ()

    def on_trial_result(self, trial: int, result: Mapping[str, Any]) -> Decisions:
        time, score = self._time(trial, result), self._score(trial, result)
        if trial in self._is_free or trial in self._set_aside:
            return ()
        self._curves[trial].add(time, score)
        self._turns.report(trial, time)
        decisions = self._judge(trial, time)
        return decisions + self._release()

    def on_trial_end(self, trial: int, result: Mapping[str, Any] | None, failed: bool) -> Decisions:
        if result is not None and not failed:
            self._curves[trial].add(self._time(trial, result), self._score(trial, result))
        self._forget(trial)
        return self._release()

    def _judge(self, trial: int, time: float) -> list[Decision]:
        if time < self._grace_period:
            return []
        means = self._means(trial, time)
        if len(means) < self._n_needed:
            return self._yield(trial, time)
        if self._curves[trial].best >= median(means):
            return []
        if self._is_hard:
            self._forget(trial)
            return [Stop(trial)]
        self._set_aside.append(trial)
        self._turns.end(trial)
        return [Pause(trial)]

    def _means(self, trial: int, time: float) -> list[float]:
        """The running means of the others that are as far."""
        others = (curve for other, curve in self._curves.items() if other != trial and curve.last_time >= time)
        means = (curve.mean(time) for curve in others)
        return [mean for mean in means if not math.isnan(mean)]

    def _yield(self, trial: int, time: float) -> list[Decision]:
        if time - self._yielded_at.get(trial, -math.inf) <= self._slice or not self._turns.others_wait(trial):
            return []
        self._yielded_at[trial] = time
        self._turns.hold(trial)
        return [Pause(trial)]

    def _forget(self, trial: int) -> None:
        if trial in self._set_aside:
            self._set_aside.remove(trial)
        elif trial in self._turns.times:
            self._turns.end(trial)

    def _release(self) -> list[Decision]:
        decisions = self._release_where(
            lambda trial: (
                self._turns.all_have_begun() or len(self._means(trial, self._turns.times[trial])) >= self._n_needed
            )
        )
        if self._set_aside and not self._turns.has_more and not self._turns.times:
            decisions += [Resume(trial) for trial in self._set_aside]
            self._is_free.update(self._set_aside)
            self._set_aside.clear()
        return decisions
