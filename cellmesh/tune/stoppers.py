"""When a trial, or an experiment, has done enough."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any


class Stopper:
    """Says after each result whether the trial is to end, and whether everything is.

    Subclasses implement `__call__`, and `stop_all` if they end experiments.
    """

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Whether this trial is to end."""
        raise NotImplementedError

    def stop_all(self) -> bool:
        """Whether the experiment is to end."""
        return False

    def why(self, trial_id: str, result: dict[str, Any]) -> str:
        """The reason why the trial is to end, or ""."""
        return f"{type(self).__name__} has stopped it" if self(trial_id, result) else ""

    def why_all(self) -> str:
        """The reason why the experiment is to end, or ""."""
        return f"{type(self).__name__} has stopped the experiment" if self.stop_all() else ""


class Criteria(Stopper):
    """Ends a trial when a metric reaches its bound: `stop={"accuracy": 0.9, "training_iteration": 100}`.

    A metric that is to be small needs a function or another stopper: the bound is reached from below, whatever `mode`
    is.
    """

    bounds: dict[str, float]

    def __init__(self, bounds: Mapping[str, float]) -> None:
        for name, bound in bounds.items():
            if isinstance(bound, bool) or not isinstance(bound, (int, float)):
                raise TypeError(
                    f"stop={{{name!r}: {bound!r}}}: a bound is a number, which the metric reaches from below"
                )
        self.bounds = dict(bounds)

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return bool(self.why(trial_id, result))

    def why(self, trial_id: str, result: dict[str, Any]) -> str:
        for name, bound in self.bounds.items():
            value = result.get(name)
            if isinstance(value, (int, float)) and value >= bound:
                return f"{name} has reached {bound:g}"
        return ""


class FunctionStopper(Stopper):
    """Ends a trial when a function of its id and result says so."""

    def __init__(self, function: Callable[[str, dict[str, Any]], bool]) -> None:
        self.function = function

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return bool(self.function(trial_id, result))

    def why(self, trial_id: str, result: dict[str, Any]) -> str:
        return f"{getattr(self.function, '__name__', 'a function')} has stopped it" if self(trial_id, result) else ""


class NoopStopper(Stopper):
    """Ends nothing."""

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False


class MaximumIterationStopper(Stopper):
    """Ends a trial after so many results."""

    def __init__(self, max_iter: int) -> None:
        self.max_iter = max_iter
        self._n: defaultdict[str, int] = defaultdict(int)

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        self._n[trial_id] += 1
        return self._n[trial_id] >= self.max_iter


class TrialPlateauStopper(Stopper):
    """Ends a trial whose metric has not changed for some results.

    Parameters
    ----------
    metric : str
    std : float
        It has not changed if the standard deviation of its latest values is at most this.
    num_results : int
        How many latest values are looked at.
    grace_period : int
        Results before which nothing is ended.
    metric_threshold : float, optional
        Only trials whose metric is at most (mode "min") or at least (mode "max") this are ended.
    mode : str, optional
        "min" or "max", for `metric_threshold`.
    """

    metric: str
    std: float
    num_results: int
    grace_period: int
    metric_threshold: float | None
    mode: str | None

    def __init__(
        self,
        metric: str,
        std: float = 0.01,
        num_results: int = 4,
        grace_period: int = 4,
        metric_threshold: float | None = None,
        mode: str | None = None,
    ) -> None:
        if metric_threshold is not None and mode not in ("min", "max"):
            raise ValueError(f"mode={mode!r}: with metric_threshold it is 'min' or 'max'")
        self.metric, self.std, self.num_results, self.grace_period = metric, std, num_results, grace_period
        self.metric_threshold, self.mode = metric_threshold, mode
        self._n: defaultdict[str, int] = defaultdict(int)
        self._values: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=num_results))

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        value = result.get(self.metric)
        if not isinstance(value, (int, float)):
            return False
        self._n[trial_id] += 1
        values = self._values[trial_id]
        values.append(value)
        if self._n[trial_id] < self.grace_period or len(values) < self.num_results:
            return False
        if self.metric_threshold is not None:
            is_worse = value > self.metric_threshold if self.mode == "min" else value < self.metric_threshold
            if is_worse:
                return False
        return _is_flat(values, self.std)

    def __getstate__(self) -> dict[str, Any]:
        return {
            **self.__dict__,
            "_n": dict(self._n),
            "_values": {key: list(values) for key, values in self._values.items()},
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        n, values = state["_n"], state["_values"]
        self._n = defaultdict(int, n)
        self._values = defaultdict(lambda: deque(maxlen=self.num_results))
        for key, some in values.items():
            self._values[key].extend(some)


class ExperimentPlateauStopper(Stopper):
    """Ends the experiment when its best values have not changed for some results.

    Parameters
    ----------
    metric : str
    std : float
        They have not changed if the standard deviation of the `top` best values is at most this.
    top : int
        How many of the best values, of different results, are looked at.
    mode : str
        "min" or "max".
    patience : int
        For how many results in a row.
    """

    metric: str
    std: float
    top: int
    patience: int

    def __init__(self, metric: str, std: float = 0.001, top: int = 10, mode: str = "min", patience: int = 0) -> None:
        if mode not in ("min", "max"):
            raise ValueError(f"mode={mode!r}: it is 'min' or 'max'")
        if top <= 0 or patience < 0 or std < 0:
            raise ValueError(f"top={top}, patience={patience}, std={std}: top is positive, the others are not negative")
        self.metric, self.std, self.top, self.mode, self.patience = metric, std, top, mode, patience
        self._best: list[float] = []
        self._n_flat = 0

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        value = result.get(self.metric)
        if isinstance(value, (int, float)):
            self._best = sorted([*self._best, value], reverse=self.mode == "max")[: self.top]
            is_flat = len(self._best) == self.top and _is_flat(self._best, self.std)
            self._n_flat = self._n_flat + 1 if is_flat else 0
        return self.stop_all()

    def stop_all(self) -> bool:
        return self._n_flat > self.patience


class TimeoutStopper(Stopper):
    """Ends the experiment after so many seconds; `timedelta` will do."""

    timeout_s: float

    def __init__(self, timeout: Any) -> None:
        self.timeout_s = float(timeout.total_seconds() if hasattr(timeout, "total_seconds") else timeout)
        self._began: float | None = None

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        if self._began is None:
            self._began = time.monotonic()
        return False

    def stop_all(self) -> bool:
        return self._began is not None and time.monotonic() - self._began >= self.timeout_s

    def why_all(self) -> str:
        return f"its {self.timeout_s:g} s are over" if self.stop_all() else ""


class CombinedStopper(Stopper):
    """Ends what any of several stoppers ends."""

    def __init__(self, *stoppers: Stopper) -> None:
        self.stoppers = stoppers

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return any([stopper(trial_id, result) for stopper in self.stoppers])  # each hears of each result

    def stop_all(self) -> bool:
        return any(stopper.stop_all() for stopper in self.stoppers)

    def why(self, trial_id: str, result: dict[str, Any]) -> str:
        return next(filter(None, [stopper.why(trial_id, result) for stopper in self.stoppers]), "")

    def why_all(self) -> str:
        return next(filter(None, (stopper.why_all() for stopper in self.stoppers)), "")


def bounded_by(stopper: Stopper | None) -> set[str]:
    """The metrics for which `stop=` has bounds."""
    if isinstance(stopper, CombinedStopper):
        return set().union(*map(bounded_by, stopper.stoppers))
    return set(stopper.bounds) if isinstance(stopper, Criteria) else set()


def stopper_of(stop: Any) -> Stopper | None:
    """The stopper that `stop=` means: a dict of bounds, a function, a stopper, or a list of those."""
    if stop is None or isinstance(stop, Stopper):
        return stop
    if isinstance(stop, Mapping):
        return Criteria(stop)
    if isinstance(stop, (list, tuple)):
        return CombinedStopper(*filter(None, map(stopper_of, stop)))
    if callable(stop):
        function: Any = stop
        return FunctionStopper(function)
    raise TypeError(
        f"stop={stop!r}: it is a dict of metrics to bounds, a function of (trial_id, result), a Stopper, or a list of "
        f"those"
    )


def _is_flat(values: Iterable[float], std: float) -> bool:
    import numpy as np

    return float(np.std(list(values))) <= std
