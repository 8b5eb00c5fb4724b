"""`ray.train.data_parallel_trainer`."""

from __future__ import annotations

from ... import missing as _missing
from .trainers import DataParallelTrainer as DataParallelTrainer

__all__ = ["DataParallelTrainer"]

__getattr__: _missing.NoSuchName = _missing.no_such_name("ray.train.data_parallel_trainer")
