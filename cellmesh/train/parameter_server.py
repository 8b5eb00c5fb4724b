"""A parameter server in shared memory: arrays to which many tasks add, and which any of them reads.

    ps = train.ParameterServer({"w": w, "b": b})

    @cm.remote
    def worker(batches):
        for batch in batches:
            gradients = compute(ps.pull(), batch)
            ps.push({name: -0.1 * g for name, g in gradients.items()})

Every array has two copies, and a count of the pushes that it has had, which says which copy holds: a push writes the
sum into the other copy, under a lock, and then counts. So a process that is killed within a push has changed an array
as a whole or not at all, and a pull copies without the lock, and again if somebody has counted meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..exceptions import MemberDiedError
from ..shared_memory import shared_array
from ..util.shared_sync import Barrier, Condition, Counter
from .exceptions import TrainError

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_SHARDS = 64
N_GLANCES = 3  # without the lock; then a pull takes it, as somebody pushes all the time


class _Versioned:
    """An array that changes as a whole."""

    def __init__(self, value: NDArray[Any], lock: Condition) -> None:
        self._lock, self._count = lock, Counter()
        self._copies = shared_array((2, *value.shape), value.dtype)
        self._copies[0] = value

    @property
    def form(self) -> NDArray[Any]:
        """An array of its shape and dtype."""
        return self._copies[0, ...]

    @property
    def count(self) -> int:
        """How often it has changed."""
        return self._count.get()

    def add(self, delta: Any) -> None:
        with _Locked(self._lock):
            n = self._count.get()
            np.add(self._copies[n % 2, ...], delta, out=self._copies[(n + 1) % 2, ...], casting="same_kind")
            self._count.set(n + 1)

    def clear(self) -> None:
        """Make it zeros."""
        with _Locked(self._lock):
            n = self._count.get()
            self._copies[(n + 1) % 2] = 0
            self._count.set(n + 1)

    def read(self) -> NDArray[Any]:
        """A copy of it."""
        for _ in range(N_GLANCES):
            n = self._count.get()
            copy = self._copies[n % 2, ...].copy()
            if self._count.get() == n:
                return copy
        with _Locked(self._lock):
            return self._copies[self._count.get() % 2, ...].copy()


class _Locked:
    """The lock for a block. That its owner has died breaks it; what it protects is whole all the same."""

    def __init__(self, lock: Condition) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        while True:
            try:
                self._lock.acquire()
                return
            except MemberDiedError:
                self._lock.reset()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


class ParameterServer:
    """Arrays to which tasks and actors of this machine add.

    It is given to tasks, or captured by them, as a shared array is, and lives by its references.

    Parameters
    ----------
    parameters : mapping of str to array of numbers
        The values at the beginning; copied.
    shards : int, 1 to 64, optional
        How many locks there are: arrays of different shards are added to at the same time. One for each array, unless
        given, and 64 at most; arrays are spread by their size.
    synchronous : int, optional
        So many workers push in rounds: each of them once a round, which ends when all have, and then their sum is added
        at once and all go on. 0: pushes are added as they come.

    Raises
    ------
    TypeError, ValueError
        There is no array; one is no array of numbers; a number is out of range.
    ObjectStoreFullError
        The object store has no room for it.
    SharedArrayError
        Raised later, by what would send it to another machine.
    """

    def __init__(self, parameters: Mapping[str, Any], *, shards: int | None = None, synchronous: int = 0) -> None:
        arrays = {name: np.asarray(value) for name, value in parameters.items()}
        if not arrays:
            raise ValueError("ParameterServer({}): there must be one array or more, by name")
        for name, array in arrays.items():
            if array.dtype.kind not in "iufc":
                raise TypeError(f"ParameterServer: {name!r} is of {array.dtype}, and numbers are added to")
        n_shards = min(len(arrays), MAX_SHARDS) if shards is None else shards
        if not 1 <= n_shards <= MAX_SHARDS:
            raise ValueError(f"shards={shards}: there are 1 to {MAX_SHARDS}")
        if synchronous < 0:
            raise ValueError(f"synchronous={synchronous}: a number of workers, or 0")
        locks = [Condition() for _ in range(n_shards)]
        at = _spread({name: array.nbytes for name, array in arrays.items()}, n_shards)
        self._values = {name: _Versioned(array, locks[at[name]]) for name, array in arrays.items()}
        self._n_workers = synchronous
        if synchronous:
            self._round = {name: _Versioned(np.zeros_like(array), locks[at[name]]) for name, array in arrays.items()}
            self._barrier, self._arrived = Barrier(synchronous), Counter()

    @property
    def names(self) -> list[str]:
        """The arrays' names."""
        return list(self._values)

    def pull(self, names: Sequence[str] | None = None) -> dict[str, NDArray[Any]]:
        """Copies of the arrays, or of some: each as it was at one moment, between two pushes.

        Raises
        ------
        KeyError
            There is no array of that name.
        """
        return {name: self._of(name, "pull").read() for name in (self._values if names is None else names)}

    def push(self, deltas: Mapping[str, Any]) -> None:
        """Add to arrays, each as a whole. With `synchronous`, wait until all workers have pushed in this round.

        Parameters
        ----------
        deltas : mapping of str to array
            Of the arrays' shapes, and of dtypes that numpy adds to theirs ("same_kind"). Not all need to be there.

        Raises
        ------
        KeyError, ValueError, TypeError
            There is no array of that name, or of that shape, or none that such numbers are added to. Nothing is added.
        MemberDiedError
            Of a synchronous server: a worker has died, so the round cannot end; see `reset`.
        """
        for name, delta in deltas.items():
            self._check(name, np.asarray(delta))
        into = self._round if self._n_workers else self._values
        for name, delta in deltas.items():
            into[name].add(np.asarray(delta))
        if self._n_workers:
            self._end_round()

    def pushes(self) -> dict[str, int]:
        """How many pushes each array has had; rounds, of a synchronous server."""
        return {name: value.count for name, value in self._values.items()}

    def reset(self) -> None:
        """Begin a synchronous server's round anew, after a worker has died: what was pushed in it is dropped.

        Raises
        ------
        TrainError
            The server has no rounds.
        """
        if not self._n_workers:
            raise TrainError("reset() is for a server with synchronous=...: this one has no rounds, and needs none")
        for name in self._values:
            self._round[name].clear()
        self._arrived.set(0)
        self._barrier.reset()

    def _end_round(self) -> None:
        is_first = self._arrived.add() % self._n_workers == 1 % self._n_workers
        self._barrier.wait()  # all have pushed
        if is_first:
            for name, value in self._values.items():
                value.add(self._round[name].read())
                self._round[name].clear()
        self._barrier.wait()

    def _of(self, name: str, call: str) -> _Versioned:
        if name not in self._values:
            raise KeyError(f"{call}: there is no array {name!r}, but {', '.join(map(repr, self._values))}")
        return self._values[name]

    def _check(self, name: str, delta: NDArray[Any]) -> None:
        form = self._of(name, "push").form
        if delta.shape != form.shape:
            raise ValueError(f"push: {name!r} has shape {form.shape}, and what is added {delta.shape}")
        if not np.can_cast(delta.dtype, form.dtype, "same_kind"):
            raise TypeError(f"push: {name!r} is of {form.dtype}, to which {delta.dtype} cannot be added")

    def __repr__(self) -> str:
        arrays = ", ".join(f"{name}: {v.form.dtype} {v.form.shape}" for name, v in self._values.items())
        return f"<ParameterServer, {arrays}{f', {self._n_workers} in rounds' if self._n_workers else ''}>"


def _spread(sizes: Mapping[str, int], n: int) -> dict[str, int]:
    """Names over `n` shards of nearly the same size: the largest first, each where there is least."""
    loads = [0] * n
    at: dict[str, int] = {}
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        at[name] = loads.index(min(loads))
        loads[at[name]] += max(1, sizes[name])
    return at
