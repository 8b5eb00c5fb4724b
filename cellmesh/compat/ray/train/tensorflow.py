"""`ray.train.tensorflow`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ....train import Trainer as _Trainer
from ....train.tensorflow import TensorflowTrainer as _TensorflowTrainer
from ... import missing as _missing
from .trainers import DataParallelTrainer

__all__ = ["TensorflowConfig", "TensorflowTrainer"]


@dataclass
class TensorflowConfig:
    """Nothing to choose."""


class TensorflowTrainer(DataParallelTrainer):
    """Trains with TensorFlow on several workers, which have `TF_CONFIG`."""

    def __init__(
        self,
        train_loop_per_worker: Callable[..., Any],
        *,
        tensorflow_config: TensorflowConfig | None = None,
        **others: Any,
    ) -> None:
        super().__init__(train_loop_per_worker, backend_config=tensorflow_config, **others)

    def _ours(self, loop: Callable[..., Any], **options: Any) -> _Trainer:
        return _TensorflowTrainer(loop, **options)


__getattr__: _missing.NoSuchName = _missing.no_such_name("ray.train.tensorflow")
