"""`ray.tune.schedulers.hyperband`."""

from __future__ import annotations

from . import HyperBandScheduler as HyperBandScheduler
