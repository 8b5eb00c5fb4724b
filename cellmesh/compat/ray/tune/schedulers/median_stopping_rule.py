"""`ray.tune.schedulers.median_stopping_rule`."""

from __future__ import annotations

from . import MedianStoppingRule as MedianStoppingRule
