"""`ray.tune.async_hyperband` as it was in 2018."""

from __future__ import annotations

from .legacy import AsyncHyperBandScheduler as AsyncHyperBandScheduler
