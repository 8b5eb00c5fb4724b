"""Replay buffers: what was played, kept to be learnt from again and again, drawn evenly or by priority.

Their arrays are plain ones, or lie in memory that several processes share (`make=cellmesh.shared_array`): one process
adds and draws at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

Rows = dict[str, NDArray[Any]]
Make = Callable[..., NDArray[Any]]  # make(shape, dtype)
POSITION, N_ROWS = 0, 1


class ReplayBuffer:
    """The last rows that were added.

    Parameters
    ----------
    capacity : int, >= 1
        How many rows.
    columns : mapping of str to (shape, dtype)
        What a row has.
    make : callable
        Makes an array of zeros: `numpy.zeros`, or `cellmesh.shared_array`.
    """

    capacity: int
    columns: Rows

    def __init__(
        self, capacity: int, columns: Mapping[str, tuple[tuple[int, ...], DTypeLike]], make: Make = np.zeros
    ) -> None:
        if capacity < 1:
            raise ValueError(f"capacity={capacity}: a buffer has room for at least one row")
        self.capacity = capacity
        self.columns = {name: make((capacity, *shape), dtype) for name, (shape, dtype) in columns.items()}
        self._numbers = make(2, np.int64)  # where the next row goes, and how many there are

    def __len__(self) -> int:
        return int(self._numbers[N_ROWS])

    def add(self, rows: Mapping[str, NDArray[Any]]) -> NDArray[np.int64]:
        """Add rows, over the oldest ones where there is no room; returns their places.

        Raises
        ------
        ValueError
            More rows than there is room for; other columns.
        """
        if set(rows) != set(self.columns):
            raise ValueError(f"rows of {', '.join(rows)}: the buffer has {', '.join(self.columns)}")
        n = len(next(iter(rows.values())))
        if n > self.capacity:
            raise ValueError(f"{n} rows, and there is room for {self.capacity}")
        places = (self._numbers[POSITION] + np.arange(n)) % self.capacity
        for name, values in rows.items():
            self.columns[name][places] = values
        self._numbers[POSITION] = (self._numbers[POSITION] + n) % self.capacity
        self._numbers[N_ROWS] = min(self._numbers[N_ROWS] + n, self.capacity)
        return places

    def rows(self, places: NDArray[np.int64]) -> Rows:
        """Copies of the rows at these places."""
        return {name: column[places] for name, column in self.columns.items()}

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Rows, NDArray[np.int64], NDArray[np.float32]]:
        """Draw rows, each as likely as any other, with repetition.

        Returns
        -------
        rows, places, weights
            Weights are 1.
        """
        places = rng.integers(self._filled(), size=n)
        return self.rows(places), places, np.ones(n, np.float32)

    def set_priorities(self, places: NDArray[np.int64], priorities: NDArray[Any]) -> None:
        """What is to be learnt from these rows; of no effect where all are as likely."""

    def _filled(self) -> int:
        if not len(self):
            raise ValueError("the buffer is empty")
        return len(self)

    def state(self) -> dict[str, Any]:
        """What there is, picklable."""
        return {"numbers": self._numbers.copy(), "rows": self.rows(np.arange(len(self)))}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        self._numbers[:] = state["numbers"]
        for name, column in self.columns.items():
            column[: len(self)] = state["rows"][name]


class SumTree:
    """Numbers of which one is found by a share of their sum: a binary tree in an array, whose inner nodes are the sums
    of their two children. Setting and finding cost the logarithm of the size.

    Parameters
    ----------
    n : int
        How many numbers; they are 0 at first.
    """

    def __init__(self, n: int, make: Make = np.zeros) -> None:
        self._first = 1 << max(0, n - 1).bit_length()  # where the leaves begin
        self._nodes = make(2 * self._first, np.float64)

    @property
    def total(self) -> float:
        """The sum of all."""
        return float(self._nodes[1])

    def __getitem__(self, places: NDArray[np.int64]) -> NDArray[np.float64]:
        return self._nodes[self._first + places]

    def set(self, places: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """Set numbers, each >= 0; of a place that is named twice the last one counts."""
        nodes = self._first + places
        self._nodes[nodes] = values
        while nodes[0] > 1:
            nodes = np.unique(nodes >> 1)
            self._nodes[nodes] = self._nodes[2 * nodes] + self._nodes[2 * nodes + 1]

    def find(self, shares: NDArray[np.float64]) -> NDArray[np.int64]:
        """For each share, from 0 up to the total, the place where the running sum passes it."""
        nodes, left_over = np.ones(len(shares), np.int64), shares.copy()
        while nodes[0] < self._first:
            left = self._nodes[2 * nodes]
            # Never into an empty half, whatever rounding has left over.
            right = (left_over >= left) & (self._nodes[2 * nodes + 1] > 0)
            left_over -= np.where(right, left, 0.0)
            nodes = 2 * nodes + right
        return nodes - self._first


class PrioritizedReplay(ReplayBuffer):
    """Rows are drawn the oftener the more there was to learn from them (Schaul, Quan, Antonoglou, Silver, *Prioritized
    Experience Replay*, 2016): row i with probability P(i) = p_i^α / Σ p^α, and a weight (N P(i))^-β that makes up for
    it, divided by the largest of the batch. A new row has the highest priority there has been.

    Parameters
    ----------
    alpha, beta : float, >= 0
        α is 0: evenly; β is 0: nothing is made up for.
    """

    alpha: float
    beta: float

    def __init__(
        self,
        capacity: int,
        columns: Mapping[str, tuple[tuple[int, ...], DTypeLike]],
        alpha: float = 0.6,
        beta: float = 0.4,
        make: Make = np.zeros,
    ) -> None:
        super().__init__(capacity, columns, make)
        self.alpha, self.beta = alpha, beta
        self._tree, self._highest = SumTree(capacity, make), make(1, np.float64)
        self._highest[0] = 1.0

    def add(self, rows: Mapping[str, NDArray[Any]]) -> NDArray[np.int64]:
        """As `ReplayBuffer.add`."""
        places = super().add(rows)
        self._tree.set(places, np.full(len(places), self._highest[0] ** self.alpha))
        return places

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Rows, NDArray[np.int64], NDArray[np.float32]]:
        """Draw rows by priority, one from each of `n` equal parts of the sum (appendix B.2.1)."""
        n_rows, total = self._filled(), self._tree.total
        places = self._tree.find((np.arange(n) + rng.random(n)) * (total / n))
        weights = (n_rows * self._tree[places] / total) ** -self.beta
        return self.rows(places), places, (weights / weights.max()).astype(np.float32)

    def set_priorities(self, places: NDArray[np.int64], priorities: NDArray[Any]) -> None:
        """What is to be learnt from these rows, each > 0: the size of the error and a little more."""
        if not (priorities > 0).all():
            raise ValueError(f"priorities={priorities}: each is above 0")
        self._tree.set(places, priorities.astype(np.float64) ** self.alpha)
        self._highest[0] = max(self._highest[0], priorities.max())

    def state(self) -> dict[str, Any]:
        """What there is, picklable."""
        return {**super().state(), "priorities": self._tree[np.arange(len(self))], "highest": float(self._highest[0])}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        super().set_state(state)
        self._highest[0] = state["highest"]
        if len(self):
            self._tree.set(np.arange(len(self)), state["priorities"])


class NSteps:
    """Makes transitions over n steps of those over one: R = Σ_{k<n} γ^k r_k, the observation n steps later, and by what
    its value counts (γ^n, or 0 where the episode terminated before). At the end of an episode all are shorter.

    Parameters
    ----------
    n : int, >= 1
    n_envs : int
    gamma : float
    """

    n: int
    gamma: float

    def __init__(self, n: int, n_envs: int, gamma: float) -> None:
        self.n, self.gamma = n, gamma
        self._open: list[deque[tuple[Any, Any, float]]] = [deque() for _ in range(n_envs)]

    def add(
        self,
        observations: NDArray[Any],
        actions: NDArray[Any],
        rewards: NDArray[Any],
        following: NDArray[Any],
        terminated: NDArray[np.bool_],
        over: NDArray[np.bool_],
    ) -> Rows | None:
        """A step of every environment; the transitions that are complete with it.

        Parameters
        ----------
        following : ndarray
            The observation after each step, of an episode that is over its last.
        terminated, over : ndarray of bool
            Whether it terminated; whether it terminated or was truncated.
        """
        if self.n == 1:
            discounts = np.where(terminated, 0.0, self.gamma)
            return _columns(observations, actions, rewards, following, discounts)
        found: list[tuple[Any, Any, float, Any, float]] = []
        for i, steps in enumerate(self._open):
            steps.append((observations[i].copy(), actions[i], float(rewards[i])))
            while len(steps) == self.n or (over[i] and steps):
                value = sum(self.gamma**k * reward for k, (_, _, reward) in enumerate(steps))
                goes_on = 0.0 if terminated[i] else self.gamma ** len(steps)
                seen, action, _ = steps.popleft()
                found.append((seen, action, value, following[i], goes_on))
        return _columns(*(np.array(column) for column in zip(*found, strict=True))) if found else None


def _columns(observations: Any, actions: Any, returns: Any, following: Any, discounts: Any) -> Rows:
    return {
        "observations": observations,
        "actions": actions,
        "returns": returns,
        "following": following,
        "discounts": discounts,
    }
