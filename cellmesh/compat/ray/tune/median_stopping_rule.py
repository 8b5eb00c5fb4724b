"""`ray.tune.median_stopping_rule` as it was in 2018."""

from __future__ import annotations

from .legacy import MedianStoppingRule as MedianStoppingRule
