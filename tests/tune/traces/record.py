"""Records what Ray's schedulers decide on random traces.

    python tests/tune/traces/record.py      # with an interpreter that has Ray 2.60

Trials are stand-ins with what the schedulers look at. At each event a trial reports, ends by itself or fails; the
decisions of Ray's classes lead to the next one. Where ours are meant to decide otherwise, Ray's class is amended: told
something else, or made to do it. Each trace says which amendments make a difference in it ("needs"; often none), and
`test_traces.py` has their reasons.
"""

from __future__ import annotations

import json
import logging
import random
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from ray.tune.schedulers import pbt as ray_pbt
from ray.tune.schedulers.async_hyperband import AsyncHyperBandScheduler
from ray.tune.schedulers.hyperband import HyperBandScheduler
from ray.tune.schedulers.median_stopping_rule import MedianStoppingRule

sys.path.insert(0, str(Path(__file__).parent))
from scripted import METRIC, MUTATIONS, Draws, Script

FILE = Path(__file__).with_name("ray_decisions.json")
WORST = 1e9  # a value worse than all in the traces
N_TRACES = {"asha": 70, "hyperband": 50, "median": 40, "pbt": 40}


class Trial(SimpleNamespace):
    """What Ray's schedulers look at."""

    __hash__ = object.__hash__

    def is_finished(self) -> bool:
        return self.status in ("TERMINATED", "ERROR")

    def set_config(self, config: dict[str, Any]) -> None:
        self.config = config

    def set_experiment_tag(self, tag: str) -> None:
        self.experiment_tag = tag


def make_trial(number: int, config: dict[str, Any]) -> Trial:
    checkpoints = SimpleNamespace(checkpoint_config=SimpleNamespace(num_to_keep=None), _latest_checkpoint_result=None)
    return Trial(
        trial_id=str(number),
        number=number,
        status="PENDING",
        is_saving=False,
        config=config,
        experiment_tag=str(number),
        evaluated_params={},
        last_result={},
        checkpoint="checkpoint",
        temporary_state=SimpleNamespace(saving_to=None),
        run_metadata=SimpleNamespace(checkpoint_manager=checkpoints),
    )


class Controller:
    """What Ray's schedulers ask of theirs."""

    search_alg = None

    def __init__(self, scheduler: Any) -> None:
        self.scheduler, self.trials, self.stopped = scheduler, [], []

    def get_trials(self) -> list[Trial]:
        return self.trials

    def get_live_trials(self) -> set[Trial]:
        return {trial for trial in self.trials if not trial.is_finished()}

    def stop_trial(self, trial: Trial) -> None:
        self.scheduler.on_trial_remove(self, trial)
        trial.status = "TERMINATED"
        self.stopped.append(trial.number)

    def pause_trial(self, trial: Trial, should_checkpoint: bool = True) -> None:
        trial.status = "PAUSED"

    def _schedule_trial_save(self, trial: Trial, result: Any = None) -> str:
        return "checkpoint"


# ---- Ray's classes, amended
class ASHA(AsyncHyperBandScheduler):
    """Amended by "one rung": only the highest rung that a trial has reached is looked at, and once."""

    def amend(self, amendments: frozenset[str]) -> None:
        for bracket in self._brackets if "one rung" in amendments else ():
            bracket.on_result = self.of_highest_rung(bracket, bracket.on_result)

    @staticmethod
    def of_highest_rung(bracket: Any, original: Any) -> Any:
        reached: dict[int, float] = {}

        def on_result(trial: Trial, time: float, score: float) -> str:
            highest = max((rung for rung, _ in bracket._rungs if rung <= time), default=0)
            if highest <= reached.get(trial.number, 0):
                return "CONTINUE"
            reached[trial.number] = highest
            return original(trial, time, score)

        return on_result


class HyperBand(HyperBandScheduler):
    """Amended by "size": a bracket that stays partly filled is as large as it is; "ends": one that has halved hears of
    trials that end; "last rung": trials end there at once."""

    amendments: frozenset[str] = frozenset()

    def amend(self, amendments: frozenset[str]) -> None:
        self.amendments = amendments

    def all_added(self) -> None:
        bracket = self._state["bracket"]
        if "size" in self.amendments:
            bracket._n = len(bracket._all_trials)

    def on_trial_result(self, controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        bracket, _ = self._trial_info[trial]
        is_last = bracket._halves == 0 and self._stop_last_trials
        if "last rung" in self.amendments and is_last and result["training_iteration"] >= bracket._cumul_r:
            bracket.cleanup_trial(trial)
            return "STOP"
        return super().on_trial_result(controller, trial, result)

    def _process_bracket(self, controller: Any, bracket: Any) -> str:
        action = super()._process_bracket(controller, bracket)
        if "ends" in self.amendments:
            bracket.is_being_processed = False
        return action


class Median(MedianStoppingRule):
    """Amended by "set aside": trials that would have been stopped are not yielded to."""

    amendments: frozenset[str] = frozenset()

    def amend(self, amendments: frozenset[str]) -> None:
        self.amendments = amendments

    def _on_insufficient_samples(self, controller: Any, trial: Trial, time: float) -> str:
        if "set aside" in self.amendments:
            others = controller.get_live_trials() - self._stopped_trials
            controller = SimpleNamespace(get_live_trials=lambda: others)
        return super()._on_insufficient_samples(controller, trial, time)


class PBT(ray_pbt.PopulationBasedTraining):
    """Amended by "checkpoints": every donor has one; "nan": a trial with the worst value is no donor; "ends":
    synchronous, the end of the trial that all wait for is as good as its arrival."""

    amendments: frozenset[str] = frozenset()

    def amend(self, amendments: frozenset[str]) -> None:
        self.amendments = amendments

    def on_trial_add(self, controller: Any, trial: Trial) -> None:
        super().on_trial_add(controller, trial)
        state = self._trial_state[trial]
        if "checkpoints" in self.amendments:
            always = property(lambda state: "checkpoint", lambda state, value: None)
            state.__class__ = type("State", (type(state),), {"last_checkpoint": always})

    def on_trial_complete(self, controller: Any, trial: Trial, result: Any = None) -> None:
        trial.status = "TERMINATED"
        live = sorted(controller.get_live_trials(), key=lambda t: t.number)
        times = [self._trial_state[t].last_train_time for t in live]
        if "ends" in self.amendments and self._synch and live and min(times) >= self._next_perturbation_sync:
            self.on_trial_result(controller, live[0], live[0].last_result)

    on_trial_error = on_trial_complete

    def _quantiles(self) -> tuple[list[Trial], list[Trial]]:
        lower, upper = super()._quantiles()
        if "nan" in self.amendments:
            upper = [trial for trial in upper if self._trial_state[trial].last_score > -WORST]
        return (lower if upper else []), upper


CLASSES: dict[str, Any] = {"asha": ASHA, "hyperband": HyperBand, "median": Median, "pbt": PBT}
AMENDMENTS = {
    "asha": ["nan", "one rung"],
    "hyperband": ["nan", "size", "ends", "last rung"],
    "median": ["nan", "set aside"],
    "pbt": ["nan", "checkpoints", "ends"],
}


# ---- cases
def case(kind: str, n: int) -> dict[str, Any]:
    """The n-th trace of a kind: options, number of trials, and what they report."""
    rng = np.random.default_rng((list(N_TRACES).index(kind), n))
    script = {"seed": int(rng.integers(1 << 30)), "is_coarse": bool(rng.random() < 0.3)}
    if rng.random() < 0.4:
        script["nan"] = 0.08
    if kind == "asha" and rng.random() < 0.3:
        script["stride"] = 4
    length = int(rng.integers(8, 30))

    def pick(*values: Any) -> Any:
        return values[int(rng.integers(len(values)))]

    options: dict[str, Any] = {}
    if kind == "asha":
        options = {
            "max_t": pick(16, 27, 20),
            "grace_period": pick(1, 2, 3),
            "reduction_factor": pick(2, 3, 4, 2.5),
            "brackets": pick(1, 1, 2, 3),
            "stop_last_trials": pick(True, True, False),
        }
    elif kind == "hyperband":
        options = {
            "max_t": pick(9, 27, 10, 16),
            "reduction_factor": pick(3, 3, 2, 4),
            "stop_last_trials": pick(True, True, False),
        }
        length = 2 * options["max_t"]
    elif kind == "median":
        options = {
            "grace_period": float(pick(0, 2, 5)),
            "min_samples_required": pick(1, 3, 5),
            "min_time_slice": pick(0, 3),
            "hard_stop": pick(True, True, False),
        }
    else:
        options = {
            "time_attr": "training_iteration",
            "perturbation_interval": pick(1, 2, 4),
            "burn_in_period": pick(0, 0, 3),
            "quantile_fraction": pick(0.25, 0.5, 0.1),
            "resample_probability": pick(0.25, 0.0),
            "synch": pick(False, False, True),
        }
    n_trials = int(rng.integers(4, 12) if kind == "pbt" else rng.integers(6, 45))
    return {
        "kind": kind,
        "mode": pick("min", "max"),
        "options": options,
        "n": n_trials,
        "length": length,
        "script": script,
    }


def play(case: dict[str, Any], amendments: frozenset[str]) -> dict[str, Any]:
    """The events: which trial and, where it does not follow, how far it is; which failed; what is decided at each."""
    kind, mode, script = case["kind"], case["mode"], Script(**case["script"])
    seed = case["script"]["seed"]
    np.random.seed(seed)
    ray_pbt.random = Draws(seed)
    options = {**case["options"], **({"hyperparam_mutations": MUTATIONS, "log_config": False} if kind == "pbt" else {})}
    scheduler = CLASSES[kind](metric=METRIC, mode=mode, **options)
    scheduler.amend(amendments)
    controller = Controller(scheduler)
    for number in range(case["n"]):
        controller.trials.append(make_trial(number, script.config(number)))
        scheduler.on_trial_add(controller, controller.trials[-1])
    if kind == "hyperband":
        scheduler.all_added()
    chance = random.Random(seed)
    n_reports, times = [0] * case["n"], [0] * case["n"]
    trials, at, failed, decisions = [], [], [], []
    while (runnable := runnable_of(kind, controller, scheduler)) and len(trials) < 40 * case["n"]:
        trial = chance.choice(runnable)
        n_reports[trial.number] += 1
        time = times[trial.number] + 1 if kind == "pbt" else script.time(trial.number, n_reports[trial.number])
        what = "ends" if time >= case["length"] else "fails" if chance.random() < 0.01 else "reports"
        if what == "fails":
            failed.append(len(trials))
        trials.append(trial.number)
        at.append(time)
        times[trial.number] = time
        result = script.result(trial.number, time)
        if "nan" in amendments and np.isnan(result[METRIC]):
            result[METRIC] = WORST if mode == "min" else -WORST
        decisions.append(one(kind, scheduler, controller, trial, result, what))
        if kind == "pbt":  # what exploits goes on from the donor's time
            for number, (donor, _) in decisions[-1].items():
                times[int(number)] = int(scheduler._trial_state[controller.trials[donor]].last_perturbation_time)
    played = {"trials": trials, "failed": failed, "decisions": compact(kind, decisions)}
    return {**played, "times": at} if kind == "pbt" else played


def trace_of(case: dict[str, Any]) -> dict[str, Any]:
    every = frozenset(AMENDMENTS[case["kind"]])
    played = play(case, every)
    needs = [one for one in AMENDMENTS[case["kind"]] if differs(case, every - {one}, played)]
    assert needs or not differs(case, frozenset(), played), "only together they make a difference"
    return {**case, **played, "needs": needs}


def differs(case: dict[str, Any], amendments: frozenset[str], played: dict[str, Any]) -> bool:
    try:
        return play(case, amendments) != played
    except (AssertionError, IndexError, TypeError, ValueError):  # Ray's class comes to grief
        return True


def runnable_of(kind: str, controller: Controller, scheduler: Any) -> list[Trial]:
    live = [trial for trial in controller.trials if not trial.is_finished()]
    if kind == "hyperband":
        unpaused = {t for band in scheduler._hyperbands for b in band if b for t in b.trials_to_unpause}
        return [trial for trial in live if trial.status != "PAUSED" or trial in unpaused]
    if kind == "pbt" and scheduler._synch:
        state = scheduler._trial_state
        return [t for t in live if t.status != "PAUSED" or state[t].last_train_time < scheduler._next_perturbation_sync]
    return live


def one(kind: str, scheduler: Any, controller: Controller, trial: Trial, result: dict[str, Any], what: str) -> Any:
    """Tell of one event. The decision: a letter for the trial (C, P, S; "" at its end); with HyperBand who else is
    stopped and who goes on; with PBT who exploits whom, and the configurations."""
    controller.stopped = []
    resumed_before = unpaused(scheduler) if kind == "hyperband" else set()
    trial.status = "RUNNING"
    letter, donors = "", {}
    if kind == "pbt":
        original = scheduler._exploit

        def exploit(controller: Any, trial: Trial, donor: Trial) -> None:
            donors[trial.number] = donor.number
            original(controller, trial, donor)

        scheduler._exploit = exploit
    if what == "fails":
        trial.status = "ERROR"
        scheduler.on_trial_error(controller, trial)
    elif what == "ends":
        scheduler.on_trial_complete(controller, trial, result)
        trial.status = "TERMINATED"
    else:
        trial.last_result = result
        letter = scheduler.on_trial_result(controller, trial, result)[0]
        trial.status = {"C": "RUNNING", "P": "PAUSED", "S": "TERMINATED", "N": trial.status}[letter]
    if kind == "hyperband":
        return [letter, sorted(controller.stopped), sorted(unpaused(scheduler) - resumed_before - {trial.number})]
    if kind == "pbt":
        scheduler._exploit = original
        if not scheduler._synch and not trial.is_finished():
            trial.status = "RUNNING"  # there is room for everybody
        return {str(n): [donors[n], list(controller.trials[n].config.values())] for n in sorted(donors)}
    return letter


def unpaused(scheduler: Any) -> set[int]:
    return {t.number for band in scheduler._hyperbands for b in band if b for t in b.trials_to_unpause}


def compact(kind: str, decisions: list[Any]) -> Any:
    """Letters as one text; of the others only those events at which anything is decided, by their index."""
    if kind in ("asha", "median"):
        return "".join(letter or "-" for letter in decisions)
    nothing = (["C", [], []], ["", [], []], {})
    return [[i, decision] for i, decision in enumerate(decisions) if decision not in nothing]


def main() -> None:
    logging.disable(logging.CRITICAL)
    traces = [trace_of(case(kind, n)) for kind, n_traces in N_TRACES.items() for n in range(n_traces)]
    FILE.write_text("[\n" + ",\n".join(json.dumps(trace, separators=(",", ":")) for trace in traces) + "\n]\n")
    print(f"{len(traces)} traces, {sum(len(t['trials']) for t in traces)} events, {FILE.stat().st_size} bytes")
    print(Counter((trace["kind"], *trace["needs"]) for trace in traces))


if __name__ == "__main__":
    main()
