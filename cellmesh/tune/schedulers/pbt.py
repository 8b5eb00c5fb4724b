"""Population based training.

All trials of an experiment are one population. Each time a trial has gone on for `perturbation_interval`, it is
looked at: one of the worst goes on from the checkpoint of one of the best, with its configuration changed a little
(exploit, then explore). Trials must therefore report checkpoints, and begin from one that they are given.

A population is often larger than the machine. Then trials take turns: one that is an interval ahead of another that
may be waiting for room pauses until that one has come after it (`Turns`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import explore, policy
from .built_in import WORST, is_number, is_positive
from .protocol import Decision, Decisions, Exploit, Pause, Resume
from .turns import TakesTurns, Turns


@dataclass
class _Member:
    """A living trial of the population."""

    config: Mapping[str, Any]
    time: float = 0.0  # at its last look
    score: float | None = None  # then; None: there was none
    iteration: int = 0  # of its last report
    since: frozenset[float] = frozenset((0.0,))  # times from one of which its interval counts; several after an exploit
    is_there: bool = False  # synchronous: waits for the others


@dataclass(frozen=True)
class _Exploited:
    """How a configuration came about; `before`: how the donor's did."""

    row: policy.Row
    before: _Exploited | None


class PBT(TakesTurns):
    """Population based training (PBT).

    Parameters
    ----------
    time_attr, metric, mode
        See `BuiltIn`; time is in seconds, unless `time_attr` is given.
    perturbation_interval : float
        How far a trial goes between two looks at it, in units of `time_attr`; > 0.
    burn_in_period : float
        No trial is looked at before; >= 0.
    hyperparam_mutations : dict
        For each key of the configuration that may change, where its values come from: a list of values, of which
        neighbours are alike; a domain such as `tune.uniform(0, 1)`; a function of no argument, or of the
        `numpy.random.Generator` to draw from; a dict of the same for a nested configuration. A key that a trial's
        configuration lacks is drawn.
    quantile_fraction : float
        Part of the population that is "the worst", and part that is "the best", at most half of it each; 0 to 0.5. 0:
        none.
    resample_probability : float
        How often a value is drawn anew, instead of changed a little; 0 to 1.
    perturbation_factors : sequence of float
        By one of which a number is multiplied.
    custom_explore_fn : callable, optional
        Gets the changed configuration, and returns the one to use. What it draws from `random` and `numpy.random` is
        the same in each run. It or `hyperparam_mutations` must be given.
    log_config : bool
        Whether `policy` remembers how configurations came about.
    require_attrs : bool
        Whether a result without `time_attr` or metric is an error; else it is passed over.
    synch : bool
        Whether all trials pause until each has gone on for the interval, and are then looked at together.

    Notes
    -----
    The population is all trials that there will be, so their number must be fixed: with `num_samples=-1` each would
    wait for all the others to begin.

    References
    ----------
    M. Jaderberg et al.: Population Based Training of Neural Networks. 2017, arXiv:1711.09846. Truncation
    selection; perturb or resample.
    """

    name = "pbt"
    needs_checkpoints = True
    needs_count = True

    def __init__(
        self,
        time_attr: str = "time_total_s",
        metric: str | None = None,
        mode: str | None = None,
        perturbation_interval: float = 60.0,
        burn_in_period: float = 0.0,
        hyperparam_mutations: Mapping[str, Any] | None = None,
        quantile_fraction: float = 0.25,
        resample_probability: float = 0.25,
        perturbation_factors: Sequence[float] = (1.2, 0.8),
        custom_explore_fn: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        log_config: bool = True,
        require_attrs: bool = True,
        synch: bool = False,
    ) -> None:
        super().__init__(time_attr, metric, mode)
        self._mutations = {} if hyperparam_mutations is None else hyperparam_mutations
        self._require("perturbation_interval", is_positive(perturbation_interval), "a number > 0")
        self._require("burn_in_period", is_number(burn_in_period) and burn_in_period >= 0, "a number >= 0")
        self._require("hyperparam_mutations", isinstance(self._mutations, Mapping), "a dict")
        for wrong in explore.unusable(self._mutations):
            raise ValueError(
                f"{wrong}: give a list of values, a domain such as tune.uniform(0, 1), a function or a dict"
            )
        self._require(
            "quantile_fraction", is_number(quantile_fraction) and 0 <= quantile_fraction <= 0.5, "from 0 to 0.5"
        )
        is_probability = is_number(resample_probability) and 0 <= resample_probability <= 1
        self._require("resample_probability", is_probability, "from 0 to 1")
        are_factors = len(perturbation_factors) > 0 and all(map(is_number, perturbation_factors))
        self._require("perturbation_factors", are_factors, "numbers, at least one")
        self._require(
            "custom_explore_fn", custom_explore_fn is None or callable(custom_explore_fn), "a function of a dict"
        )
        if not self._mutations and custom_explore_fn is None:
            raise ValueError("PBT needs hyperparam_mutations or custom_explore_fn: what may it change?")
        self._interval = perturbation_interval
        self._burn_in = burn_in_period
        self._fraction = quantile_fraction
        self._resample_probability = resample_probability
        self._factors = perturbation_factors
        self._custom = custom_explore_fn
        self._logs = log_config
        self._requires = require_attrs
        self._waits = synch

    def _reset(self) -> None:
        self._members: dict[int, _Member] = {}
        self._turns = Turns()
        self._meet_at = max(self._interval, self._burn_in)  # synchronous
        self._origins: dict[int, _Exploited] = {}  # of all trials that have exploited another one

    def policy(self, trial: int) -> list[policy.Row]:
        """How the trial's configuration came about, for `PBTReplay`; nothing: it is the one that it began with."""
        found: list[policy.Row] = []
        origin = self._origins.get(trial)
        while origin is not None:
            found.append(origin.row)
            origin = origin.before
        return found[::-1]

    def on_trial_add(self, trial: int, config: Mapping[str, Any]) -> Decisions:
        """What it lacks is drawn. A trial that exploits itself before it has begun changes its configuration alone."""
        is_complete = not explore.lacking(config, self._mutations)
        config = explore.copied(config) if is_complete else explore.completed(config, self._mutations, self.rng)
        self._members[trial] = _Member(config)
        self._turns.add(trial)
        return [] if is_complete else [Exploit(trial, trial, explore.copied(config))]

    def on_trial_result(self, trial: int, result: Mapping[str, Any]) -> Decisions:
        if not self._requires and not {self.time_attr, self.metric} <= result.keys():
            return ()
        time, score = self._time(trial, result), self._score(trial, result)
        member = self._members[trial]
        member.iteration = result.get("training_iteration", 0)
        since = _last_before(time, member.since)
        member.since = frozenset((since,))
        self._turns.report(trial, time)
        if self._waits:
            return self._arrive(trial, member, time, score)
        if time < self._burn_in or time - since < self._interval:
            return self._release()
        member.time, member.score, member.since = time, score, frozenset((time,))
        worst, best = self._quantiles()
        decisions: list[Decision] = [self._exploit(trial, best)] if trial in worst and best else []
        if self._turns.is_ahead(trial, self._interval):
            self._turns.hold(trial)
            decisions.append(Pause(trial))
        return decisions + self._release()

    def on_trial_end(self, trial: int, result: Mapping[str, Any] | None, failed: bool) -> Decisions:
        del self._members[trial]
        self._turns.end(trial)
        return self._release()

    # ---- who goes on
    def _release(self) -> list[Decision]:
        if self._waits:
            return self._meet()
        return self._release_where(lambda trial: not self._turns.is_ahead(trial, self._interval))

    def _arrive(self, trial: int, member: _Member, time: float, score: float) -> list[Decision]:
        """Synchronous: a trial that has come far enough waits for the others."""
        if time < self._meet_at:
            return []
        member.time, member.score, member.is_there = time, score, True
        decisions = self._meet()
        return [decision for decision in decisions if decision != Resume(trial)] if decisions else [Pause(trial)]

    def _meet(self) -> list[Decision]:
        """Synchronous: once all are there, look at them together, and let them go on, the one least far first."""
        if self._turns.has_more or not self._members or not all(member.is_there for member in self._members.values()):
            return []
        worst, best = self._quantiles()
        decisions: list[Decision] = [self._exploit(trial, best) for trial in worst] if best else []
        furthest = max(member.time for member in self._members.values())
        self._meet_at = furthest + self._interval
        for trial in sorted(self._members, key=lambda trial: (self._members[trial].time, trial)):
            self._members[trial].is_there = False
            decisions.append(Resume(trial))
        return decisions

    # ---- exploit and explore
    def _quantiles(self) -> tuple[list[int], list[int]]:
        """The worst and the best of those that have been looked at. One that reported NaN is never among the best."""
        ranked = sorted(
            (t for t, m in self._members.items() if m.score is not None), key=lambda t: self._members[t].score or 0.0
        )
        n = min(math.ceil(len(ranked) * self._fraction), len(ranked) // 2)
        return ranked[:n], [t for t in ranked[len(ranked) - n :] if self._members[t].score != WORST]

    def _exploit(self, trial: int, best: Sequence[int]) -> Exploit:
        member = self._members[trial]
        number = best[int(self.rng.integers(len(best)))]
        donor = self._members[number]
        config = explore.explored(donor.config, self._mutations, self.rng, self._resample_probability, self._factors)
        if self._custom is not None:
            config = explore.customized(config, self._custom, self._mutations, self.rng)
        if self._logs:
            row = policy.Row(trial, number, member.iteration, donor.iteration, dict(donor.config), config)
            self._origins[trial] = _Exploited(row, self._origins.get(number))
        member.config, member.since = config, member.since | donor.since
        return Exploit(trial, number, explore.copied(config))


def _last_before(time: float, times: Collection[float]) -> float:
    """The latest of the times before this one.

    After an exploit a trial's time goes on from the donor's if the checkpoint has it, else from its own: its first
    report tells from which.
    """
    return max((other for other in times if other < time), default=min(times))
