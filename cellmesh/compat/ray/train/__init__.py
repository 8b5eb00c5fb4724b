"""`ray.train` in today's shape, with cellmesh.train behind it (`from cellmesh.compat.ray import train`); never a
training of its own."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ....train import TrainContext as TrainContext
from ....train import TrainingFailedError as TrainingFailedError
from ....train import get_context as get_context
from ....train import get_dataset_shard as get_dataset_shard
from ....train.context import in_rank as _in_rank
from ....train.context import report as _report
from ... import missing as _missing
from ..tune.configs import CheckpointConfig as CheckpointConfig
from ..tune.configs import FailureConfig as FailureConfig
from ..tune.configs import RunConfig as RunConfig
from ..tune.configs import SyncConfig as SyncConfig
from ..tune.reporting import Checkpoint as Checkpoint
from ..tune.reporting import get_checkpoint as get_checkpoint
from ..tune.reporting import report as _report_of_trial

if TYPE_CHECKING:
    from ..tune.results import Result as Result
    from .trainers import DataParallelTrainer as DataParallelTrainer
    from .trainers import ScalingConfig as ScalingConfig

TRAIN_DATASET_KEY = "train"

__all__ = [
    "TRAIN_DATASET_KEY",
    "Checkpoint",
    "CheckpointConfig",
    "FailureConfig",
    "Result",
    "RunConfig",
    "ScalingConfig",
    "SyncConfig",
    "TrainContext",
    "TrainingFailedError",
    "get_checkpoint",
    "get_context",
    "get_dataset_shard",
    "report",
]

_HOMES = {
    "Result": "..tune.results",
    "ScalingConfig": ".trainers",
    "DataParallelTrainer": ".trainers",
}
_NOT_WITH_A_REPORT = {
    "checkpoint_upload_mode": "the folder is copied before report returns",
    "delete_local_checkpoint_after_upload": "delete it when report has returned, as the folder has been copied then",
    "checkpoint_upload_fn": "upload the folder before report, or result.checkpoint",
    "validation": "report the metric, or validate result.checkpoint in a task",
}
_MODULES = ("torch", "tensorflow", "data_parallel_trainer")

_refuse = _missing.no_such_name("ray.train")


def report(
    metrics: Mapping[str, Any],
    checkpoint: Checkpoint | None = None,
    checkpoint_dir_name: Any = None,
    checkpoint_upload_mode: Any = None,
    delete_local_checkpoint_after_upload: bool | None = None,
    checkpoint_upload_fn: Any = None,
    validation: Any = False,
) -> None:
    """`cellmesh.train.report`, and in a trial of Tune that of `ray.tune`. A name for the checkpoint's folder has no
    meaning here.

    Raises
    ------
    ValueError
        Something is asked for that is not here: an upload in the background or by a function, a validation.
    """
    _missing.refuse_options("report", locals(), _NOT_WITH_A_REPORT)
    (_report if _in_rank() else _report_of_trial)(metrics, checkpoint=checkpoint)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = globals()[name] = getattr(import_module(_HOMES[name], __name__), name)
        return value
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    return _refuse(name)
