"""From what a network says to an action: the most likely one, or one drawn. Pure: numpy alone.

A network says a row of numbers, the *parameters* of a distribution over actions: logits of a `Discrete`, one after the
other those of a `MultiDiscrete`, log-odds of a `MultiBinary`; of a `Box` means, then logarithms of standard
deviations.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from numpy.typing import NDArray


def check_actions(space: Space[Any]) -> None:
    """`TypeError` if there is no distribution over a space's values."""
    if not isinstance(space, (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Box)):
        raise TypeError(f"the action space is {space}: Discrete, MultiDiscrete, MultiBinary and Box can be learnt")


def n_parameters(space: Space[Any]) -> int:
    """How many numbers a network says of an action."""
    check_actions(space)
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return int(space.nvec.sum())
    return math.prod(space.shape or ()) * (2 if isinstance(space, spaces.Box) else 1)


class Actions:
    """Actions of a space, from parameters of shape (n, n_parameters(space)).

    They are *raw*: what log-likelihoods are of, counted from 0. `to_env` makes actions of the space of them.
    """

    n: int
    space: Space[Any]

    def __init__(self, space: Space[Any]) -> None:
        self.n = n_parameters(space)
        self.space = space
        if isinstance(space, spaces.MultiDiscrete):
            self._groups = np.split(np.arange(self.n), np.cumsum(space.nvec.ravel())[:-1])

    def mode(self, parameters: NDArray[Any]) -> NDArray[Any]:
        """The most likely raw actions."""
        if isinstance(self.space, spaces.Discrete):
            return parameters.argmax(axis=1)
        if isinstance(self.space, spaces.MultiDiscrete):
            return np.stack([parameters[:, group].argmax(axis=1) for group in self._groups], axis=1)
        if isinstance(self.space, spaces.MultiBinary):
            return (parameters > 0).astype(np.int8)
        return parameters[:, : self.n // 2]

    def sample(self, parameters: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        """Drawn raw actions; logits by the Gumbel trick: the argmax of logits with Gumbel noise is a draw from them."""
        if isinstance(self.space, (spaces.Discrete, spaces.MultiDiscrete)):
            return self.mode(parameters + rng.gumbel(size=parameters.shape))
        if isinstance(self.space, spaces.MultiBinary):
            return self.mode(parameters + rng.logistic(size=parameters.shape))
        mean, log_sd = np.split(parameters, 2, axis=1)
        return (mean + np.exp(log_sd) * rng.standard_normal(mean.shape)).astype(np.float32)

    def to_env(self, raw: NDArray[Any]) -> NDArray[Any]:
        """Actions of the space: of a `Box` cut at its bounds."""
        space = self.space
        if isinstance(space, spaces.Discrete):
            return raw + space.start
        if isinstance(space, spaces.MultiDiscrete):
            return raw.reshape(-1, *space.shape) + space.start
        shaped = raw.reshape(-1, *space.shape)  # pyright: ignore[reportOptionalIterable] (a space of numbers has a shape)
        return np.clip(shaped, space.low, space.high).astype(space.dtype) if isinstance(space, spaces.Box) else shaped
