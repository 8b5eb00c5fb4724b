"""What trials report, and whether the metric is among it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

AUTOMATIC = frozenset(
    ("training_iteration", "time_this_iter_s", "time_total_s", "timestamp", "trial_id", "done", "checkpoint")
)  # what every result has by itself


def has_metric(result: Mapping[str, Any], metric: str | None) -> bool:
    """Whether a result has a number for it; with no metric all have."""
    return metric is None or isinstance(result.get(metric), (int, float))


def never_reported(trial: int, metric: str, last: Mapping[str, Any]) -> str:
    """What is said of a trial that has reported something else."""
    reported = [name for name in last if name not in AUTOMATIC]
    close = difflib.get_close_matches(metric, reported, n=1)
    return (
        f"trial {trial} has never reported {metric!r}, the metric; it reported {', '.join(reported) or 'nothing'}"
        + (f": did you mean {close[0]!r}?" if close else "")
    )
