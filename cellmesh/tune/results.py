"""What an experiment has found: a result for each trial, the best of them, tables."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from ..tracebacks import readable_place
from .checkpoint import Checkpoint
from .exceptions import TuneError
from .view import ITERATION, ExperimentView, TrialView

if TYPE_CHECKING:
    import pandas

SCOPES = ("last", "all", "avg", "last-5-avg", "last-10-avg")


class Result:
    """What a trial has found."""

    def __init__(self, trial: TrialView, of: ResultGrid) -> None:
        self._trial, self._of = trial, of

    @property
    def number(self) -> int:
        """The trial's number."""
        return self._trial.number

    @property
    def config(self) -> dict[str, Any]:
        """The trial's configuration."""
        return self._trial.config

    @property
    def metrics(self) -> dict[str, Any]:
        """What it reported last; empty before."""
        return self._trial.last

    @property
    def state(self) -> str:
        """PENDING, RUNNING, PAUSED, TERMINATED or ERROR."""
        return self._trial.state

    @property
    def why(self) -> str:
        """Why it is in this state."""
        return self._trial.why

    @property
    def path(self) -> str:
        """The experiment's folder."""
        return self._of.path

    @property
    def error(self) -> str:
        """What the trial failed with, and the user's line that raised; "" if it has not failed."""
        trial = self._trial
        return f"{trial.error}\n    {readable_place(trial.line)}" if trial.line else trial.error

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The latest checkpoint that is still there."""
        return next((one for one, _ in reversed(self.checkpoints)), None)

    @property
    def checkpoints(self) -> list[tuple[Checkpoint, int]]:
        """The checkpoints that are there, oldest first, each with its iteration."""
        folder = self._of._folder
        return [
            (Checkpoint(folder / saved.path), saved.iteration)
            for saved in self._trial.checkpoints
            if (folder / saved.path).exists()
        ]

    @property
    def metrics_dataframe(self) -> pandas.DataFrame:
        """All results, a row each."""
        import pandas

        return pandas.DataFrame({name: self._trial.column(name) for name in list(self._trial.curves)})

    def curve(self, metric: str | None = None) -> tuple[list[float], list[float]]:
        """Iterations, and a metric at each: the experiment's metric unless another is named."""
        name = self._of._metric(metric)
        return list(self._trial.column(ITERATION)), list(self._trial.column(name))

    def __repr__(self) -> str:
        metric = self._of._view.metric
        value = f", {metric}={self.metrics[metric]:.6g}" if metric and _is_number(self.metrics.get(metric)) else ""
        return f"Result({self.number}, {self.state}{value}, {self.config})"


class ResultGrid:
    """The results of an experiment, in the order of its trials: `grid[3]`, `len(grid)`, `for result in grid`."""

    def __init__(self, view: ExperimentView, folder: Path) -> None:
        self._view, self._folder = view, folder

    def _look(self) -> ExperimentView:
        """The view as it is now."""
        return self._view

    # ---- trials
    def __len__(self) -> int:
        return len(self._look().trials)

    def __getitem__(self, number: int) -> Result:
        return Result(self._look().trials[number], self)

    def __iter__(self) -> Iterator[Result]:
        return (Result(trial, self) for trial in list(self._look().trials))

    @property
    def errors(self) -> list[str]:
        """What failed trials have failed with."""
        return [result.error for result in self if result.state == "ERROR"]

    @property
    def num_errors(self) -> int:
        """How many trials have failed."""
        return sum(trial.state == "ERROR" for trial in self._look().trials)

    @property
    def num_terminated(self) -> int:
        """How many trials have ended without an error."""
        return sum(trial.state == "TERMINATED" for trial in self._look().trials)

    @property
    def path(self) -> str:
        """The experiment's folder."""
        return str(self._folder)

    @property
    def experiment_path(self) -> str:
        """The experiment's folder."""
        return str(self._folder)

    # ---- the best
    @property
    def best(self) -> Result:
        """The trial whose last result is the best, by the experiment's metric and mode."""
        return self.get_best_result()

    def get_best_result(
        self,
        metric: str | None = None,
        mode: str | None = None,
        scope: str = "last",
        filter_nan_and_inf: bool = True,
    ) -> Result:
        """The trial with the best value of a metric.

        Parameters
        ----------
        metric, mode : str, optional
            Those of the experiment, unless given. `mode` is "min" or "max".
        scope : str
            Which results of a trial are looked at: the "last" one, "all", the mean of all ("avg") or of the last five
            or ten ("last-5-avg", "last-10-avg").
        filter_nan_and_inf : bool
            Leave out trials whose value is not finite.

        Raises
        ------
        TuneError
            No trial has a value. ValueError for a wrong mode or scope, or no metric.
        """
        view = self._look()
        name = self._metric(metric)
        mode = mode or view.mode
        if mode not in ("min", "max"):
            raise ValueError(f"mode={mode!r}: it is 'min' or 'max'")
        if scope not in SCOPES:
            raise ValueError(f"scope={scope!r}: it is one of {', '.join(map(repr, SCOPES))}")
        best = _best(view, name, mode, scope, filter_nan_and_inf)
        if best is None:
            names = sorted({key for trial in view.trials for key in trial.last})
            raise TuneError(
                f"no trial has a finite {name!r}"
                + (
                    f"; reported were {', '.join(names)}"
                    if names
                    else ": none has reported yet"
                    if view.trials
                    else ": there is no trial"
                )
                + _first_error(view)
            )
        return Result(best, self)

    # ---- tables
    def get_dataframe(self, filter_metric: str | None = None, filter_mode: str | None = None) -> pandas.DataFrame:
        """A row for each trial: what it reported last, or where `filter_metric` was best; its configuration as
        `config/...`.
        """
        import pandas

        rows = []
        for trial in self._look().trials:
            last: dict[str, Any] = trial.last
            if filter_metric is not None and trial.n_results:
                column = list(trial.column(filter_metric))
                finite = [i for i, value in enumerate(column) if math.isfinite(value)]
                if finite:
                    pick = (max if (filter_mode or self._view.mode) == "max" else min)(finite, key=column.__getitem__)
                    last = {name: trial.column(name)[pick] for name in list(trial.curves)}
            rows.append({"trial": trial.number, "state": trial.state, **last, **flat(trial.config, "config/")})
        return pandas.DataFrame(rows)

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each trial: its number, its state, what it reported last, its configuration as `config/...`."""
        return self.get_dataframe()

    def curves(self, metric: str | None = None) -> pandas.DataFrame:
        """A metric of all trials: a row for each iteration, a column for each trial."""
        import pandas

        name = self._metric(metric)
        series = {}
        for trial in self._look().trials:
            if name in trial.curves:
                steps = pandas.Index(trial.column(ITERATION), name=ITERATION)
                one = pandas.Series(trial.column(name), index=steps)
                series[trial.number] = one[~one.index.duplicated(keep="last")]
        return pandas.DataFrame(series)

    def _metric(self, metric: str | None) -> str:
        name = metric or self._look().metric
        if name is None:
            raise ValueError("metric: the experiment has none, so name one of what its trials report")
        return name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._folder.name}: {summary(self._look())}>"


def summary(view: ExperimentView) -> str:
    """One line: how many trials are where, and the best value."""
    counts: dict[str, int] = {}
    for trial in view.trials:
        counts[trial.state] = counts.get(trial.state, 0) + 1
    words = {"RUNNING": "running", "PENDING": "waiting", "PAUSED": "paused", "TERMINATED": "ended", "ERROR": "failed"}
    parts = [f"{counts[state]} {word}" for state, word in words.items() if state in counts]
    best = best_of(view)
    if best is not None and view.metric is not None:
        parts.append(f"best {view.metric} {best.last[view.metric]:.6g} (trial {best.number})")
    return ", ".join(parts) or "no trial yet"


def best_of(view: ExperimentView) -> TrialView | None:
    """The trial with the best last value of the experiment's metric."""
    return None if view.metric is None else _best(view, view.metric, view.mode, "last", finite_only=True)


def _best(view: ExperimentView, metric: str, mode: str, scope: str, finite_only: bool) -> TrialView | None:
    """The first of the trials with the best value; one that is NaN is the best only where there is no other."""
    sign = 1 if mode == "max" else -1
    best, best_value = None, math.nan
    for trial in view.trials:
        value = _value(trial, metric, mode, scope)
        if value is None or (finite_only and not math.isfinite(value)):
            continue
        if best is None or sign * value > sign * best_value or math.isnan(best_value):
            best, best_value = trial, value
    return best


def flat(config: Any, prefix: str) -> dict[str, Any]:
    """A nested configuration by paths: {"a": {"b": 1}} -> {"config/a/b": 1}."""
    found: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, dict) and value:
            found.update(flat(value, f"{prefix}{name}/"))
        else:
            found[f"{prefix}{name}"] = value
    return found


def _value(trial: TrialView, name: str, mode: str, scope: str) -> float | None:
    if scope == "last":
        value = trial.last.get(name)
        return float(value) if _is_number(value) else None
    values = [value for value in trial.column(name) if not math.isnan(value)] if name in trial.curves else []
    if not values:
        return None
    if scope == "all":
        return max(values) if mode == "max" else min(values)
    tail = {"avg": len(values), "last-5-avg": 5, "last-10-avg": 10}[scope]
    return math.fsum(values[-tail:]) / len(values[-tail:])


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _first_error(view: ExperimentView) -> str:
    failed = next((trial for trial in view.trials if trial.state == "ERROR"), None)
    return f". Trial {failed.number} failed: {failed.error} {failed.line}".rstrip() if failed else ""
