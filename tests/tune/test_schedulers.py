"""Schedulers by name, their options, and their descriptions."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import numpy as np
import pytest
from tune.told import Told

from cellmesh.tune import schedulers
from cellmesh.tune.schedulers import (
    ASHA,
    FIFO,
    PBT,
    HyperBand,
    MedianStopping,
    PBTReplay,
    Scheduler,
    describe,
    from_description,
    make,
)


class Domain:
    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text

    def sample(self, rng: object) -> float:
        return 0.0


X = {"x": [1, 2]}
EVERY: list[Scheduler] = [
    FIFO(),
    ASHA(max_t=27, grace_period=np.int64(3), kind="promotion", metric="loss", mode="min"),
    HyperBand(max_t=16, reduction_factor=2.5),
    MedianStopping("training_iteration", hard_stop=False),
    PBT(hyperparam_mutations={"lr": Domain("uniform(0, 1)"), "net": {"act": ("relu", "tanh")}}, synch=True),
    PBTReplay([[1, 0, 4, 4, {"x": 1}, {"x": 2}]]),
]


def test_names() -> None:
    for name, cls in schedulers.SCHEDULERS.items():
        options: dict[str, Any] = {"pbt": {"hyperparam_mutations": {"x": [1]}}, "pbt_replay": {"policy": []}}.get(
            name, {}
        )
        assert type(make(name, **options)) is cls
    assert isinstance(make(), FIFO) and isinstance(make(None), FIFO)
    assert isinstance(make("median_stopping_rule"), MedianStopping) and isinstance(make("ASHA"), ASHA)
    for name in (
        "ASHAScheduler",
        "AsyncHyperBandScheduler",
        "HyperBandScheduler",
        "MedianStoppingRule",
        "FIFOScheduler",
    ):
        assert getattr(schedulers, name) in schedulers.SCHEDULERS.values()
    assert schedulers.PopulationBasedTraining is PBT and schedulers.PopulationBasedTrainingReplay is PBTReplay


def test_an_object_is_taken_as_it_is() -> None:
    asha = ASHA()
    assert make(asha) is asha
    with pytest.raises(TypeError, match="max_t: options go to the class, and ASHA is made already"):
        make(asha, max_t=3)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: make("ahsa"), ValueError, "no scheduler 'ahsa', there are fifo, asha, .*; did you mean 'asha'"),
        (lambda: make(3), TypeError, "not 3"),
        (lambda: make("asha", max_tt=3), TypeError, "unknown option 'max_tt' of ASHA: did you mean 'max_t'"),
        (lambda: make("fifo", max_t=3), TypeError, "unknown option 'max_t' of FIFO: there is none .* Options: none"),
        (lambda: ASHA(max_t=0), ValueError, "option max_t=0 of ASHA: must be a number > 0"),
        (lambda: ASHA(max_t=3, grace_period=4), ValueError, "grace_period=4 .* at most max_t, which is 3"),
        (lambda: ASHA(reduction_factor=1), ValueError, "reduction_factor=1 .* > 1"),
        (lambda: ASHA(brackets=1.5), ValueError, "brackets=1.5 .* whole number"),
        (lambda: ASHA(kind="hyper"), ValueError, "kind='hyper'"),
        (lambda: ASHA(mode="maximum"), ValueError, "mode='maximum' .* \"min\" or \"max\""),
        (lambda: ASHA(time_attr=3), ValueError, "time_attr=3"),
        (lambda: HyperBand(max_t=0.5), ValueError, "max_t=0.5 of HyperBand: must be a number >= 1"),
        (lambda: HyperBand(reduction_factor=float("nan")), ValueError, "reduction_factor=nan"),
        (lambda: MedianStopping(min_samples_required=0), ValueError, "min_samples_required=0"),
        (lambda: MedianStopping(grace_period=-1), ValueError, "grace_period=-1"),
        (lambda: PBT(), ValueError, "hyperparam_mutations or custom_explore_fn"),
        (lambda: PBT(hyperparam_mutations={"a": {"b": 3}}), ValueError, r"\['a'\]\['b'\] is 3: give a list"),
        (lambda: PBT(hyperparam_mutations={"a": []}), ValueError, r"\['a'\] is empty"),
        (lambda: PBT(hyperparam_mutations=X, quantile_fraction=0.6), ValueError, "quantile_fraction=0.6 .* 0 to 0.5"),
        (lambda: PBT(hyperparam_mutations=X, perturbation_interval=0), ValueError, "perturbation_interval=0"),
        (lambda: PBT(hyperparam_mutations=X, perturbation_factors=()), ValueError, "perturbation_factors"),
        (lambda: make("pb2"), NotImplementedError, "no scheduler pb2: PBT does"),
        (lambda: make("HyperBandForBOHB"), NotImplementedError, "search_alg"),
        (lambda: schedulers.ResourceChangingScheduler, NotImplementedError, "resources of a trial are fixed"),
        (lambda: schedulers.Nothing, AttributeError, "no attribute 'Nothing'"),
    ],
)  # fmt: skip
def test_mistakes_are_told(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("scheduler", EVERY, ids=lambda scheduler: type(scheduler).__name__)
def test_a_description_makes_one_like_it(scheduler: Scheduler) -> None:
    description = json.loads(json.dumps(describe(scheduler)))
    again = from_description(description, Domain)
    assert type(again) is type(scheduler) and describe(again) == description


def test_what_a_description_does_not_keep() -> None:
    class Mine(Scheduler):
        pass

    for scheduler, words in (
        (
            PBT(hyperparam_mutations={"lr": lambda: 1}),
            r"hyperparam_mutations\['lr'\] was .*<lambda>, which is not kept",
        ),
        (PBT(custom_explore_fn=dict), "custom_explore_fn was dict"),
        (PBT(hyperparam_mutations={"lr": Domain("uniform(0, 1)")}), r"was uniform\(0, 1\)"),
        (Mine(), "class .*Mine, which is not kept"),
    ):
        with pytest.raises(ValueError, match=f"{words}.*give (it|the scheduler) again"):
            from_description(json.loads(json.dumps(describe(scheduler))))
    with pytest.raises(ValueError, match="a newer version"):
        from_description({"scheduler": "pb9", "options": {}})


@pytest.mark.parametrize("scheduler", EVERY, ids=lambda scheduler: type(scheduler).__name__)
def test_copies_and_pickles(scheduler: Scheduler) -> None:
    assert describe(copy.deepcopy(scheduler)) == describe(pickle.loads(pickle.dumps(scheduler))) == describe(scheduler)


def test_metric_and_mode_are_given_in_one_place() -> None:
    scheduler = ASHA(metric="loss", mode="min")
    assert scheduler.wanted == ("loss", "min") and ASHA().wanted == (None, None)
    scheduler.begin("loss", "min", np.random.default_rng(0))
    with pytest.raises(ValueError, match="made with metric='loss', and the experiment has metric='accuracy'"):
        scheduler.begin("accuracy", "min", np.random.default_rng(0))
    with pytest.raises(ValueError, match="mode='max'"):
        scheduler.begin("loss", "max", np.random.default_rng(0))


@pytest.mark.parametrize("name", ["asha", "hyperband", "median"])
def test_results_that_are_of_no_use(name: str) -> None:
    """Nothing has changed when they are refused."""
    told = Told(make(name), 1)
    good: dict[str, Any] = {"score": 1, "training_iteration": 1, "time_total_s": 1.0}
    time = told.scheduler.options["time_attr"]
    for bad, words in (
        ({k: v for k, v in good.items() if k != time}, f"trial 0 reported no {time!r}, the time_attr"),
        ({**good, time: float("nan")}, f"{time}=nan"),
        ({**good, "score": "high"}, "score='high', the metric: it must be a number"),
        ({**good, "score": None}, "score=None"),
    ):
        with pytest.raises(ValueError, match=words):
            told.scheduler.on_trial_result(0, bad)
    assert told.scheduler.on_trial_result(0, {**good, "score": np.float32(2)}) in ((), [])
