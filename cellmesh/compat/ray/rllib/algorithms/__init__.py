"""`ray.rllib.algorithms`: those of cellmesh.rl, each in a module of its name; never one that cellmesh.rl has not: it is
refused with what is like it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .... import missing as _missing

if TYPE_CHECKING:
    from .a3c import A3C as A3C
    from .a3c import A3CConfig as A3CConfig
    from .algorithm import Algorithm as Algorithm
    from .algorithm_config import AlgorithmConfig as AlgorithmConfig
    from .apex_dqn import ApexDQN as ApexDQN
    from .apex_dqn import ApexDQNConfig as ApexDQNConfig
    from .dqn import DQN as DQN
    from .dqn import DQNConfig as DQNConfig
    from .es import ES as ES
    from .es import ESConfig as ESConfig
    from .ppo import PPO as PPO
    from .ppo import PPOConfig as PPOConfig

_HOMES = {
    **dict.fromkeys(("A3C", "A3CConfig"), "a3c"),
    **dict.fromkeys(("ApexDQN", "ApexDQNConfig"), "apex_dqn"),
    **dict.fromkeys(("DQN", "DQNConfig"), "dqn"),
    **dict.fromkeys(("ES", "ESConfig"), "es"),
    **dict.fromkeys(("PPO", "PPOConfig"), "ppo"),
    "Algorithm": "algorithm",
    "AlgorithmConfig": "algorithm_config",
}
BY_NAME = {"A3C": "A3C", "APEX": "ApexDQN", "ApexDQN": "ApexDQN", "DQN": "DQN", "ES": "ES", "PPO": "PPO"}
__all__ = [*_HOMES]  # noqa: PLE0604 (the names are those of the table)

_refuse = _missing.no_such_name("ray.rllib.algorithms")

if not TYPE_CHECKING:  # for whom any name would be there then

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            value = globals()[name] = getattr(import_module(f".{_HOMES[name]}", __name__), name)
            return value
        if name in _HOMES.values():
            return import_module(f".{name}", __name__)
        return _refuse(name)
