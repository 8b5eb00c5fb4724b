"""Workers are killed at random while a program runs, and its results are exact."""

from __future__ import annotations

import os
import random
import signal
from types import ModuleType

import numpy as np
import pytest

from cellmesh.session.current import current

pytestmark = pytest.mark.timeout(120)


class Chaos:
    """Kills workers, one each time it is asked: any of those there are, by a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.n = 0

    def strike(self) -> None:
        pids = sorted(row["pid"] for row in current().client.clients() if row["role"] == "worker" and row["pid"] > 0)
        if not pids:
            return
        try:
            os.kill(self.random.choice(pids), signal.SIGKILL)
            self.n += 1
        except ProcessLookupError:  # it had been hit, and is not reaped yet
            return


@pytest.mark.parametrize("seed", range(3))
def test_tasks_in_tasks_and_large_values(cm: ModuleType, seed: int) -> None:
    """A tree sum whose leaves are arrays, with a chain on top of each."""
    chaos = Chaos(seed)

    @cm.remote(max_retries=-1)
    def leaf(i: int) -> np.ndarray:
        return np.full(1 << 16, i)

    @cm.remote(max_retries=-1)
    def add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a + b

    @cm.remote(max_retries=-1)
    def total(low: int, high: int) -> np.ndarray:
        if high - low == 1:
            return cm.get(leaf.remote(low))
        middle = (low + high) // 2
        return cm.get(add.remote(total.remote(low, middle), total.remote(middle, high)))

    refs = [total.remote(8 * i, 8 * i + 8) for i in range(8)]
    for i, ref in enumerate(refs):
        chaos.strike()
        assert np.array_equal(cm.get(ref), np.full(1 << 16, sum(range(8 * i, 8 * i + 8))))
    assert chaos.n >= 4


@pytest.mark.parametrize("seed", range(3))
def test_actors_that_restart_and_streams(cm: ModuleType, seed: int) -> None:
    """Calls are repeated, so they say what they are; a stream neither loses nor repeats an item."""
    chaos = Chaos(seed)

    @cm.remote(max_restarts=-1, max_task_retries=-1)
    class Squares:
        def of(self, i: int) -> int:
            return i * i

    @cm.remote(max_retries=-1)
    def count(n: int):
        yield from range(n)

    actors, stream = [Squares.remote() for _ in range(2)], count.remote(60)
    found = []
    for i in range(60):
        if i % 10 == 5:
            chaos.strike()
        found.append((cm.get(actors[i % 2].of.remote(i)), cm.get(next(stream))))
    assert found == [(i * i, i) for i in range(60)]
    assert chaos.n >= 3
