"""`ExperimentAnalysis`, which `tune.run` returns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....tune.exceptions import TuneError
from ....tune.journal import FILE, first_record
from ....tune.loggers.replay import Replay
from ....tune.results import SCOPES
from ....tune.view import ExperimentView
from .configs import flattened
from .reporting import Checkpoint
from .trials import Trial

if TYPE_CHECKING:
    import pandas


class ExperimentAnalysis:
    """Looks at an experiment, which has ended or still runs.

    Parameters
    ----------
    experiment_checkpoint_path : str
        The experiment's folder.
    trials : list of Trial, optional
        Instead of all of them.
    default_metric, default_mode : str, optional
        Instead of the experiment's.

    Raises
    ------
    ValueError
        No experiment lies there.
    """

    default_metric: str | None
    default_mode: str | None
    trials: list[Trial]

    def __init__(
        self,
        experiment_checkpoint_path: Any,
        *,
        storage_filesystem: Any = None,
        trials: list[Trial] | None = None,
        default_metric: str | None = None,
        default_mode: str | None = None,
    ) -> None:
        folder = Path(experiment_checkpoint_path).expanduser().absolute()
        folder = folder.parent if folder.name == FILE else folder
        if storage_filesystem is not None or first_record(folder) is None:
            raise ValueError(f"no experiment of cellmesh lies in {folder}: give the path of its folder")
        self._set_up(folder, Replay(folder, ()).advance(), {}, None, default_metric, default_mode)
        self.trials = self.trials if trials is None else trials

    @classmethod
    def of(
        cls,
        folder: Path,
        view: ExperimentView,
        errors: Mapping[int, BaseException],
        name_creator: Callable[[Trial], str] | None = None,
        mode: str | None = None,
    ) -> ExperimentAnalysis:
        """Of an experiment that has just been run, with what its trials failed with."""
        self = cls.__new__(cls)
        self._set_up(folder, view, errors, name_creator, None, mode)
        return self

    def _set_up(
        self,
        folder: Path,
        view: ExperimentView,
        errors: Mapping[int, BaseException],
        name_creator: Callable[[Trial], str] | None,
        metric: str | None,
        mode: str | None,
    ) -> None:
        self._folder = folder
        self.default_metric = metric or view.metric
        self.default_mode = mode or (view.mode if view.metric else None)
        self.trials = [Trial(trial, view, folder, errors.get(trial.number), name_creator) for trial in view.trials]

    # ---- the best
    @property
    def experiment_path(self) -> str:
        """The experiment's folder."""
        return str(self._folder)

    @property
    def best_trial(self) -> Trial:
        """The trial whose last result is the best."""
        self._need_defaults("best_trial", "get_best_trial(metric, mode, scope)")
        best = self.get_best_trial()
        if best is None:
            raise TuneError(f"no trial has a finite {self.default_metric!r}")
        return best

    @property
    def best_config(self) -> dict[str, Any]:
        """Its configuration."""
        return self.best_trial.config

    @property
    def best_result(self) -> dict[str, Any]:
        """Its last result."""
        return self.best_trial.last_result

    @property
    def best_checkpoint(self) -> Checkpoint | None:
        """Its best checkpoint."""
        return self.get_best_checkpoint(self.best_trial)

    @property
    def best_dataframe(self) -> pandas.DataFrame:
        """All its results."""
        return self.trial_dataframes[self.best_trial.trial_id]

    @property
    def best_result_df(self) -> pandas.DataFrame:
        """Its last result, as a row."""
        return _frame([_flat_row(self.best_trial)], index="trial_id")

    def get_best_trial(
        self, metric: str | None = None, mode: str | None = None, scope: str = "last", filter_nan_and_inf: bool = True
    ) -> Trial | None:
        """The trial with the best value of a metric; None if none has any.

        Parameters
        ----------
        scope : str
            "last" result, "all", the mean of all ("avg") or of the last five or ten ("last-5-avg", "last-10-avg").
        """
        metric, mode = self._metric(metric), self._mode(mode)
        if scope not in SCOPES:
            raise ValueError(f"ExperimentAnalysis: attempting to get best trial for metric {metric} for scope {scope} "
                             f"not in {list(SCOPES)}")  # fmt: skip
        sign, best = 1 if mode == "max" else -1, None
        for trial in self.trials:
            value = _value(trial, metric, mode, scope)
            if value is None or math.isnan(value) or (filter_nan_and_inf and not math.isfinite(value)):
                continue
            if best is None or sign * value > sign * best[0]:
                best = value, trial
        return None if best is None else best[1]

    def get_best_config(
        self, metric: str | None = None, mode: str | None = None, scope: str = "last"
    ) -> dict[str, Any] | None:
        """The configuration of the best trial; None if there is none."""
        best = self.get_best_trial(metric, mode, scope)
        return None if best is None else best.config

    # ---- checkpoints
    def get_best_checkpoint(
        self, trial: Trial, metric: str | None = None, mode: str | None = None
    ) -> Checkpoint | None:
        """The checkpoint of a trial with the best value of a metric; None if there is none."""
        metric, mode = metric or self.default_metric or "training_iteration", self._mode(mode)
        found = [
            (value, checkpoint)
            for checkpoint, result in trial.checkpoints
            if isinstance(value := flattened(result).get(metric), (int, float)) and not math.isnan(value)
        ]
        return (max if mode == "max" else min)(found, key=lambda pair: pair[0])[1] if found else None

    def get_last_checkpoint(
        self, trial: Trial | None = None, metric: str = "training_iteration", mode: str = "max"
    ) -> Checkpoint | None:
        """The latest checkpoint of a trial, or of the best one."""
        found = self.get_best_trial(metric, mode) if trial is None else trial
        return None if found is None else found.checkpoint

    # ---- tables
    @property
    def results(self) -> dict[str, dict[str, Any]]:
        """The last result of each trial, by its id."""
        return {trial.trial_id: trial.last_result for trial in self.trials}

    @property
    def results_df(self) -> pandas.DataFrame:
        """The last result of each trial, a row each."""
        return _frame([_flat_row(trial) for trial in self.trials], index="trial_id")

    @property
    def trial_dataframes(self) -> dict[str, pandas.DataFrame]:
        """All results of each trial: what of them is a number."""
        import pandas

        return {trial.trial_id: pandas.DataFrame(trial.columns()) for trial in self.trials}

    def dataframe(self, metric: str | None = None, mode: str | None = None) -> pandas.DataFrame:
        """A row for each trial: its last result, or with both metric and mode the one where the metric was best."""
        if mode and not metric:
            raise ValueError("If a `mode` is passed to `ExperimentAnalysis.dataframe()`, you'll also have to pass a "
                             "`metric`!")  # fmt: skip
        rows = []
        for trial in self.trials:
            step = trial.best_step(metric, mode) if metric and mode else None
            result = trial.last_result if step is None else trial.result_at(step)
            rows.append({**_flat_row(trial, result, tag=False), "logdir": trial.path})
        return _frame(rows)

    def get_all_configs(self, prefix: bool = False) -> dict[str, dict[str, Any]]:
        """The configuration of each trial, by its id; with `prefix` flat, as "config/..."."""
        return {
            trial.trial_id: flattened({"config": trial.config}) if prefix else trial.config for trial in self.trials
        }

    # ---- what is meant
    def _metric(self, metric: str | None) -> str:
        found = metric or self.default_metric
        if found is None:
            raise ValueError("No `metric` has been passed and `default_metric` has not been set. Please specify one")
        return found

    def _mode(self, mode: str | None) -> str:
        found = mode or self.default_mode
        if found is None:
            raise ValueError("No `mode` has been passed and `default_mode` has not been set. Please specify one")
        if found not in ("min", "max"):
            raise ValueError("If set, `mode` has to be one of [min, max]")
        return found

    def _need_defaults(self, name: str, instead: str) -> None:
        if not self.default_metric or not self.default_mode:
            raise ValueError(
                f"To fetch the `{name}`, pass a `metric` and `mode` parameter to `tune.run()`. Alternatively, use the "
                f"`{instead}` method"
            )


def _flat_row(trial: Trial, result: dict[str, Any] | None = None, tag: bool = True) -> dict[str, Any]:
    found = {**(trial.last_result if result is None else result)}
    config = found.pop("config", {})
    if not tag:
        found.pop("experiment_tag", None)
    return {**flattened(found), **flattened({"config": config})}


def _frame(rows: list[dict[str, Any]], index: str | None = None) -> pandas.DataFrame:
    import pandas

    frame = pandas.DataFrame(rows)
    return frame.set_index(index) if index is not None and rows else frame


def _value(trial: Trial, metric: str, mode: str, scope: str) -> float | None:
    if scope == "last":
        value = flattened(trial.last_result).get(metric)
        return float(value) if isinstance(value, (int, float)) else None
    values = [value for value in trial.column(metric) if not math.isnan(value)]
    if not values:
        return None
    if scope == "all":
        return max(values) if mode == "max" else min(values)
    tail = values[-{"avg": len(values), "last-5-avg": 5, "last-10-avg": 10}[scope] :]
    return math.fsum(tail) / len(tail)
