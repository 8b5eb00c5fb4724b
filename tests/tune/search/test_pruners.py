"""Pruners of Optuna as schedulers."""

from __future__ import annotations

from typing import Any

import pytest
from optuna import pruners

from cellmesh.tune.search.pruners import NO_LIMIT, options_of, scheduler_of


@pytest.mark.parametrize(
    "pruner, name, options",
    [
        (pruners.NopPruner(), "fifo", {}),
        (
            pruners.SuccessiveHalvingPruner(min_resource=2, reduction_factor=3, min_early_stopping_rate=1),
            "asha",
            {"grace_period": 6, "reduction_factor": 3, "max_t": NO_LIMIT},
        ),
        (pruners.HyperbandPruner(max_resource=27), "hyperband", {"max_t": 27, "reduction_factor": 3}),
        (
            pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=2),
            "median",
            {"time_attr": "training_iteration", "grace_period": 2, "min_samples_required": 4},
        ),
    ],
)
def test_a_scheduler_for_a_pruner(pruner: Any, name: str, options: dict[str, Any]) -> None:
    assert options_of(pruner) == (name, options)
    assert type(scheduler_of(pruner)).__name__.lower().startswith(name)


def test_how_long_a_trial_may_be() -> None:
    assert options_of(pruners.SuccessiveHalvingPruner(min_resource=1), 27)[1]["max_t"] == 27
    assert options_of(pruners.HyperbandPruner(), 81)[1]["max_t"] == 81


@pytest.mark.parametrize(
    "pruner, says",
    [
        (pruners.SuccessiveHalvingPruner(), "min_resource='auto') has no scheduler that does the same; give a number"),
        (pruners.SuccessiveHalvingPruner(min_resource=1, bootstrap_count=2), "bootstrap_count=2"),
        (pruners.HyperbandPruner(), "max_resource='auto'"),
        (pruners.HyperbandPruner(min_resource=2, max_resource=9), "min_resource=2"),
        (pruners.MedianPruner(interval_steps=3), "interval_steps=3) has no scheduler that does the same; it may be 1"),
        (pruners.PercentilePruner(25), "PercentilePruner(...) has no scheduler"),
        (pruners.ThresholdPruner(upper=1), "ThresholdPruner(...) has no scheduler"),
    ],
)
def test_what_no_scheduler_does_is_refused_by_name(pruner: Any, says: str) -> None:
    with pytest.raises(ValueError) as refused:
        options_of(pruner)
    assert says in str(refused.value)
