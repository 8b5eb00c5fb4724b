"""`ResultGrid` and `Result` in Ray's shape."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....tune.journal import first_record
from ....tune.loggers.replay import Replay
from .analysis import ExperimentAnalysis
from .configs import flattened
from .reporting import Checkpoint
from .trials import Trial

if TYPE_CHECKING:
    import pandas

_NOT_SHOWN = frozenset(
    (
        "timestamp", "checkpoint_dir_name", "done", "training_iteration", "trial_id", "date", "time_this_iter_s",
        "time_total_s", "pid", "hostname", "node_ip", "config", "time_since_restore", "iterations_since_restore",
        "experiment_tag",
    )
)  # fmt: skip


@dataclass
class Result:
    """What a trial has found.

    Attributes
    ----------
    metrics : dict
        The last result, nested as it was reported, with the configuration and what Ray adds.
    checkpoint : Checkpoint or None
        The latest.
    error : Exception or None
        What the trial failed with; of an experiment of another run a `TuneError` with its text.
    path : str
        A folder of the trial's own; it is there if the trial has asked for it.
    metrics_dataframe : pandas.DataFrame or None
        All results: what of them is a number. None if there are none, or no pandas.
    best_checkpoints : list of (Checkpoint, dict)
        Those that are there, with the metrics that were reported with them.
    """

    metrics: dict[str, Any] | None
    checkpoint: Checkpoint | None
    error: Exception | None
    path: str
    metrics_dataframe: pandas.DataFrame | None = None
    best_checkpoints: Sequence[tuple[Checkpoint, dict[str, Any]]] | None = field(default=None, repr=False)

    @property
    def config(self) -> dict[str, Any] | None:
        """The configuration."""
        return self.metrics and self.metrics.get("config")

    def get_best_checkpoint(self, metric: str, mode: str) -> Checkpoint | None:
        """The checkpoint with the best value of a metric.

        Raises
        ------
        RuntimeError
            No checkpoint has the metric.
        """
        if not self.best_checkpoints:
            raise RuntimeError("No checkpoint exists in the trial directory!")
        if mode not in ("max", "min"):
            raise ValueError(f'Unsupported mode: {mode}. Please choose from ["min", "max"]!')
        found = [(flattened(of).get(metric), checkpoint) for checkpoint, of in self.best_checkpoints]
        valued = [(value, checkpoint) for value, checkpoint in found if value is not None]
        if not valued:
            raise RuntimeError(f"Invalid metric name {metric}! No checkpoint was reported with it")
        return (max if mode == "max" else min)(valued, key=lambda pair: pair[0])[1]

    @classmethod
    def from_path(cls, path: str, storage_filesystem: Any = None) -> Result:
        """The result of a trial from `Result.path`.

        Raises
        ------
        RuntimeError
            It is not the path of a trial.
        """
        place = Path(path).expanduser().absolute()
        folder = place.parent.parent
        if storage_filesystem is not None or place.parent.name != "trials" or first_record(folder) is None:
            raise RuntimeError(f"Trial folder {path} doesn't exist: it is EXPERIMENT/trials/NUMBER, on this machine")
        view = Replay(folder, ()).advance()
        return result_of(Trial(view.trials[int(place.name)], view, folder))

    def __repr__(self) -> str:
        shown = {name: value for name, value in (self.metrics or {}).items() if name not in _NOT_SHOWN}
        lines = [f"error={type(self.error).__name__!r}"] * (self.error is not None)
        lines += [f"metrics={shown}", f"path={self.path!r}", "filesystem='local'", f"checkpoint={self.checkpoint}"]
        return "Result(\n  " + ",\n  ".join(lines) + "\n)"


def result_of(trial: Trial) -> Result:
    """A trial's result."""
    frame: pandas.DataFrame | None = None
    if trial.column("training_iteration") and find_spec("pandas") is not None:
        from pandas import DataFrame

        frame = DataFrame(trial.columns())
        frame["trial_id"] = trial.trial_id
        for name, value in flattened(trial.config).items():
            frame[f"config/{name}"] = [value] * len(frame)
    error = trial.error
    return Result(
        metrics=trial.last_result,
        checkpoint=trial.checkpoint,
        error=error if isinstance(error, Exception) else None,
        path=trial.path,
        metrics_dataframe=frame,
        best_checkpoints=trial.checkpoints,
    )


class ResultGrid:
    """The results of an experiment, in the order of its trials."""

    def __init__(self, experiment_analysis: ExperimentAnalysis) -> None:
        self._experiment_analysis = experiment_analysis
        self._results = [result_of(trial) for trial in experiment_analysis.trials]

    @property
    def experiment_path(self) -> str:
        """The experiment's folder."""
        return self._experiment_analysis.experiment_path

    def get_best_result(
        self, metric: str | None = None, mode: str | None = None, scope: str = "last", filter_nan_and_inf: bool = True
    ) -> Result:
        """The trial with the best value of a metric.

        Raises
        ------
        ValueError
            There is no metric or mode, here or in the `TuneConfig`.
        RuntimeError
            No trial has a value.
        """
        analysis = self._experiment_analysis
        if len(analysis.trials) == 1:
            return self._results[0]
        if not (metric or analysis.default_metric):
            raise ValueError(
                "No metric is provided. Either pass in a `metric` arg to `get_best_result` or specify a metric in the "
                "`TuneConfig` of your `Tuner`."
            )
        if not (mode or analysis.default_mode):
            raise ValueError(
                "No mode is provided. Either pass in a `mode` arg to `get_best_result` or specify a mode in the "
                "`TuneConfig` of your `Tuner`."
            )
        best = analysis.get_best_trial(metric, mode, scope, filter_nan_and_inf)
        if best is None:
            raise RuntimeError(
                f"No best trial found for the given metric: {metric or analysis.default_metric}. This means that no "
                "trial has reported this metric"
                + (", or all values reported for this metric are NaN." if filter_nan_and_inf else ".")
            )
        return self._results[analysis.trials.index(best)]

    def get_dataframe(self, filter_metric: str | None = None, filter_mode: str | None = None) -> pandas.DataFrame:
        """A row for each trial: its last result, or the one where `filter_metric` was best."""
        return self._experiment_analysis.dataframe(filter_metric, filter_mode)

    @property
    def errors(self) -> list[Exception]:
        """What trials have failed with."""
        return [result.error for result in self if result.error is not None]

    @property
    def num_errors(self) -> int:
        """How many trials have failed."""
        return sum(trial.status == Trial.ERROR for trial in self._experiment_analysis.trials)

    @property
    def num_terminated(self) -> int:
        """How many have ended without an error."""
        return sum(trial.status == Trial.TERMINATED for trial in self._experiment_analysis.trials)

    def __len__(self) -> int:
        return len(self._results)

    def __getitem__(self, i: int) -> Result:
        return self._results[i]

    def __iter__(self) -> Iterator[Result]:
        return iter(self._results)

    def __repr__(self) -> str:
        inside = ",\n".join("  " + repr(result).replace("\n", "\n  ") for result in self)
        return f"ResultGrid<[\n{inside}\n]>"
