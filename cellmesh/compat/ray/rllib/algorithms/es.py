"""`ray.rllib.algorithms.es`, which RLlib had until version 2.7."""

from __future__ import annotations

from typing import ClassVar

from .... import missing as _missing
from .algorithm import Algorithm
from .algorithm_config import AlgorithmConfig


class ESConfig(AlgorithmConfig):
    """What ES is to be; `AlgorithmConfig` has the methods."""

    def __init__(self, algo_class: type[Algorithm] | None = None) -> None:
        super().__init__(algo_class or ES)


class ES(Algorithm):
    """`cellmesh.rl.ES` in RLlib's shape; `Algorithm` has the methods."""

    NAME: ClassVar[str] = "ES"
    CONFIG: ClassVar[type[AlgorithmConfig]] = ESConfig


__getattr__: _missing.NoSuchName = _missing.no_such_name("ray.rllib.algorithms.es")
