"""Results of learning with RLlib's keys. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ....rl.rllib_names import METRICS

LOSSES = {"loss/policy": "policy_loss", "loss/value": "vf_loss", "loss/q": "qf_loss", "kl": "mean_kl_loss"}
_OF_EPISODES = ("episode_return_mean", "episode_return_min", "episode_return_max")
_ELSEWHERE = (*_OF_EPISODES, "episode_length_mean", "episodes_total", "timesteps_total", "steps_per_s",
              "training_iteration", "time_total_s")  # fmt: skip
MODULE = "default_policy"  # the one that RLlib's learners have


def result_of(ours: Mapping[str, float], before: Mapping[str, float]) -> dict[str, Any]:
    """A result in RLlib's shape; `before`: the one before it, for what is told of an iteration."""

    def since(name: str) -> int:
        return int(ours[name]) - int(before.get(name, 0))

    losses = {LOSSES.get(name, name): value for name, value in ours.items() if name not in _ELSEWHERE}
    return {
        **{old: ours[new] for old, new in METRICS.items() if old.startswith("episode_")},  # as before RLlib 2.31
        "episodes_total": int(ours["episodes_total"]),
        "timesteps_total": int(ours["timesteps_total"]),
        "timesteps_this_iter": since("timesteps_total"),
        "env_runners": {
            **{name: ours[name] for name in _OF_EPISODES},
            "episode_len_mean": ours["episode_length_mean"],
            "num_episodes": since("episodes_total"),
            "num_episodes_lifetime": int(ours["episodes_total"]),
            "num_env_steps_sampled": since("timesteps_total"),
            "num_env_steps_sampled_lifetime": int(ours["timesteps_total"]),
            "num_env_steps_sampled_lifetime_throughput": ours["steps_per_s"],
        },
        "learners": {MODULE: losses},
        "num_env_steps_sampled_lifetime": int(ours["timesteps_total"]),
    }


def evaluation_of(returns: Sequence[float]) -> dict[str, Any]:
    """What `evaluate` returns of episodes."""
    return {
        "env_runners": {
            "episode_return_mean": math.fsum(returns) / len(returns),
            "episode_return_min": min(returns),
            "episode_return_max": max(returns),
            "num_episodes": len(returns),
        }
    }
