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

    `tensorboard --logdir PATH` shows them. Steps are training iterations.

    Raises
    ------
    ModuleNotFoundError
        tensorboardX is not installed.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        super().__init__(path)
        _tensorboardx()
        self._writers: dict[str, Any] = {}

    def begin(self, trial: TrialInfo) -> None:
        self._writers[trial.trial_id] = _tensorboardx().SummaryWriter(str(self.folder_of(trial)), flush_secs=30)

    def write(self, trial: TrialInfo, result: Mapping[str, Any]) -> None:
        writer, step = self._writers[trial.trial_id], result.get("training_iteration", 0)
        for name, value in _numbers(result).items():
            writer.add_scalar(name, value, global_step=step, walltime=result.get("timestamp"))

    def end(self, trial: TrialInfo) -> None:
        writer = self._writers.pop(trial.trial_id)
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
        return {**self.__dict__, "_writers": {}}


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
