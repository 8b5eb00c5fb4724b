"""What has been learnt: from an observation to an action. It needs no environment, and torch if its network does."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import Space
from numpy.typing import NDArray

from .episodes.statistics import RunningMoments
from .models.actions import Actions
from .models.encoding import Encoder, stacked
from .saving import read_policy

Model = Callable[[NDArray[Any]], NDArray[Any]]  # from encoded observations to parameters of the actions' distribution


class Policy:
    """A policy: `policy(observation)` is an action. It may be sent to tasks and actors.

    Parameters
    ----------
    model : callable
        From encoded observations, of shape (n, ...), to parameters of the distribution over actions, of shape (n, k).
    observation_space, action_space : gymnasium.Space
    moments : RunningMoments, optional
        Normalise observations by these.
    """

    model: Model
    moments: RunningMoments | None
    observation_space: Space[Any]
    action_space: Space[Any]

    def __init__(
        self,
        model: Model,
        observation_space: Space[Any],
        action_space: Space[Any],
        moments: RunningMoments | None = None,
    ) -> None:
        self.model, self.moments = model, moments
        self.observation_space, self.action_space = observation_space, action_space
        self._encode, self._actions = Encoder(observation_space), Actions(action_space)

    def __call__(self, observation: Any, *, explore: bool = False, rng: np.random.Generator | None = None) -> Any:
        """The action for an observation, or actions for a batch of them.

        Parameters
        ----------
        observation : a value of the observation space, or a batch of them
        explore : bool
            Draw the action, instead of the most likely one.
        rng : numpy.random.Generator, optional
            To draw from.

        Returns
        -------
        an action, or an array of them

        Raises
        ------
        ValueError
            The observation is not of the space, nor a batch of such.
        """
        batch, is_one = self._encode.batch_of_one(observation)
        actions = self.act_on(self.encoded(batch, several=True), explore=explore, rng=rng)
        return actions[0] if is_one else actions

    def encoded(self, observation: Any, *, several: bool = False) -> NDArray[Any]:
        """What `act_on` takes: rows, of one observation or several.

        Raises
        ------
        ValueError
            As of a call of the policy.
        """
        try:
            rows = self._encode(observation if several else stacked(observation))
        except (TypeError, ValueError, KeyError, IndexError) as error:
            raise ValueError(f"{observation!r} is no observation of {self.observation_space}, nor a batch") from error
        if rows.shape[1:] != self._encode.shape:
            raise ValueError(
                f"an observation of shape {np.shape(observation)}: one of {self.observation_space}, or a batch of such"
            )
        return rows

    def act_on(
        self, rows: NDArray[Any], *, explore: bool = False, rng: np.random.Generator | None = None
    ) -> NDArray[Any]:
        """Actions for rows that `encoded` has made."""
        said = self.model(rows if self.moments is None else self.moments(rows))
        raw = self._actions.sample(said, rng or np.random.default_rng()) if explore else self._actions.mode(said)
        return self._actions.to_env(raw)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Policy:
        """The policy in a folder that `Algorithm.save` has written. It is unpickled: load only what you trust.

        Raises
        ------
        CheckpointError
            There is none.
        """
        return read_policy(path)

    def __repr__(self) -> str:
        return f"<Policy: {self.observation_space} -> {self.action_space}>"
