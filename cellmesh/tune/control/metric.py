"""What trials report, and whether the metric is among it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...text import closest

AUTOMATIC = frozenset(
    ("training_iteration", "time_this_iter_s", "time_total_s", "timestamp", "trial_id", "done", "checkpoint")
)  # what every result has by itself
VALUE_CHARS = 60
RESULTS_WITHOUT = 20  # of a trial, after which a metric that is missing is told of


def has_metric(result: Mapping[str, Any], metric: str | None) -> bool:
    """Whether a result has a number for it; with no metric all have."""
    return metric is None or isinstance(result.get(metric), (int, float))


def never_reported(trial: int, metric: str, last: Mapping[str, Any]) -> str:
    """What is said of a trial that has reported something else, or what is no number."""
    if metric in last:
        value = repr(last[metric])[:VALUE_CHARS]
        return f"trial {trial} has reported {metric!r}, the metric, and it is no number: {value}"
    return f"trial {trial} has never reported {metric!r}, the metric; {_what_it_reported(last, metric)}"


class Bounds:
    """Looks for metrics for which `stop=` has a bound, and which nobody reports, as in a typing error."""

    def __init__(self, names: Iterable[str]) -> None:
        self.unseen: set[str] = set(names)  # that no result has had

    def look(self, trial: int, result: Mapping[str, Any] | None, is_last: bool) -> str:
        """What is said of them after a result, once; mostly ""."""
        self.unseen.difference_update(result or ())
        if not self.unseen or not result or not (is_last or result["training_iteration"] >= RESULTS_WITHOUT):
            return ""
        name = min(self.unseen)
        self.unseen.clear()
        return f"trial {trial} has reported no {name!r}, for which stop= has a bound; {_what_it_reported(result, name)}"


def _what_it_reported(result: Mapping[str, Any], instead_of: str) -> str:
    reported = [name for name in result if name not in AUTOMATIC]
    close = closest(instead_of, reported)
    return f"it reported {', '.join(reported) or 'nothing'}" + (f": did you mean {close!r}?" if close else "")
