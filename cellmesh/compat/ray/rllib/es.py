"""`ray.rllib.es` as it was in 2018."""

from __future__ import annotations

from .legacy import ES_CONFIG as DEFAULT_CONFIG
from .legacy import ESAgent as ESAgent

__all__ = ["DEFAULT_CONFIG", "ESAgent"]
