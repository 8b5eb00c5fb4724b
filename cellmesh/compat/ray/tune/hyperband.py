"""`ray.tune.hyperband` as it was in 2018."""

from __future__ import annotations

from .legacy import HyperBandScheduler as HyperBandScheduler
