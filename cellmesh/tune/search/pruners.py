"""Pruners of Optuna as schedulers of ours.

A pruner decides within Optuna's own loop, which there is none of here. Those that a scheduler of ours does the same as
are given by it; the others are refused.
"""

from __future__ import annotations

from typing import Any

NO_LIMIT = 10**9  # Optuna's successive halving knows no longest trial
REMEDY = "take a scheduler of ours: ASHA, HyperBand or MedianStopping"


def options_of(pruner: Any, max_t: int | None = None) -> tuple[str, dict[str, Any]]:
    """The name and the options of the scheduler for a pruner: see `scheduler_of`."""
    name = type(pruner).__name__
    given = vars(pruner)  # Optuna has no other way to ask

    def refuse(what: str, remedy: str = REMEDY) -> ValueError:
        return ValueError(f"{name}({what}) has no scheduler that does the same; {remedy}")

    def at(option: str, value: Any, *allowed: Any) -> Any:
        if value not in allowed:
            raise refuse(f"{option}={value!r}", f"it may be {' or '.join(map(repr, allowed))}, or {REMEDY}")
        return value

    if name == "NopPruner":
        return "fifo", {}
    if name == "SuccessiveHalvingPruner":
        least, factor = given["_min_resource"], given["_reduction_factor"]
        if least is None:
            raise refuse("min_resource='auto'", "give a number of reports")
        at("bootstrap_count", given["_bootstrap_count"], 0)
        grace = least * factor ** given["_min_early_stopping_rate"]
        return "asha", {"grace_period": grace, "reduction_factor": factor, "max_t": max_t or max(NO_LIMIT, grace)}
    if name == "HyperbandPruner":
        most = given["_max_resource"] if max_t is None else max_t
        if most == "auto":
            raise refuse("max_resource='auto'", "give a number of reports, or max_t=")
        at("min_resource", given["_min_resource"], 1)
        at("bootstrap_count", given["_bootstrap_count"], 0)
        return "hyperband", {"max_t": most, "reduction_factor": given["_reduction_factor"]}
    if name == "MedianPruner":
        at("interval_steps", given["_interval_steps"], 1)
        least = max(given["_n_startup_trials"], given["_n_min_trials"])
        return "median", {
            "time_attr": "training_iteration",
            "grace_period": given["_n_warmup_steps"],
            "min_samples_required": least,
        }
    raise refuse("...")


def scheduler_of(pruner: Any, max_t: int | None = None) -> Any:
    """The scheduler for a pruner of Optuna.

    Parameters
    ----------
    pruner : optuna.pruners.BasePruner
        `SuccessiveHalvingPruner` gives `ASHA`, `HyperbandPruner` gives `HyperBand`, which is synchronous here,
        `MedianPruner` gives `MedianStopping`, `NopPruner` gives `FIFO`. Its steps are reports.
    max_t : int, optional
        After how many reports a trial has done enough.

    Raises
    ------
    ValueError
        No scheduler does the same as the pruner, or as one of its options.
    """
    from ..schedulers import make

    name, options = options_of(pruner, max_t)
    return make(name, **options)
