"""An experiment without processes: trials that report by a seed, with a scheduler that decides which go on.

It does what an experiment's controller does, and is strict: a decision that names a trial which has ended, a trial that
ends twice, or a state in which nothing runs, nothing can, and the scheduler knows no way on, is a `Violation`.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cellmesh.tune.schedulers import Decision, Exploit, Pause, Resume, Scheduler, Stop, make

METRIC = "score"
MAX_STEPS = 20_000
KINDS = ("fifo", "stopping", "promotion", "hyperband", "median", "soft median", "pbt", "synchronous pbt")


class Violation(Exception):
    """Something that must not happen, with what led to it."""


@dataclass
class Member:
    """A trial."""

    config: dict[str, Any]
    state: str = "waiting"  # running, paused, over
    has_begun: bool = False
    time: int = 0
    theta: Any = None  # what it has learned, for functions that go by it
    last: dict[str, Any] | None = None


@dataclass
class World:
    """What is given: how many trials, how many at a time, and what can go wrong."""

    n_trials: int = 10
    capacity: int = 2
    ahead: int = 1  # trials that are made before there is room for them
    most_living: int | None = None  # as a limiter of concurrency has it
    length: int = 30  # after so many reports a trial ends by itself
    failures: float = 0.0  # of all steps
    set_backs: float = 0.0  # a trial begins again where it was some time ago
    stops: float = 0.0  # by the user, of any trial
    nan: float = 0.0
    stride: int = 1  # most that its time grows by
    coarse: bool = False
    tells_begins: bool = True
    keeps_own_time: bool = True  # after an exploit; else the donor's
    config: Callable[[int, random.Random], dict[str, Any]] = lambda trial, chance: {"lr": chance.random()}
    value: Callable[[Member, int, random.Random], float] | None = None


@dataclass
class Population:
    """The run of an experiment. `story`: everything that the scheduler was told, and what it decided."""

    scheduler: Scheduler
    world: World
    seed: int
    mode: str = "max"
    members: list[Member] = field(default_factory=list)
    story: list[tuple[str, tuple[Any, ...], list[Decision]]] = field(default_factory=list)
    n_ends: Counter[int] = field(default_factory=Counter)
    n_running: int = 0
    resumed: list[int] = field(default_factory=list)  # in the order in which they go on
    fresh: list[int] = field(default_factory=list)  # have not begun
    has_told_no_more: bool = False

    def run(self) -> Population:
        self.chance = random.Random(self.seed)
        self.scheduler.begin(METRIC, self.mode, np.random.default_rng(self.seed))
        for _ in range(MAX_STEPS):
            self.fill()
            running = [number for number, member in enumerate(self.members) if member.state == "running"]
            if running:
                self.step(self.chance.choice(running))
            elif self.is_over():
                return self
            else:
                self.unstarve()
        raise self.violation("it does not end")

    def is_over(self) -> bool:
        return self.has_told_no_more and all(member.state == "over" for member in self.members)

    def violation(self, what: str) -> Violation:
        tail = "\n".join(f"  {name}{arguments}: {decisions}" for name, arguments, decisions in self.story[-12:])
        states = Counter(member.state for member in self.members)
        return Violation(f"{what} (seed {self.seed}, {type(self.scheduler).__name__}, {dict(states)})\n{tail}")

    # ---- what happens
    def fill(self) -> None:
        """Launch what there is room for, and make trials for the room that is left."""
        while True:
            while self.n_running < self.world.capacity and (self.resumed or self.fresh):
                self.launch((self.resumed or self.fresh).pop(0))
            room = self.world.capacity - self.n_running
            if not self.may_add() or len(self.resumed) + len(self.fresh) >= room + self.world.ahead:
                if len(self.members) == self.world.n_trials and not self.has_told_no_more:
                    self.has_told_no_more = True
                    self.tell("on_no_more_trials")
                    continue
                return
            number = len(self.members)
            self.members.append(Member(self.world.config(number, self.chance)))
            self.fresh.append(number)
            self.tell("on_trial_add", number, dict(self.members[number].config))

    def may_add(self) -> bool:
        n_living = sum(member.state != "over" for member in self.members)
        return len(self.members) < self.world.n_trials and n_living < (self.world.most_living or math.inf)

    def launch(self, number: int) -> None:
        self.members[number].state = "running"
        self.members[number].has_begun = True
        self.n_running += 1
        if self.world.tells_begins:
            self.scheduler.on_trial_begin(number)
            self.story.append(("on_trial_begin", (number,), []))

    def step(self, number: int) -> None:
        member, drawn = self.members[number], self.chance.random()
        if member.time >= self.world.length:
            self.over(number)
            self.tell("on_trial_end", number, member.last, False)
        elif drawn < self.world.failures:
            self.over(number)
            self.tell("on_trial_end", number, member.last, True)
        elif drawn < self.world.failures + self.world.set_backs:
            member.time = self.chance.randint(0, member.time)
        elif drawn < self.world.failures + self.world.set_backs + self.world.stops:
            stopped = self.chance.choice([n for n, other in enumerate(self.members) if other.state != "over"])
            self.over(stopped)
            self.tell("on_trial_end", stopped, self.members[stopped].last, False)
        else:
            self.report(number, member)

    def report(self, number: int, member: Member) -> None:
        member.time += self.chance.randint(1, self.world.stride)
        member.last = {
            METRIC: self.value(number, member),
            "training_iteration": member.time,
            "time_total_s": float(member.time),
        }
        self.tell("on_trial_result", number, dict(member.last))

    def value(self, number: int, member: Member) -> float:
        if self.chance.random() < self.world.nan:
            return math.nan
        if self.world.value is not None:
            return self.world.value(member, number, self.chance)
        value = random.Random(number).gauss(0, 1) + 0.3 * self.chance.gauss(0, 1)
        return round(value * 2) / 2 if self.world.coarse else value

    def over(self, number: int) -> None:
        member = self.members[number]
        self.n_ends[number] += 1
        if self.n_ends[number] > 1:
            raise self.violation(f"trial {number} ends twice")
        self.n_running -= member.state == "running"
        for queue in (self.resumed, self.fresh):
            if number in queue:
                queue.remove(number)
        member.state = "over"

    def unstarve(self) -> None:
        before = [member.state for member in self.members]
        self.tell("on_starved")
        if [member.state for member in self.members] == before:
            raise self.violation("nothing runs, and nothing can")

    # ---- the scheduler
    def tell(self, name: str, *arguments: Any) -> None:
        decisions = list(getattr(self.scheduler, name)(*arguments))
        self.story.append((name, arguments, decisions))
        for decision in decisions:
            self.obey(decision)

    def obey(self, decision: Decision) -> None:
        number, member = decision.trial, self.members[decision.trial]
        if member.state == "over":
            raise self.violation(f"{decision} comes after its end")
        if isinstance(decision, Stop):
            self.over(number)
        elif isinstance(decision, Pause):
            if member.state == "paused":
                raise self.violation(f"{decision}, and it is paused")
            self.n_running -= member.state == "running"
            for queue in (self.resumed, self.fresh):
                if number in queue:
                    queue.remove(number)
            member.state = "paused"
        elif isinstance(decision, Resume):
            if member.state != "paused":
                raise self.violation(f"{decision}, and it is not paused")
            member.state = "waiting"
            self.resumed.append(number)
        else:
            self.exploit(number, member, decision)

    def exploit(self, number: int, member: Member, decision: Exploit) -> None:
        donor = self.members[decision.donor]
        if donor.state == "over" or (number == decision.donor and member.has_begun):
            raise self.violation(f"{decision}: no donor")
        member.config, member.theta = decision.config, donor.theta
        if not self.world.keeps_own_time:
            member.time = donor.time
        if member.state == "running":  # another process, which waits for room
            self.n_running -= 1
            member.state = "waiting"
            self.resumed.insert(0, number)


def replayed(
    story: Iterable[tuple[str, tuple[Any, ...], list[Decision]]], scheduler: Scheduler, mode: str, seed: int
) -> bool:
    """Whether the scheduler decides on the same events as it was decided then."""
    scheduler.begin(METRIC, mode, np.random.default_rng(seed))
    return all(list(getattr(scheduler, name)(*arguments) or ()) == decisions for name, arguments, decisions in story)


def negated(
    story: Iterable[tuple[str, tuple[Any, ...], list[Decision]]],
) -> list[tuple[str, tuple[Any, ...], list[Decision]]]:
    """The same with the metric's values negated."""
    return [(name, tuple(map(_negated, arguments)), decisions) for name, arguments, decisions in story]


def _negated(argument: Any) -> Any:
    return {**argument, METRIC: -argument[METRIC]} if isinstance(argument, Mapping) and METRIC in argument else argument


def scheduler_of(kind: str, seed: int) -> Scheduler:
    """A scheduler of one of the kinds, with options by the seed."""
    chance = random.Random(f"{kind} {seed}")
    if kind in ("stopping", "promotion"):
        options: dict[str, Any] = {
            "max_t": chance.choice((4, 9, 16)),
            "grace_period": chance.choice((1, 2)),
            "reduction_factor": chance.choice((2, 3, 4)),
            "brackets": chance.choice((1, 2)),
            "stop_last_trials": chance.random() < 0.7,
        }
        return make("asha", kind=kind, **options)
    if kind == "hyperband":
        options = {"max_t": chance.choice((4, 8, 9)), "reduction_factor": chance.choice((2, 3))}
        return make(kind, stop_last_trials=chance.random() < 0.7, **options)
    if kind in ("median", "soft median"):
        options = {"grace_period": chance.choice((0, 2)), "min_samples_required": chance.choice((1, 3))}
        return make(
            "median",
            time_attr="training_iteration",
            hard_stop=kind == "median",
            min_time_slice=chance.choice((0, 2)),
            **options,
        )
    if kind in ("pbt", "synchronous pbt"):
        options = {"perturbation_interval": chance.choice((1, 3)), "burn_in_period": chance.choice((0, 2))}
        mutations = {"lr": lambda: random.random()}
        return make(
            "pbt", time_attr="training_iteration", synch=kind != "pbt", hyperparam_mutations=mutations, **options
        )
    return make(kind)
