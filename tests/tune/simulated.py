"""An experiment without processes: a controller, a world that misbehaves by a seed, and what must hold after every
step.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from cellmesh.tune.control import actions as c
from cellmesh.tune.control.controller import Controller
from cellmesh.tune.control.trial import Process, State
from cellmesh.tune.records import (
    Asked,
    Capacity,
    Definition,
    Ended,
    Event,
    NoneLeft,
    Opened,
    Reported,
    Saved,
    Suggested,
)
from cellmesh.tune.schedulers.protocol import Decision, Exploit, Pause, Resume, Scheduler, Stop

DEFINITION = Definition(
    trainable="f", space={}, scheduler={}, search=None, stop=None, num_samples=1, seed=0, resources={}
)


class Whims(Scheduler):
    """Decides anything at any time, by a seed; when it is starved, it resumes or stops everything."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.configs: dict[int, Any] = {}

    def on_trial_add(self, trial: int, config: Any) -> list[Decision]:
        self.configs[trial] = config
        return []

    def on_trial_result(self, trial: int, result: Any) -> list[Decision]:
        mine = self.random.choice(
            (
                [],
                [],
                [],
                [Stop(trial)],
                [Pause(trial)],
                [Exploit(trial, self.random.choice(list(self.configs)), {"x": -1})],
            )
        )
        other = self.random.choice(list(self.configs))
        return mine + self.random.choice(([], [], [Resume(other)], [Pause(other)], [Stop(other)]))

    def on_trial_end(self, trial: int, result: Any, failed: bool) -> list[Decision]:
        return [Resume(self.random.choice(list(self.configs)))] if self.random.random() < 0.3 else []

    def on_no_more_trials(self) -> list[Decision]:
        return [Resume(trial) for trial in self.configs]

    def on_starved(self) -> list[Decision]:
        return [self.random.choice((Resume, Stop))(trial) for trial in self.configs]


@dataclass
class Attempt:
    """A process of a trial."""

    trial: int
    number: int
    iteration: int
    length: int
    waits: bool = False
    word: str = ""  # that it was told last
    interrupted: bool = False


class World:
    """Processes and a searcher. `run` goes on until the experiment is over."""

    def __init__(
        self,
        seed: int,
        plan: c.Plan,
        scheduler: Scheduler,
        n_trials: int,
        faults: bool = True,
        machines: Sequence[int] = (),
    ) -> None:
        """`machines`: their CPUs, where each trial takes some of its own; they stay the same."""
        self.random = random.Random(seed)
        self.faults, self.machines = faults, machines
        self.make: Callable[[], Controller] = lambda: Controller(plan, scheduler)
        self.controller = self.make()
        self.attempts: dict[tuple[int, int], Attempt] = {}
        self.old: list[Attempt] = []  # processes that reports of an attempt given up may come from
        self.n_trials, self.n_suggested, self.n_asked = n_trials, 0, 0
        self.events: list[Event] = []
        self.ends: dict[int, int] = {}
        self.finished: c.Finish | None = None
        self.now = 0.0
        self.deleted: set[str] = set()

    def run(self, most: int = 20_000) -> None:
        self.do(self.capacity())
        for _ in range(most):
            if self.finished:
                break
            event = self.next_event()
            assert event is not None, f"nothing can happen, and it is not over: {self.describe()}"
            self.do(event)
        else:
            raise AssertionError(f"it goes on for ever: {self.describe()}")
        assert all(t.is_over for t in self.controller.trials)
        assert all(n == 1 for n in self.ends.values()) and len(self.ends) == len(self.controller.trials)

    def describe(self) -> str:
        return ", ".join(
            f"{t.number} {t.state.value} {t.process.value}" for t in self.controller.trials if not t.is_over
        )

    def do(self, event: Event) -> None:
        self.events.append(event)
        for action in self.controller.step(event):
            self.perform(action)
        self.check()

    def perform(self, action: c.Action) -> None:
        match action:
            case c.Suggest():
                self.n_asked += 1
            case c.Launch(trial, attempt):
                saved = self.controller.trials[trial].checkpoint
                assert saved is None or saved.path not in self.deleted, f"{saved} was deleted"
                at = saved.iteration if saved else 0
                assert not any(a.trial == trial for a in self.attempts.values()), f"trial {trial} runs twice"
                self.attempts[trial, attempt] = Attempt(trial, attempt, at, at + self.random.randint(0, 6))
            case c.Answer(trial, attempt, word):
                one = self.attempts.get((trial, attempt))
                if one is not None:
                    assert one.waits, f"trial {trial} does not wait for an answer"
                    one.waits, one.word = False, word
            case c.Interrupt(trial, attempt):
                self.attempts[trial, attempt].interrupted = True
            case c.Note(trial, State.TERMINATED | State.ERROR, _):
                self.ends[trial] = self.ends.get(trial, 0) + 1
            case c.Forget(saved):
                self.deleted.add(saved.path)
            case c.Finish():
                self.finished = action

    def next_event(self) -> Event | None:
        self.now += self.random.random()
        could: list[Callable[[], Event]] = []
        if self.n_asked:
            could += [self.suggestion] * 3
        for attempt in self.attempts.values():
            if not attempt.waits:
                could.append(lambda attempt=attempt: self.life(attempt))
            elif self.faults and self.random.random() < 0.02:
                could.append(lambda attempt=attempt: self.end(attempt, "lost"))
        if self.faults and could and self.random.random() < 0.15:
            could = [self.disturbance]
        if not could and any(t.paused_by == "user" for t in self.controller.trials):
            could.append(lambda: Asked(at=self.now, what="resume"))
        return self.random.choice(could)() if could else None

    def capacity(self) -> Event:
        if self.machines:
            return Capacity(at=self.now, n=1000, nodes=[{"CPU": float(n)} for n in self.machines])
        return Capacity(at=self.now, n=self.random.randint(1, 4))

    def suggestion(self) -> Event:
        self.n_asked -= 1
        if self.n_suggested == self.n_trials:
            return NoneLeft(at=self.now)
        if any(self.attempts) and self.random.random() < 0.1:
            return NoneLeft(at=self.now, later=True)
        self.n_suggested += 1
        resources = self.resources() if self.machines else None
        config = {"x": self.random.random()}
        return Suggested(at=self.now, trial=self.n_suggested - 1, config=config, resources=resources)

    def resources(self) -> dict[str, Any]:
        """What a trial takes: CPUs, or some bundles of them, sometimes more than any machine has."""
        n = self.random.choice((0, 1, 1, 2, 3, 9))
        if self.random.random() < 0.6:
            return {"num_cpus": n}
        bundles = [{"CPU": 1.0}, {"CPU": float(max(1, n))}, *([{"CPU": 1.0}] * (n % 3))]
        strategy = self.random.choice(("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"))
        return {"num_cpus": 1, "bundles": bundles, "strategy": strategy}

    def life(self, attempt: Attempt) -> Event:
        if attempt.interrupted or attempt.word == "stop":
            return self.end(attempt, "stopped")
        if attempt.word == "pause":
            return self.end(attempt, "paused")
        if self.faults and self.random.random() < 0.05:
            return self.end(attempt, self.random.choice(("failed", "lost")))
        if attempt.iteration >= attempt.length:
            return self.end(attempt, "done")
        attempt.iteration += 1
        attempt.waits = True
        saved = self.saved(attempt) if self.random.random() < 0.3 else None
        result = {"score": self.random.random(), "training_iteration": attempt.iteration}
        if self.random.random() < 0.02:
            result["done"] = True
        return Reported(at=self.now, trial=attempt.trial, attempt=attempt.number, result=result, checkpoint=saved)

    def saved(self, attempt: Attempt) -> Saved:
        return Saved(
            f"{attempt.trial}-{attempt.number}-{attempt.iteration}-{self.random.random()}", attempt.iteration, 0.0
        )

    def end(self, attempt: Attempt, outcome: Any) -> Event:
        del self.attempts[attempt.trial, attempt.number]
        self.old.append(attempt)
        saves = outcome == "paused" and self.controller.plan.can_save
        return Ended(
            at=self.now,
            trial=attempt.trial,
            attempt=attempt.number,
            outcome=outcome,
            checkpoint=self.saved(attempt) if saves else None,
            error="it broke" if outcome == "failed" else "",
        )

    def disturbance(self) -> Event:
        kind = self.random.randrange(6)
        if kind == 0:
            return self.capacity()
        if kind == 1 and self.old:  # late: of an attempt that is over
            late = self.random.choice(self.old)
            return Reported(at=self.now, trial=late.trial, attempt=late.number, result={"score": 1.0})
        if kind == 2 and self.old:
            late = self.random.choice(self.old)
            return Ended(at=self.now, trial=late.trial, attempt=late.number, outcome="done")
        if kind == 3 and self.random.random() < 0.2:
            self.attempts.clear()
            self.n_asked = 0
            # If the experiment was about to end: what it has cut off goes on, and what was not heard is asked again.
            self.n_suggested = len(self.controller.trials)
            for trial in self.controller.trials:
                if trial.is_cut:
                    del self.ends[trial.number]
            self.do(Opened(at=self.now, version=1, name="x", plan={}, definition=DEFINITION))
            return self.capacity()
        if self.controller.trials:
            what: Any = self.random.choice(("pause", "resume", "resume", "stop") if kind == 4 else ("pause", "resume"))
            return Asked(at=self.now, what=what, trial=self.random.randrange(len(self.controller.trials)))
        return self.capacity()

    def check(self) -> None:
        control = self.controller
        for trial in control.trials:
            one = self.attempts.get((trial.number, trial.attempt))
            assert (trial.process is Process.NONE) == (one is None), f"trial {trial.number}: {trial.process}, {one}"
            assert (trial in control.waiting) == (trial.state is State.PENDING)
            assert (trial in control.busy) == trial.is_busy
            assert (trial in control.held) == trial.is_held
            if trial.process is Process.WAITS:
                assert trial.is_held and one is not None and one.waits, "an answer is owed"
            assert trial.process is Process.NONE or one is None or not one.waits or trial.is_held
        if self.machines:
            taken = [t.resources or {} for t in control.trials if t.state is State.RUNNING]
            assert packs(list(self.machines), taken), f"{taken} on {self.machines}"
        works = sum(t.state is State.RUNNING for t in control.trials)
        assert works <= self.most_capacity(), f"{works} trials run, and {control.capacity} may"

    def most_capacity(self) -> int:
        return max((event.n for event in self.events if isinstance(event, Capacity)), default=0)


def packs(free: list[float], taken: Sequence[Mapping[str, Any]]) -> bool:
    """Whether machines with so many free CPUs can run all of these at a time: tries every way."""
    if not taken:
        return True
    first, *rest = taken
    bundles = [bundle["CPU"] for bundle in first["bundles"]] if "bundles" in first else [first["num_cpus"]]
    for places in product(range(len(free)), repeat=len(bundles)):
        strategy = first.get("strategy", "")
        if strategy == "STRICT_PACK" and len(set(places)) > 1:
            continue
        if strategy == "STRICT_SPREAD" and len(set(places)) < len(places):
            continue
        left = list(free)
        for place, amount in zip(places, bundles, strict=True):
            left[place] -= amount
        if min(left) >= 0 and packs(left, rest):
            return True
    return False
