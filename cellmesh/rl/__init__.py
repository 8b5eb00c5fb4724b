"""Reinforcement learning: one algorithm, one file that reads like its paper; never a kind of process or memory of its
own.

    from cellmesh import rl

    algo = rl.PPO("CartPole-v1", num_envs=8, num_workers=2, seed=0)
    for result in algo.train(until={"episode_return_mean": 475}):
        ...
    action = algo.policy(observation)

`envs/` steps environments in several processes over shared memory; each algorithm is also a trainable of
`cellmesh.tune`. Everything is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .a3c import A3C as A3C
    from .a3c import A3CHyperparameters as A3CHyperparameters
    from .algorithm import Algorithm as Algorithm
    from .apex import ApexDQN as ApexDQN
    from .apex import ApexDQNHyperparameters as ApexDQNHyperparameters
    from .dqn import DQN as DQN
    from .dqn import DQNHyperparameters as DQNHyperparameters
    from .envs.atari import atari as atari
    from .envs.vector import SharedVectorEnv as SharedVectorEnv
    from .envs.vector import make_vec as make_vec
    from .episodes.frames import Episode as Episode
    from .es import ES as ES
    from .es import ESHyperparameters as ESHyperparameters
    from .exceptions import CheckpointError as CheckpointError
    from .exceptions import EnvFailedError as EnvFailedError
    from .exceptions import EnvWorkerDiedError as EnvWorkerDiedError
    from .exceptions import EnvWorkerReplacedWarning as EnvWorkerReplacedWarning
    from .exceptions import RLError as RLError
    from .exceptions import TrainingDivergedError as TrainingDivergedError
    from .policy import Policy as Policy
    from .ppo import PPO as PPO
    from .ppo import PPOHyperparameters as PPOHyperparameters
    from .replay import PrioritizedReplay as PrioritizedReplay
    from .replay import ReplayBuffer as ReplayBuffer
    from .serving import PolicyServer as PolicyServer
    from .serving import serve as serve

# public name -> the module that defines it
_HOMES = {
    **dict.fromkeys(
        (
            "CheckpointError",
            "EnvFailedError",
            "EnvWorkerDiedError",
            "EnvWorkerReplacedWarning",
            "RLError",
            "TrainingDivergedError",
        ),
        "exceptions",
    ),
    **dict.fromkeys(("A3C", "A3CHyperparameters"), "a3c"),
    **dict.fromkeys(("ApexDQN", "ApexDQNHyperparameters"), "apex"),
    **dict.fromkeys(("DQN", "DQNHyperparameters"), "dqn"),
    **dict.fromkeys(("PrioritizedReplay", "ReplayBuffer"), "replay"),
    **dict.fromkeys(("ES", "ESHyperparameters"), "es"),
    **dict.fromkeys(("PPO", "PPOHyperparameters"), "ppo"),
    **dict.fromkeys(("SharedVectorEnv", "make_vec"), "envs.vector"),
    **dict.fromkeys(("PolicyServer", "serve"), "serving"),
    "Algorithm": "algorithm",
    "atari": "envs.atari",
    "Episode": "episodes.frames",
    "Policy": "policy",
}
_EXTRAS = {"gymnasium": "rl", "torch": "rl", "ale_py": "atari"}

__all__ = [*_HOMES]  # noqa: PLE0604 (the names are those of the table)


if not TYPE_CHECKING:  # for whom any name would be there then

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            value = globals()[name] = getattr(import_module(f".{_HOMES[name]}", __name__), name)
        except ModuleNotFoundError as error:
            if error.name not in _EXTRAS:
                raise
            text = f"rl.{name} needs {error.name}: pip install 'cellmesh[{_EXTRAS[error.name]}]'"
            raise ModuleNotFoundError(text, name=error.name) from None
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
