"""HyperBand: successive halving with several trade-offs between many short trials and few long ones.

A trial belongs to a bracket. All trials of a bracket run to the time of its first rung and pause there; the best go
on to the next rung, the others end; and so on. A bracket decides at a rung when

- it takes no more trials: it is full, or no more are to come (then it goes on with those it has), and
- every trial that still lives is there. A trial that has ended or failed on the way counts as one that was there and
  is not among the best; whoever it leaves behind is not waited for.

Brackets fill one after another, from the one that halves least, as in Ray. When each has been filled once, they begin
anew.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from .built_in import WORST, BuiltIn, is_number, is_positive
from .protocol import Decision, Decisions, Pause, Resume, Stop


@dataclass
class _Trial:
    time: float = 0.0
    score: float = WORST
    is_paused: bool = False


@dataclass
class _Bracket:
    size: int  # trials that it takes
    times: list[float]  # of its rungs
    n_added: int = 0
    is_closed: bool = False  # takes no more trials
    rung: int = 0  # the one that its trials are on their way to
    n_kept: int = 0  # trials that may be on their way to it
    live: dict[int, _Trial] = field(default_factory=dict)  # in the order of their making

    def close(self) -> None:
        self.is_closed, self.n_kept = True, self.n_added

    @property
    def time(self) -> float:
        return self.times[self.rung]

    @property
    def is_last(self) -> bool:
        return self.rung == len(self.times) - 1

    @property
    def all_there(self) -> bool:
        return all(trial.time >= self.time for trial in self.live.values())


class HyperBand(BuiltIn):
    """Synchronous HyperBand.

    Parameters
    ----------
    time_attr, metric, mode
        See `BuiltIn`.
    max_t : float
        How far a trial goes at most, in units of `time_attr`; >= 1. R in the paper.
    reduction_factor : float
        One in so many goes on at a rung, so many times further; > 1. Eta in the paper.
    stop_last_trials : bool
        Whether trials end at the last rung of their bracket; else they run until they end by themselves.

    Notes
    -----
    With max_t=81 and reduction_factor=3 (`hyperband_table`): brackets of 5, 8, 15, 34 and 81 trials, whose first
    rungs stand at 81, 27, 9, 3 and 1. Of equal scores the trial that was made later is better.

    References
    ----------
    L. Li, K. Jamieson, G. DeSalvo, A. Rostamizadeh, A. Talwalkar: Hyperband: A Novel Bandit-Based Approach to
    Hyperparameter Optimization. JMLR 18 (2018), arXiv:1603.06560. Algorithm 1.
    """

    name = "hyperband"

    def __init__(
        self,
        time_attr: str = "training_iteration",
        metric: str | None = None,
        mode: str | None = None,
        max_t: float = 81,
        reduction_factor: float = 3,
        stop_last_trials: bool = True,
    ) -> None:
        super().__init__(time_attr, metric, mode)
        self._require("max_t", is_positive(max_t) and max_t >= 1, "a number >= 1")
        self._require("reduction_factor", is_number(reduction_factor) and reduction_factor > 1, "a number > 1")
        self._table = hyperband_table(max_t, reduction_factor)
        self._factor = reduction_factor
        self._stops_last = stop_last_trials

    def _reset(self) -> None:
        self._open: _Bracket | None = None  # takes more trials
        self._n_opened = 0
        self._bracket_of: dict[int, _Bracket] = {}  # of each living trial

    def on_trial_add(self, trial: int, config: Mapping[str, Any]) -> Decisions:
        if self._open is None:
            size, times = self._table[self._n_opened % len(self._table)]
            self._open, self._n_opened = _Bracket(size, times), self._n_opened + 1
        bracket = self._bracket_of[trial] = self._open
        bracket.live[trial] = _Trial()
        bracket.n_added += 1
        if bracket.n_added == bracket.size:
            bracket.close()
            self._open = None
        return ()

    def on_trial_result(self, trial: int, result: Mapping[str, Any]) -> Decisions:
        bracket = self._bracket_of[trial]
        mine = bracket.live[trial]
        mine.time, mine.score = self._time(trial, result), self._score(trial, result)
        if mine.time < bracket.time or (bracket.is_last and not self._stops_last):
            return ()
        if bracket.is_last:
            self._forget(trial)
            return [Stop(trial), *self._advance(bracket)]
        decisions = self._advance(bracket)
        if Resume(trial) in decisions:  # it never paused
            decisions.remove(Resume(trial))
        elif Stop(trial) not in decisions:
            mine.is_paused = True
            decisions.insert(0, Pause(trial))
        return decisions

    def on_trial_end(self, trial: int, result: Mapping[str, Any] | None, failed: bool) -> Decisions:
        bracket = self._bracket_of[trial]
        self._forget(trial)
        return self._advance(bracket)

    def on_no_more_trials(self) -> Decisions:
        return self._close()

    def on_starved(self) -> Decisions:
        """The bracket that waits for more trials goes on with those that it has; later ones get another bracket."""
        return self._close()

    def _close(self) -> list[Decision]:
        if (bracket := self._open) is None:
            return []
        bracket.close()
        self._open = None
        return self._advance(bracket)

    def _forget(self, trial: int) -> None:
        del self._bracket_of.pop(trial).live[trial]

    def _advance(self, bracket: _Bracket) -> list[Decision]:
        """Halve as often as all trials have come to a rung. Who is there has paused, or waits for this answer."""
        decisions: list[Decision] = []
        while bracket.is_closed and bracket.live and not bracket.is_last and bracket.all_there:
            bracket.rung += 1
            bracket.n_kept = math.ceil(bracket.n_kept / self._factor)
            best_last = sorted(bracket.live, key=lambda trial: bracket.live[trial].score)
            for trial in best_last[: -bracket.n_kept]:
                self._forget(trial)
                decisions.append(Stop(trial))
            for trial in reversed(best_last[-bracket.n_kept :]):
                decisions += self._let_go(bracket, trial)
        return decisions

    def _let_go(self, bracket: _Bracket, trial: int) -> list[Decision]:
        """A trial that has come through goes on, unless it is beyond the next rung already."""
        if (bracket.is_last and not self._stops_last) or bracket.live[trial].time < bracket.time:
            bracket.live[trial].is_paused = False
            return [Resume(trial)]
        if bracket.is_last:
            self._forget(trial)
            return [Stop(trial)]
        return []


def hyperband_table(max_t: float, reduction_factor: float) -> list[tuple[int, list[float]]]:
    """The brackets: number of trials, and the times of the rungs, for s = 0, 1, ... halvings.

    There are `round(log(max_t, eta)) + 1`. Bracket s takes `ceil(number / (s + 1) * eta**s)` trials; its first rung
    stands at `floor(max_t / eta**s)`, each further one at eta times the last one, cut to whole numbers and to
    `max_t`. Brackets whose first rung would stand at 0 are left out.
    """
    number = round(math.log(max_t) / math.log(reduction_factor)) + 1
    table: list[tuple[int, list[float]]] = []
    for s in count():
        first = math.floor(max_t / reduction_factor**s)
        if s == number or not first:
            return table
        times: list[float] = [first]
        while len(times) <= s:
            times.append(math.floor(min(times[-1] * reduction_factor, max_t)))
        table.append((math.ceil(number / (s + 1) * reduction_factor**s), times))
    return table
