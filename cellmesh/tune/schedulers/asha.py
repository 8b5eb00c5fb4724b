"""Asynchronous successive halving.

Rungs stand at times `grace_period * reduction_factor**k`. At each, a trial goes on if it is among the best
1/reduction_factor of those that have been there. There are two ways to do this without waiting for anybody:

- "promotion", the algorithm of the paper: a trial pauses at a rung, and goes on once it is among the best. What goes
  on is the best that is known by then; but most trials end as paused ones, and a pause needs a checkpoint or holds a
  process.
- "stopping", what Ray does: a trial that reaches a rung and is not among the best of those before it is stopped at
  once, the others go on. No trial ever waits, nothing need be saved; the first ones to reach a rung go on without
  deserving it.

"stopping" is the default: trials need no checkpoints for it, and programs written for Ray decide as they did.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from .built_in import BuiltIn, is_number, is_positive
from .protocol import Decision, Decisions, Pause, Resume, Stop
from .rungs import Quantile, Split


@dataclass
class _Rung:
    """Who has been here. `trials` in their order of arrival."""

    cutoff: Quantile
    split: Split
    trials: list[int] = field(default_factory=list)
    promoted: set[int] = field(default_factory=set)


@dataclass
class _Bracket:
    times: list[float]  # of its rungs, ascending
    rungs: list[_Rung]


@dataclass(slots=True)
class _Trial:
    bracket: _Bracket
    rung: int = -1  # the last one that it has reached
    score: float = -math.inf  # there
    is_paused: bool = False


class ASHA(BuiltIn):
    """Asynchronous successive halving (ASHA).

    Parameters
    ----------
    time_attr, metric, mode
        See `BuiltIn`.
    max_t : float
        Trials end when they are this far, in units of `time_attr`; > 0.
    grace_period : float
        Time of the first rung: no trial is stopped before; 0 < grace_period <= max_t.
    reduction_factor : float
        One in so many goes on at a rung, so many times further; > 1.
    brackets : int
        >= 1. In bracket s the first s rungs are left out. Trials are dealt to brackets at random, with weights
        `exp(number of rungs)`.
    stop_last_trials : bool
        Whether trials end at `max_t`; else those that come through the last rung run until they end by themselves.
    kind : {"stopping", "promotion"}
        See the module. With "promotion" a trial that never becomes one of the best stays paused until nothing else is
        left to do. If no trial has been through by then, the best one of the highest rung goes on; else those that
        are paused end.

    Notes
    -----
    With "stopping" the limit at a rung is the (1 - 1/reduction_factor) quantile, interpolated linearly, of the scores
    that came before. With "promotion" the best `floor(n / reduction_factor)` of n go on, as in the paper.

    References
    ----------
    L. Li, K. Jamieson, A. Rostamizadeh, E. Gonina, M. Hardt, B. Recht, A. Talwalkar: A System for Massively Parallel
    Hyperparameter Tuning. MLSys 2020, arXiv:1810.05934. Algorithm 2.
    """

    name = "asha"

    def __init__(
        self,
        time_attr: str = "training_iteration",
        metric: str | None = None,
        mode: str | None = None,
        max_t: float = 100,
        grace_period: float = 1,
        reduction_factor: float = 4,
        brackets: int = 1,
        stop_last_trials: bool = True,
        kind: Literal["stopping", "promotion"] = "stopping",
    ) -> None:
        super().__init__(time_attr, metric, mode)
        self._require("max_t", is_positive(max_t), "a number > 0")
        in_range = is_positive(grace_period) and grace_period <= max_t
        self._require("grace_period", in_range, f"a number > 0 and at most max_t, which is {max_t}")
        self._require("reduction_factor", is_number(reduction_factor) and reduction_factor > 1, "a number > 1")
        self._require("brackets", is_positive(brackets) and brackets == int(brackets), "a whole number >= 1")
        self._require("kind", kind in ("stopping", "promotion"), '"stopping" or "promotion"')
        self._max_t = max_t
        self._factor = reduction_factor
        self._stops_last = stop_last_trials
        self._promotes = kind == "promotion"
        self._times = rung_times(grace_period, max_t, reduction_factor)
        self._n_brackets = int(brackets)

    def _reset(self) -> None:
        self._brackets = [
            _Bracket(times, [self._rung() for _ in times])
            for times in (self._times[s:] for s in range(self._n_brackets))
        ]
        sizes = [len(bracket.rungs) for bracket in self._brackets]
        weights = [math.exp(size - max(sizes)) for size in sizes]
        self._shares = [weight / sum(weights) for weight in weights]
        self._trials: dict[int, _Trial] = {}
        self._is_through = False  # some trial has come to its end
        self._has_more = True

    def _rung(self) -> _Rung:
        # The order of these operations is numpy's for a percentile, so that equal scores compare equal there and here.
        q = (1 - 1 / self._factor) * 100 / 100
        return _Rung(Quantile(q), Split(lambda n: math.floor(n / self._factor)))

    def on_trial_add(self, trial: int, config: Mapping[str, Any]) -> Decisions:
        bracket = int(self.rng.choice(len(self._brackets), p=self._shares)) if len(self._brackets) > 1 else 0
        self._trials[trial] = _Trial(self._brackets[bracket])
        return ()

    def on_trial_result(self, trial: int, result: Mapping[str, Any]) -> Decisions:
        time, score = self._time(trial, result), self._score(trial, result)
        if time >= self._max_t and self._stops_last:
            del self._trials[trial]
            self._is_through = True
            return [Stop(trial)]
        return self._record(trial, time, score)

    def on_trial_end(self, trial: int, result: Mapping[str, Any] | None, failed: bool) -> Decisions:
        """A trial that has ended by itself counts at the rung that it has reached, a failed one where it was before."""
        decisions: list[Decision] = []
        if result is not None and not failed and not self._trials[trial].is_paused:
            decisions = [
                d
                for d in self._record(trial, self._time(trial, result), self._score(trial, result))
                if d.trial != trial
            ]
            self._is_through = True
        self._trials.pop(trial, None)
        return decisions

    def on_no_more_trials(self) -> Decisions:
        self._has_more = False
        return ()

    def on_starved(self) -> Decisions:
        paused = [number for number, trial in self._trials.items() if trial.is_paused]
        paused.sort(key=lambda number: (self._trials[number].rung, self._trials[number].score, -number))
        if not paused:
            return ()
        if not self._is_through:
            return [self._resume(paused[-1])]
        ended = paused[:1] if self._has_more else paused
        for number in ended:
            del self._trials[number]
        return [Stop(number) for number in ended]

    def _record(self, number: int, time: float, score: float) -> list[Decision]:
        """What follows from a result: nothing, unless the trial has come to another rung."""
        trial = self._trials[number]
        index = bisect_right(trial.bracket.times, time) - 1
        if index <= trial.rung:
            return []
        trial.rung, trial.score = index, score
        rung = trial.bracket.rungs[index]
        return self._promote(number, rung, score) if self._promotes else self._cut(number, rung, score)

    def _cut(self, number: int, rung: _Rung, score: float) -> list[Decision]:
        limit = rung.cutoff.value()
        rung.cutoff.add(score)
        if limit is None or score >= limit:
            return []
        del self._trials[number]
        return [Stop(number)]

    def _promote(self, number: int, rung: _Rung, score: float) -> list[Decision]:
        """One score more makes at most one trial one of the best. It may be this one."""
        rung.trials.append(number)
        entered = rung.split.add(score)
        best = None if entered is None else rung.trials[entered]
        if best is not None and best not in rung.promoted:
            rung.promoted.add(best)
            if best == number:
                return []
        else:
            best = None
        self._trials[number].is_paused = True
        decisions: list[Decision] = [Pause(number)]
        if best in self._trials and self._trials[best].is_paused:
            decisions.append(self._resume(best))
        return decisions

    def _resume(self, number: int) -> Resume:
        trial = self._trials[number]
        trial.is_paused = False
        trial.bracket.rungs[trial.rung].promoted.add(number)
        return Resume(number)


def rung_times(grace_period: float, max_t: float, reduction_factor: float) -> list[float]:
    """`grace_period * reduction_factor**k` for k = 0, 1, ..., as far as `max_t`."""
    times: list[float] = []
    while (time := grace_period * reduction_factor ** len(times)) <= max_t:
        times.append(time)
    return times
