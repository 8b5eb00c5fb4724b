"""`ray.rllib.algorithms.dqn`."""

from __future__ import annotations

from typing import ClassVar

from .... import missing as _missing
from .algorithm import Algorithm
from .algorithm_config import AlgorithmConfig


class DQNConfig(AlgorithmConfig):
    """What DQN is to be; `AlgorithmConfig` has the methods."""

    def __init__(self, algo_class: type[Algorithm] | None = None) -> None:
        super().__init__(algo_class or DQN)


class DQN(Algorithm):
    """`cellmesh.rl.DQN` in RLlib's shape; `Algorithm` has the methods."""

    NAME: ClassVar[str] = "DQN"
    CONFIG: ClassVar[type[AlgorithmConfig]] = DQNConfig


__getattr__: _missing.NoSuchName = _missing.no_such_name("ray.rllib.algorithms.dqn")
