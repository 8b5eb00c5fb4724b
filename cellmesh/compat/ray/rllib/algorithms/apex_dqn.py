"""`ray.rllib.algorithms.apex_dqn`, which RLlib had until version 2.7."""

from __future__ import annotations

from typing import ClassVar

from .... import missing as _missing
from .algorithm import Algorithm
from .algorithm_config import AlgorithmConfig


class ApexDQNConfig(AlgorithmConfig):
    """What ApexDQN is to be; `AlgorithmConfig` has the methods."""

    def __init__(self, algo_class: type[Algorithm] | None = None) -> None:
        super().__init__(algo_class or ApexDQN)


class ApexDQN(Algorithm):
    """`cellmesh.rl.ApexDQN` in RLlib's shape; `Algorithm` has the methods."""

    NAME: ClassVar[str] = "ApexDQN"
    CONFIG: ClassVar[type[AlgorithmConfig]] = ApexDQNConfig


__getattr__: _missing.NoSuchName = _missing.no_such_name("ray.rllib.algorithms.apex_dqn")
