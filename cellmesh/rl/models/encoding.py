"""Observations of any space as rows of one array, which is what networks see. Pure: numpy alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from numpy.typing import NDArray


class Encoder:
    """Observations of a space as an array with a row each.

    An image (a `Box` of uint8 with three axes) stays as it is. Everything else is one vector of float32: numbers
    flattened, a `Discrete` or `MultiDiscrete` as one-hot, a `Dict` or `Tuple` as its parts behind each other.

    Parameters
    ----------
    space : gymnasium.Space

    Attributes
    ----------
    shape : tuple of int
        Of a row.
    dtype : numpy.dtype
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    is_image: bool
    space: Space[Any]

    def __init__(self, space: Space[Any]) -> None:
        self.space = space
        self.is_image = isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) == 3
        if self.is_image:
            assert space.shape is not None
            self.shape, self.dtype = space.shape, np.dtype(np.uint8)
            return
        self.dtype = np.dtype(np.float32)
        self._parts = _parts(space, lambda value: value)
        self.shape = (sum(size for size, _ in self._parts),)
        # A flat Box of float32, as most are, is a row already.
        self._is_row = isinstance(space, spaces.Box) and space.shape == self.shape and space.dtype == np.float32

    def __call__(self, observations: Any) -> NDArray[Any]:
        """Rows of a batch of observations; the batch itself if they are rows already."""
        if self.is_image or self._is_row:
            return np.asarray(observations, self.dtype)
        return np.concatenate([encode(observations) for _, encode in self._parts], axis=1, dtype=np.float32)

    def batch_of_one(self, observation: Any) -> tuple[Any, bool]:
        """A batch, and whether a single observation was given."""
        return (stacked(observation), True) if _is_one(self.space, observation) else (observation, False)


Part = tuple[int, Callable[[Any], NDArray[np.float32]]]  # how many numbers, and what makes them of a batch


def _parts(space: Space[Any], of: Callable[[Any], Any]) -> list[Part]:
    if isinstance(space, spaces.Dict):
        named = space.spaces.items()
        return [part for name, one in named for part in _parts(one, lambda batch, name=name: of(batch)[name])]
    if isinstance(space, spaces.Tuple):
        return [part for k, one in enumerate(space.spaces) for part in _parts(one, lambda batch, k=k: of(batch)[k])]
    if isinstance(space, spaces.Discrete):
        return [(int(space.n), lambda batch: _one_hot(of(batch), int(space.start), int(space.n)))]
    if isinstance(space, spaces.MultiDiscrete):
        low, n = space.start.ravel(), space.nvec.ravel()
        return [
            (int(n[k]), lambda batch, k=k: _one_hot(_flat(of(batch))[:, k], int(low[k]), int(n[k])))
            for k in range(len(n))
        ]
    if isinstance(space, (spaces.Box, spaces.MultiBinary)):
        return [(int(np.prod(space.shape)), lambda batch: _flat(of(batch)).astype(np.float32))]
    raise TypeError(f"{space}: networks need Box, Discrete, MultiDiscrete or MultiBinary, or Dict and Tuple of them")


def _flat(batch: Any) -> NDArray[Any]:
    array = np.asarray(batch)
    return array.reshape(len(array), -1)


def _one_hot(values: Any, start: int, n: int) -> NDArray[np.float32]:
    return np.eye(n, dtype=np.float32)[np.asarray(values, np.int64) - start]


def _is_one(space: Space[Any], value: Any) -> bool:
    """Whether a value has the form of one observation, and not of several."""
    if isinstance(space, spaces.Dict):
        return isinstance(value, dict) and all(name in value and _is_one(space[name], value[name]) for name in space)
    if isinstance(space, spaces.Tuple):
        return isinstance(value, tuple) and all(map(_is_one, space.spaces, value))
    return np.shape(value) == space.shape


def stacked(value: Any) -> Any:
    """A batch of one observation."""
    if isinstance(value, dict):
        return {name: stacked(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return tuple(stacked(part) for part in value)
    return np.asarray(value)[None]
