"""`ray.rllib.ppo` as it was in 2018."""

from __future__ import annotations

from .legacy import PPO_CONFIG as DEFAULT_CONFIG
from .legacy import PPOAgent as PPOAgent

__all__ = ["DEFAULT_CONFIG", "PPOAgent"]
