"""`ray.rllib.algorithms.ppo`."""

from __future__ import annotations

from typing import ClassVar

from .... import missing as _missing
from .algorithm import Algorithm
from .algorithm_config import AlgorithmConfig


class PPOConfig(AlgorithmConfig):
    """What PPO is to be; `AlgorithmConfig` has the methods."""

    def __init__(self, algo_class: type[Algorithm] | None = None) -> None:
        super().__init__(algo_class or PPO)


class PPO(Algorithm):
    """`cellmesh.rl.PPO` in RLlib's shape; `Algorithm` has the methods."""

    NAME: ClassVar[str] = "PPO"
    CONFIG: ClassVar[type[AlgorithmConfig]] = PPOConfig


__getattr__: _missing.NoSuchName = _missing.no_such_name("ray.rllib.algorithms.ppo")
