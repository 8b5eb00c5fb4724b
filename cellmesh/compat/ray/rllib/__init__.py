"""`ray.rllib` in today's shape, with cellmesh.rl behind it (`from cellmesh.compat.ray.rllib.algorithms.ppo import
PPOConfig`); never an algorithm of its own (decision 129). What there was in 2018 is in `legacy.py`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ... import missing as _missing

_MODULES = ("a3c", "agent", "algorithms", "dqn", "env", "es", "ppo")

_refuse = _missing.no_such_name("ray.rllib")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    return _refuse(name)
