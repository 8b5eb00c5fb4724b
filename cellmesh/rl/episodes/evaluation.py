"""Episodes that a policy plays for themselves: in a task, so that training goes on meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import gymnasium as gym
import numpy as np

from ...api import remote
from ...objects import get
from ...refs import ObjectRef
from ..envs.makers import first_of, makers_of
from ..policy import Policy


def play(policy: Policy, env: gym.Env[Any, Any], seed: int, each: Callable[[], None] = lambda: None) -> float:
    """The return of an episode, each action the most likely one; `each` is called with every observation."""
    observation, _ = env.reset(seed=seed)
    total, over = 0.0, False
    while not over:
        each()
        observation, reward, terminated, truncated, _ = env.step(policy(observation))
        total += float(reward)
        over = terminated or truncated
    each()
    return total


@remote(num_cpus=0)  # beside a trainer that may have them all
def _returns(policy: Policy, make: Callable[[], gym.Env[Any, Any]], seeds: list[int]) -> list[float]:
    env = make()
    try:
        return [play(policy, env, seed) for seed in seeds]
    finally:
        env.close()


def evaluation(policy: Policy, env: Any, env_config: dict[str, Any], seeds: Iterable[int]) -> ObjectRef[Any]:
    """Begin to play an episode for each seed."""
    (make,) = makers_of(first_of(env), 1, (), env_config)
    return _returns.remote(policy, make, [int(seed) for seed in np.asarray(seeds)])


def evaluated(ref: ObjectRef[Any]) -> list[float]:
    """The returns of those episodes."""
    return get(ref)
