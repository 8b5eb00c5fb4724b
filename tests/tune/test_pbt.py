"""Population based training: who exploits whom, what becomes of the configuration, and the paper's toy."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tune.population import Member, Population, World
from tune.told import METRIC, Told

from cellmesh.tune.schedulers import PBT, Exploit, Pause, PBTReplay, Resume, make
from cellmesh.tune.schedulers.explore import completed, explored
from cellmesh.tune.schedulers.policy import Row
from cellmesh.tune.space import sample_from


class Uniform:
    """A domain, as those of `tune` are."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    def __repr__(self) -> str:
        return f"uniform({self.low}, {self.high})"

    def sample(self, rng: np.random.Generator) -> float:
        return float(rng.uniform(self.low, self.high))


def pbt(**options: Any) -> PBT:
    given: dict[str, Any] = {
        "time_attr": "training_iteration",
        "perturbation_interval": 2,
        "hyperparam_mutations": {"lr": Uniform(0, 1)},
        **options,
    }
    return PBT(**given)


def test_the_worst_goes_on_from_the_best() -> None:
    told = Told(pbt(resample_probability=0), 4, config={"lr": 1.0, "other": "x"}).all_run()
    for trial in (1, 2, 3):
        assert told.reports(trial, 1, 0.0) == []
        assert told.reports(trial, 2, float(trial)) == []
    (exploit,) = told.reports(0, 2, 0.0)
    assert isinstance(exploit, Exploit) and (exploit.trial, exploit.donor) == (0, 3)
    assert exploit.config["lr"] in (1.2, 0.8) and exploit.config["other"] == "x"
    assert told.reports(0, 3, 0.0) == []  # an interval begins anew
    (exploit,) = told.reports(0, 4, 0.0)
    assert isinstance(exploit, Exploit)


def test_nobody_exploits_itself_and_only_the_worst_exploit_only_the_best() -> None:
    for seed in range(50):
        rng = np.random.default_rng(seed)
        n, fraction = int(rng.integers(1, 12)), float(rng.choice([0, 0.1, 0.25, 0.5]))
        told = Told(pbt(quantile_fraction=fraction), n, config={"lr": 1.0}).all_run()
        scores: dict[int, float] = {}
        for time in (2, 4, 6):
            for trial in rng.permutation(n):
                scores[int(trial)] = float(rng.random())
                ranked = sorted(scores, key=lambda t: scores[t])
                size = min(math.ceil(len(ranked) * fraction), len(ranked) // 2)
                decisions = told.reports(int(trial), time, scores[int(trial)])
                assert bool(decisions) == (trial in ranked[:size])
                for decision in decisions:
                    assert isinstance(decision, Exploit) and decision.donor in ranked[len(ranked) - size :]


def test_one_with_nan_is_among_the_worst_and_no_donor() -> None:
    told = Told(pbt(quantile_fraction=0.5), 3, config={"lr": 1.0}).all_run()
    assert told.reports(0, 2, math.nan) == told.reports(1, 2, math.nan) == []
    assert told.reports(0, 4, math.nan) == []  # trial 1 is the best there is
    assert told.reports(2, 2, -1e9) == []
    (exploit,) = told.reports(0, 6, math.nan)
    assert isinstance(exploit, Exploit) and exploit.donor == 2


def test_one_that_has_ended_is_no_donor() -> None:
    told = Told(pbt(), 3, config={"lr": 1.0}).all_run()
    for trial in (2, 1):
        told.reports(trial, 2, float(trial))
    told.ends(2)
    (exploit,) = told.reports(0, 2, 0.0)
    assert isinstance(exploit, Exploit) and exploit.donor == 1


def test_burn_in() -> None:
    told = Told(pbt(burn_in_period=5), 2, config={"lr": 1.0}).all_run()
    for time in (2, 4):
        assert told.reports(0, time, 1.0) == told.reports(1, time, 0.0) == []
    assert told.reports(0, 5, 1.0) == []
    assert told.reports(1, 5, 0.0) != []


@pytest.mark.parametrize("own", [True, False])
def test_the_interval_counts_on_whichever_time_the_trial_goes_on_with(own: bool) -> None:
    told = Told(pbt(perturbation_interval=4), 2, config={"lr": 1.0}).all_run()
    told.reports(0, 10, 1.0)
    (exploit,) = told.reports(1, 4, 0.0)
    assert isinstance(exploit, Exploit)
    base = 4 if own else 10
    for time in (base + 1, base + 2, base + 3):
        assert told.reports(1, time, 0.0) == []
    assert told.reports(1, base + 4, 0.0) != []


# ---- turns
def test_a_population_that_is_larger_than_the_machine_takes_turns() -> None:
    told = Told(pbt(quantile_fraction=0), 3, config={"lr": 1.0})
    told.no_more()
    told.scheduler.on_trial_begin(0)
    assert told.reports(0, 2, 0.0) == [Pause(0)]
    told.scheduler.on_trial_begin(1)
    assert told.reports(1, 2, 0.0) == [Pause(1)]
    told.scheduler.on_trial_begin(2)
    assert told.reports(2, 1, 0.0) == [Resume(0), Resume(1)]  # nobody waits who is behind them
    assert told.reports(2, 2, 0.0) == told.reports(2, 3, 0.0) == []
    assert told.reports(2, 4, 0.0) == [Pause(2)]


def test_trials_that_may_still_be_made_are_waited_for() -> None:
    told = Told(pbt(quantile_fraction=0), 2, config={"lr": 1.0})
    assert told.reports(0, 2, 0.0) == [Pause(0)]  # more may come
    assert told.no_more() == []  # trial 1 has not begun
    told.scheduler.on_trial_begin(1)
    assert told.reports(1, 1, 0.0) == [Resume(0)]


def test_one_that_exploits_waits_for_its_turn_too() -> None:
    told = Told(pbt(), 3, config={"lr": 1.0})
    told.no_more()
    told.scheduler.on_trial_begin(0)
    told.reports(0, 2, 1.0)
    told.scheduler.on_trial_begin(1)
    exploit, pause = told.reports(1, 2, 0.0)
    assert isinstance(exploit, Exploit) and exploit.donor == 0 and pause == Pause(1)


def test_trials_progress_together() -> None:
    """Two at a time, nine in all: no trial is ever far ahead of another one that could run."""
    world = World(n_trials=9, capacity=2, length=30, config=lambda trial, chance: {"lr": 1.0})
    population = Population(pbt(quantile_fraction=0), world, seed=1).run()
    times = dict.fromkeys(range(9), 0)
    for name, arguments, _ in population.story:
        if name == "on_trial_result":
            times[arguments[0]] = arguments[1]["training_iteration"]
            assert max(times.values()) - min(times.values()) <= 3 * 2 or min(times.values()) > 20


# ---- synchronous
def test_synchronously_all_wait_and_are_looked_at_together() -> None:
    told = Told(pbt(synch=True), 4, config={"lr": 1.0}).all_run()
    assert told.reports(0, 1, 9.0) == []
    for trial, score in ((0, 0.0), (1, 3.0), (2, 2.0)):
        assert told.reports(trial, 2, score) == [Pause(trial)]
    exploit, *others = told.reports(3, 2, 1.0)
    assert isinstance(exploit, Exploit) and (exploit.trial, exploit.donor) == (0, 1)
    assert others == [Resume(0), Resume(1), Resume(2)]
    assert told.reports(0, 3, 0.0) == []
    assert told.reports(0, 4, 0.0) == [Pause(0)]


@pytest.mark.parametrize("failed", [False, True])
def test_synchronously_the_end_of_the_last_one_lets_the_others_go_on(failed: bool) -> None:
    told = Told(pbt(synch=True, quantile_fraction=0), 3, config={"lr": 1.0}).all_run()
    told.reports(0, 2, 0.0)
    told.reports(1, 2, 0.0)
    assert told.ends(2, failed) == [Resume(0), Resume(1)]


# ---- configurations
def test_exploring() -> None:
    rng = np.random.default_rng(0)
    mutations = {
        "list": [1, 2, 3, 4],
        "domain": Uniform(10, 20),
        "function": lambda: 7.0,
        "drawn": lambda rng: rng.integers(3),
        "nested": {"inner": [True, False]},
        "whole": Uniform(0, 1),
        "word": lambda: "new",
    }
    config = {
        "list": 2,
        "domain": 1.0,
        "function": 1.0,
        "drawn": 1,
        "nested": {"inner": True, "kept": []},
        "whole": np.int64(10),
        "word": "old",
        "other": object(),
    }
    before = repr(config)
    near = [explored(config, mutations, rng, 0.0, (1.2, 0.8)) for _ in range(50)]
    assert {c["list"] for c in near} == {1, 3}
    assert {c["domain"] for c in near} == {1.2, 0.8}
    assert {c["whole"] for c in near} == {12, 8} and all(isinstance(c["whole"], int) for c in near)
    assert {c["word"] for c in near} == {"new"}  # no number: nothing to multiply
    assert {c["nested"]["inner"] for c in near} == {True, False}
    anew = [explored(config, mutations, rng, 1.0, (1.2, 0.8)) for _ in range(50)]
    assert {c["list"] for c in anew} == {1, 2, 3, 4}
    assert all(10 <= c["domain"] <= 20 and c["function"] == 7.0 for c in anew)
    assert {c["drawn"] for c in anew} == {0, 1, 2}
    assert all(c["other"] is config["other"] and c["nested"]["kept"] is not config["nested"]["kept"] for c in anew)
    assert repr(config) == before


def test_at_the_ends_of_a_list_it_stays_and_what_is_not_in_it_is_drawn() -> None:
    rng = np.random.default_rng(0)
    assert {explored({"x": 1}, {"x": (1, 2, 3)}, rng, 0.0, (1.0,))["x"] for _ in range(40)} == {1, 2}
    assert {explored({"x": 9}, {"x": (1, 2, 3)}, rng, 0.0, (1.0,))["x"] for _ in range(40)} == {1, 2, 3}


def test_a_truth_value_stays_one() -> None:
    rng = np.random.default_rng(0)
    assert explored({"x": True}, {"x": lambda: False}, rng, 0.0, (1.2,))["x"] is True
    assert explored({"x": True}, {"x": lambda: 0}, rng, 1.0, (1.2,))["x"] is False


def test_what_a_configuration_lacks_is_drawn_before_it_begins() -> None:
    mutations: dict[str, Any] = {"lr": Uniform(5, 6), "net": {"act": ["relu"]}}
    told = Told(pbt(hyperparam_mutations=mutations), 1, config={"other": 1})
    (exploit,) = told.at_adding
    assert isinstance(exploit, Exploit) and (exploit.trial, exploit.donor) == (0, 0)
    assert 5 <= exploit.config["lr"] <= 6
    assert {**exploit.config, "lr": 0} == {"other": 1, "net": {"act": "relu"}, "lr": 0}
    assert completed({"lr": 1, "net": {"act": "x"}}, mutations, told.scheduler.rng) == {"lr": 1, "net": {"act": "x"}}


def test_users_functions_draw_the_same_in_each_run_and_disturb_nobody() -> None:
    def custom(config: dict[str, Any]) -> dict[str, Any]:
        return {**config, "custom": random.random() + np.random.rand()}

    def run() -> list[Any]:
        mutations = {"lr": lambda: random.uniform(0, 1), "x": sample_from(lambda config: random.random())}
        scheduler = pbt(hyperparam_mutations=mutations, custom_explore_fn=custom, resample_probability=1)
        told = Told(scheduler, 2, config={"lr": 1.0, "x": 1.0}).all_run()
        told.reports(0, 2, 1.0)
        return told.reports(1, 2, 0.0)

    random.seed(1)
    first = random.random()
    random.seed(1)
    runs = [run()]
    assert random.random() == first
    assert run() == runs[0]


@pytest.mark.parametrize(
    ("custom", "error", "words"),
    [(lambda config: None, TypeError, "must return"), (lambda config: {}, ValueError, "without 'lr'")],
)
def test_a_custom_function_that_returns_no_configuration(
    custom: Callable[..., Any], error: type[Exception], words: str
) -> None:
    told = Told(pbt(custom_explore_fn=custom), 2, config={"lr": 1.0}).all_run()
    told.reports(0, 2, 1.0)
    with pytest.raises(error, match=words):
        told.reports(1, 2, 0.0)


def test_results_without_the_metric() -> None:
    told = Told(pbt(), 1, config={"lr": 1.0}).all_run()
    words = "trial 0 reported no 'score', .* there are training_iteration, scores; did you mean 'scores'"
    with pytest.raises(ValueError, match=words):
        told.scheduler.on_trial_result(0, {"training_iteration": 1, "scores": 1.0})
    told = Told(pbt(require_attrs=False), 1, config={"lr": 1.0}).all_run()
    assert told.scheduler.on_trial_result(0, {"training_iteration": 1}) == ()


# ---- policies
def exploited() -> tuple[PBT, Told]:
    """Trial 0 exploits 1, then 2 exploits 0."""
    scheduler = pbt(quantile_fraction=0.5, hyperparam_mutations={"lr": [1, 2, 3]})
    told = Told(scheduler, 3, config={"lr": 2}).all_run()
    told.reports(1, 2, 5.0)
    told.reports(0, 2, 0.0)
    told.ends(1)
    told.reports(0, 4, 9.0)
    told.reports(2, 4, 0.0)
    return scheduler, told


def test_a_policy_is_how_a_configuration_came_about() -> None:
    scheduler, _ = exploited()
    first, second = scheduler.policy(2)
    assert (first.trial, first.donor, first.donor_iteration, first.old_config) == (0, 1, 2, {"lr": 2})
    assert (second.trial, second.donor, second.donor_iteration, second.old_config) == (2, 0, 4, first.new_config)
    assert scheduler.policy(1) == []
    assert scheduler.policy(0) == [first]


def test_a_replay_trains_one_trial_with_it() -> None:
    policy = exploited()[0].policy(2)
    told = Told(PBTReplay(policy), 1, config={"lr": 99})
    assert told.at_adding == [Exploit(0, 0, {"lr": 2})]
    assert told.reports(0, 1, 0.0) == []
    assert told.reports(0, 2, 0.0) == [Exploit(0, 0, policy[0].new_config)]
    assert told.reports(0, 3, 0.0) == []
    assert told.reports(0, 5, 0.0) == [Exploit(0, 0, policy[1].new_config)]
    assert told.reports(0, 6, 0.0) == []
    with pytest.raises(ValueError, match="num_samples=1"):
        told.add()


def test_a_replay_of_a_file_of_rays(tmp_path: Path) -> None:
    """Rows of what was overwritten are left out. Of configurations that are due together the last one counts."""
    rows = [
        ["9", "8", 1, 1, {"x": 0}, {"x": 1}],
        ["5", "6", 3, 4, {"x": 2}, {"x": 3}],
        ["4", "5", 7, 6, {"x": 3}, {"x": 4}],
    ]
    file = tmp_path / "pbt_policy_4.txt"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    replay = PBTReplay(file)
    assert replay.config == {"x": 2}
    told = Told(replay, 1)
    assert told.at_adding == [Exploit(0, 0, {"x": 2})]
    assert told.reports(0, 3, 0.0) == []
    assert told.reports(0, 10, 0.0) == [Exploit(0, 0, {"x": 4})]
    file.write_text('["cut off')
    with pytest.raises(ValueError, match=r"line 1 of the policy file .* is no row in JSON"):
        PBTReplay(file)
    with pytest.raises(ValueError, match="there is no policy file"):
        PBTReplay(str(tmp_path / "none"))
    with pytest.raises(ValueError, match="a row of a policy is"):
        PBTReplay([[1, 2]])
    assert isinstance(make("pbt_replay", policy=[Row(1, 0, 2, 2, {}, {})]), PBTReplay)


# ---- the paper's toy
def test_the_toy_of_the_paper() -> None:
    """Figure 2 of the paper: two trials climb 1.2 - (theta0**2 + theta1**2), by the gradient of
    1.2 - (h0 theta0**2 + h1 theta1**2).

    With h = (1, 0) and (0, 1) each is stuck on an axis. Together they come to the top, by exploiting each other.
    """

    def value(member: Member, number: int, chance: random.Random) -> float:
        theta = np.array([0.9, 0.9]) if member.theta is None else member.theta
        h = np.array([member.config["h0"], member.config["h1"]])
        member.theta = theta - 0.01 * 2 * h * theta
        return 1.2 - float((member.theta**2).sum())

    def best(exploits: bool) -> float:
        scheduler = PBT(
            "training_iteration",
            perturbation_interval=4,
            quantile_fraction=0.5 if exploits else 0,
            hyperparam_mutations={"h0": Uniform(0, 1), "h1": Uniform(0, 1)},
        )
        world = World(
            n_trials=2,
            capacity=2,
            length=400,
            value=value,
            config=lambda trial, chance: {"h0": 1.0 - trial, "h1": 0.0 + trial},
        )
        story = Population(scheduler, world, seed=3).run().story
        return max(arguments[1][METRIC] for name, arguments, _ in story if name == "on_trial_result")

    assert best(True) > 1.19
    assert best(False) < 0.4
