"""What is known of episodes: returns and lengths, and running means of observations. Pure: numpy alone."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

WINDOW = 100  # episodes of which means are told
Ended = tuple[list[tuple[float, int]], int]  # return and steps of the last that have ended; how many have


class EpisodeStatistics:
    """Returns and lengths of the episodes of some environments, told from their rewards and flags."""

    returns: NDArray[np.float64]
    lengths: NDArray[np.int64]
    ended: deque[tuple[float, int]]
    n_ended: int

    def __init__(self, n_envs: int) -> None:
        self.returns, self.lengths = np.zeros(n_envs), np.zeros(n_envs, np.int64)  # of episodes that run
        self.ended = deque(maxlen=WINDOW)
        self.n_ended = 0

    def add(self, rewards: NDArray[np.float64], over: NDArray[np.bool_]) -> None:
        """A step of every environment."""
        self.returns += rewards
        self.lengths += 1
        if over.any():
            for i in np.flatnonzero(over):
                self.add_episode(float(self.returns[i]), int(self.lengths[i]))
            self.forget(over)

    def add_episode(self, value: float, length: int) -> None:
        """An episode that has ended: its return, and its steps."""
        self.ended.append((value, length))
        self.n_ended += 1

    def taken(self) -> Ended:
        """The episodes that have ended, which are forgotten here."""
        ended = [*self.ended], self.n_ended
        self.ended.clear()
        self.n_ended = 0
        return ended

    def take(self, ended: Ended) -> None:
        """Episodes that were played elsewhere."""
        self.ended.extend(ended[0])
        self.n_ended += ended[1]

    def forget(self, which: NDArray[np.bool_]) -> None:
        """These environments begin a new episode."""
        self.returns[which], self.lengths[which] = 0.0, 0

    def metrics(self) -> dict[str, float]:
        """Of the last `WINDOW` episodes; NaN before the first has ended."""
        returns, lengths = zip(*self.ended, strict=True) if self.ended else ((np.nan,), (np.nan,))
        return {
            "episode_return_mean": float(np.mean(returns)),
            "episode_return_min": float(np.min(returns)),
            "episode_return_max": float(np.max(returns)),
            "episode_length_mean": float(np.mean(lengths)),
            "episodes_total": self.n_ended,
        }


class RunningMoments:
    """Mean and variance of all rows so far, batch by batch (Chan, Golub, LeVeque, *Updating formulae and a pairwise
    algorithm for computing sample variances*, 1979); what normalises observations.

    Parameters
    ----------
    shape : tuple of int
        Of a row.
    """

    mean: NDArray[np.float64]
    variance: NDArray[np.float64]
    n: int

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.mean, self.variance, self.n = np.zeros(shape), np.ones(shape), 0

    def add(self, rows: NDArray[Any]) -> None:
        """Rows that have been seen."""
        n, mean, variance = len(rows), rows.mean(axis=0, dtype=np.float64), rows.var(axis=0, dtype=np.float64)
        total, apart = self.n + n, mean - self.mean
        squares = self.variance * self.n + variance * n + apart**2 * self.n * n / total
        self.mean, self.variance, self.n = self.mean + apart * n / total, squares / total, total

    def __call__(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        """Rows with mean 0 and variance 1, none further than 10 from 0."""
        return np.clip((rows - self.mean) / np.sqrt(self.variance + 1e-8), -10.0, 10.0).astype(np.float32)
