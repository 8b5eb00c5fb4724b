"""Steps that are played with a policy, to learn from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .episodes.statistics import RunningMoments
from .models.actions import Actions
from .models.encoding import stacked
from .policy import Model

if TYPE_CHECKING:
    from .stepping import SteppingAlgorithm


@dataclass(frozen=True)
class Rollout:
    """What was played. The first axis of arrays is the step, the second the environment."""

    observations: NDArray[Any]  # encoded, and normalised if they are
    actions: NDArray[Any]  # raw
    rewards: NDArray[np.float32]
    over: NDArray[np.bool_]  # terminated or truncated
    truncated: list[tuple[int, int, NDArray[Any]]]  # step, environment, the episode's last observation
    last_observations: NDArray[Any]  # after the last step

    @property
    def flat_observations(self) -> NDArray[Any]:
        """A row for each step of each environment."""
        return self.observations.reshape(-1, *self.observations.shape[2:])

    @property
    def flat_actions(self) -> NDArray[Any]:
        """Likewise."""
        return self.actions.reshape(-1, *self.actions.shape[2:])


def play(algorithm: SteppingAlgorithm, model: Model, n_steps: int, moments: RunningMoments | None = None) -> Rollout:
    """Play `n_steps` steps in every environment of an algorithm, from where it was; actions are drawn."""
    envs, encode, rng = algorithm.envs, algorithm.encode, algorithm.rng
    actions_of = Actions(algorithm.action_space)
    normal = (lambda rows: rows) if moments is None else moments
    rows = algorithm.observations
    seen = np.empty((n_steps, envs.num_envs, *encode.shape), np.float32 if moments is not None else encode.dtype)
    raw: list[NDArray[Any]] = []
    rewards = np.empty((n_steps, envs.num_envs), np.float32)
    over = np.empty((n_steps, envs.num_envs), np.bool_)
    truncated: list[tuple[int, int, NDArray[Any]]] = []
    for t in range(n_steps):
        if moments is not None:
            moments.add(rows)
        seen[t] = normal(rows)
        raw.append(actions_of.sample(model(seen[t]), rng))
        observations, reward, terminated, cut, infos = envs.step(actions_of.to_env(raw[-1]))
        rewards[t] = reward
        np.logical_or(terminated, cut, out=over[t])
        algorithm.episodes.add(reward, over[t])
        if over[t].any():
            for i in np.flatnonzero(cut & ~terminated):
                last = encode(stacked(infos["final_obs"][i]))
                truncated.append((t, int(i), normal(last)[0]))
        rows = encode(observations)
    algorithm.observations = rows.copy()  # those of the environments lie in shared memory
    algorithm.timesteps += n_steps * envs.num_envs
    return Rollout(seen, np.stack(raw), rewards, over, truncated, normal(rows).copy())
