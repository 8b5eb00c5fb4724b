"""`ray.tune.schedulers.async_hyperband`."""

from __future__ import annotations

from . import ASHAScheduler as ASHAScheduler
from . import AsyncHyperBandScheduler as AsyncHyperBandScheduler
