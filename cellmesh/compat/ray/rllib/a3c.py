"""`ray.rllib.a3c` as it was in 2018."""

from __future__ import annotations

from .legacy import A3C_CONFIG as DEFAULT_CONFIG
from .legacy import A3CAgent as A3CAgent

__all__ = ["DEFAULT_CONFIG", "A3CAgent"]
