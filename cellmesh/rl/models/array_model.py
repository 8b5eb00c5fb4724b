"""A network of numpy whose weights are one vector: what evolution strategies change at random. Pure: numpy alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray


def n_weights(sizes: Sequence[int]) -> int:
    """How many weights a network has with layers of these widths, the inputs first."""
    return sum((a + 1) * b for a, b in pairwise(sizes))


class ArrayModel:
    """`model(rows)`: layers with tanh between them.

    Parameters
    ----------
    weights : ndarray of shape (n_weights(sizes),), float32
        Layer by layer: the matrix of shape (inputs, outputs), then the bias.
    sizes : sequence of int
        Widths, the inputs first.
    """

    weights: NDArray[np.float32]
    sizes: tuple[int, ...]

    def __init__(self, weights: NDArray[np.float32], sizes: Sequence[int]) -> None:
        self.sizes = tuple(sizes)
        self.weights = np.asarray(weights, np.float32)
        if self.weights.shape != (n_weights(sizes),):
            raise ValueError(
                f"weights of shape {self.weights.shape}, and layers of {self.sizes} have {n_weights(sizes)}"
            )
        self._layers: list[tuple[NDArray[np.float32], NDArray[np.float32]]] = []
        start = 0
        for a, b in pairwise(self.sizes):
            matrix, bias = self.weights[start : start + a * b], self.weights[start + a * b : start + a * b + b]
            self._layers.append((matrix.reshape(a, b), bias))
            start += (a + 1) * b

    def __call__(self, rows: NDArray[Any]) -> NDArray[Any]:
        *inner, (matrix, bias) = self._layers
        for one, shift in inner:
            rows = np.tanh(rows @ one + shift)
        return rows @ matrix + bias

    def __reduce__(self) -> tuple[Any, ...]:
        return ArrayModel, (self.weights, self.sizes)
