"""`ray.rllib.algorithms.a3c`, which RLlib had until version 2.7."""

from __future__ import annotations

from typing import ClassVar

from .... import missing as _missing
from .algorithm import Algorithm
from .algorithm_config import AlgorithmConfig


class A3CConfig(AlgorithmConfig):
    """What A3C is to be; `AlgorithmConfig` has the methods."""

    def __init__(self, algo_class: type[Algorithm] | None = None) -> None:
        super().__init__(algo_class or A3C)


class A3C(Algorithm):
    """`cellmesh.rl.A3C` in RLlib's shape; `Algorithm` has the methods."""

    NAME: ClassVar[str] = "A3C"
    CONFIG: ClassVar[type[AlgorithmConfig]] = A3CConfig


__getattr__: _missing.NoSuchName = _missing.no_such_name("ray.rllib.algorithms.a3c")
