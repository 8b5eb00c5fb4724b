"""Event files that TensorBoard reads, by tensorboardX."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..callbacks import TrialInfo
from ..results import flat
from .base import Logger

HYPERPARAMETERS = (bool, int, float, str)  # what TensorBoard's view of them takes


class TensorBoardLogger(Logger):
    """Writes an event file for each trial: a curve for each metric, and the configuration as its hyperparameters.

    `tensorboard --logdir PATH` shows them. Steps are training iterations. Hyperparameters are those that a trial has
    run with last; a number among them that has changed on the way (PBT) has a curve, too: `config/lr`.

    Raises
    ------
    ModuleNotFoundError
        tensorboardX is not installed.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        super().__init__(path)
        _tensorboardx()
        self._writers: dict[str, Any] = {}
        self._courses: dict[str, _Course] = {}

    def begin(self, trial: TrialInfo) -> None:
        self._courses[trial.trial_id] = _Course()
        self._writers[trial.trial_id] = _tensorboardx().SummaryWriter(str(self.folder_of(trial)), flush_secs=30)

    def write(self, trial: TrialInfo, result: Mapping[str, Any]) -> None:
        writer, step = self._writers[trial.trial_id], result.get("training_iteration", 0)
        for name, value in _numbers(result).items():
            writer.add_scalar(name, value, global_step=step, walltime=result.get("timestamp"))
        for name, value, at in self._courses[trial.trial_id].changed(_numbers(flat(trial.config, "")), step):
            writer.add_scalar(f"config/{name}", value, global_step=at, walltime=result.get("timestamp"))

    def end(self, trial: TrialInfo) -> None:
        writer = self._writers.pop(trial.trial_id)
        del self._courses[trial.trial_id]
        parameters = {
            name: value if isinstance(value, HYPERPARAMETERS) else repr(value)
            for name, value in flat(trial.config, "").items()
        }
        if parameters:
            # `add_hparams` of tensorboardX would begin a run more; these are the three records of which it consists.
            summary = importlib.import_module("tensorboardX.summary")
            for record in summary.hparams(parameters, {name: None for name in _numbers(trial.last_result)}):
                writer.file_writer.add_summary(record)
        writer.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_writers": {}, "_courses": {}}


class _Course:
    """The numbers of a configuration from one result to the next."""

    def __init__(self) -> None:
        self._steps: tuple[int, int] | None = None  # the first and the latest
        self._config: dict[str, float] = {}  # at the latest
        self._names: set[str] = set()  # of those that have changed

    def changed(self, config: dict[str, float], step: int) -> list[tuple[str, float, int]]:
        """What is to be drawn of a result: names, values and steps of what has ever changed, with what was before."""
        before, steps = self._config, self._steps or (step, step)
        new = {name for name, value in config.items() if before.get(name, value) != value} - self._names
        points = [(name, before[name], at) for name in sorted(new) for at in sorted(set(steps))]
        self._names |= new
        self._steps, self._config = (steps[0], step), config
        return points + [(name, config[name], step) for name in sorted(self._names & config.keys())]


def _numbers(result: Mapping[str, Any]) -> dict[str, float]:
    return {
        name: float(value)
        for name, value in result.items()
        if isinstance(value, (int, float)) and name not in ("training_iteration", "timestamp") and math.isfinite(value)
    }


def _tensorboardx() -> Any:
    try:
        return importlib.import_module("tensorboardX")
    except ModuleNotFoundError as error:
        if error.name != "tensorboardX":
            raise
        raise ModuleNotFoundError(
            "event files for TensorBoard are written by tensorboardX, which is not installed: "
            "pip install 'cellmesh[tune]'",
            name="tensorboardX",
        ) from None
