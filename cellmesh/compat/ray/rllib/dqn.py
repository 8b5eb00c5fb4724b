"""`ray.rllib.dqn` as it was in 2018."""

from __future__ import annotations

from .legacy import DQN_CONFIG as DEFAULT_CONFIG
from .legacy import ApexAgent as ApexAgent
from .legacy import DQNAgent as DQNAgent

__all__ = ["DEFAULT_CONFIG", "ApexAgent", "DQNAgent"]
