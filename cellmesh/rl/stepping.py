"""Algorithms that step several environments together: what PPO, A3C's workers and DQN have in common."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from gymnasium import Space
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from .algorithm import Algorithm
from .envs.vector import SharedVectorEnv, make_vec
from .episodes.statistics import EpisodeStatistics


class SteppingAlgorithm(Algorithm):
    """An algorithm with a vector environment, in the mode SAME_STEP: no step is a reset, and the last observation of an
    episode is in its infos.
    """

    NUM_ENVS: ClassVar[int] = 8
    envs: SharedVectorEnv
    episodes: EpisodeStatistics

    def open(self, config: dict[str, Any], seed: int) -> tuple[Space[Any], Space[Any]]:
        """Make the vector environment; `seed`: of environments that replace others."""
        self.envs = make_vec(
            config["env"],
            config.get("num_envs", self.NUM_ENVS),
            config.get("num_workers", 0),
            seed=seed,
            autoreset_mode=AutoresetMode.SAME_STEP,
            copy=False,
            **config.get("env_config") or {},
        )
        self.episodes = EpisodeStatistics(self.envs.num_envs)
        self._observations: NDArray[Any] | None = None
        return self.envs.single_observation_space, self.envs.single_action_space

    @property
    def observations(self) -> NDArray[Any]:
        """The observations of now, encoded; the first ones if nothing has been played."""
        if self._observations is None:
            self._observations = self.encode(self.envs.reset(seed=int(self.rng.integers(2**31)))[0]).copy()
            self.episodes.forget(np.ones(self.envs.num_envs, np.bool_))
        return self._observations

    @observations.setter
    def observations(self, rows: NDArray[Any]) -> None:
        self._observations = rows

    def cleanup(self) -> None:
        """Close the environments and end their workers."""
        if hasattr(self, "envs"):
            self.envs.close()

    def playing(self) -> Any:
        """The observations and the environments, each None where it cannot be told."""
        return self._observations, self.envs.states() if self._observations is not None else None

    def play_on(self, playing: Any) -> None:
        """Go on with them if there are as many environments as there were and all could be told, else with new
        episodes.
        """
        self._observations, states = playing
        if len(self.episodes.returns) != self.envs.num_envs:
            self.episodes, self._observations = EpisodeStatistics(self.envs.num_envs), None
        elif self._observations is not None and not self.envs.restore(states):
            self._observations = None
