"""`ray.tune.result` as it was in 2018."""

from __future__ import annotations

from .legacy import TrainingResult as TrainingResult
