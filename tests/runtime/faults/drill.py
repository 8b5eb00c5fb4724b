"""A program that misbehaves by a seed, and says whether all it got was right: `python drill.py SEED SECONDS
RESULT_FILE`.

Its tasks fork and do not end their children, print floods of anything, keep what they return and write to it, and do
all that in actors, threads and generators. Every value is known beforehand.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import cellmesh as cm

WAITS_S = 100
N = 1 << 17  # elements of a large array
kept: list[Any] = []


def fork(how: str) -> None:
    """Returns in the parent, and, as nobody should, in the child."""
    pid = os.fork()
    if pid == 0:
        if how == "raises":
            raise RuntimeError
        if how == "exits":
            sys.exit(how)
        return
    if how != "abandons":
        os.waitpid(pid, 0)


def flood(how: str) -> None:
    fd, data = {
        "zeros": (1, bytes(1 << 16)),
        "lines": (2, b"line\n" * 10_000),
        "one line": (1, b"x" * (1 << 16)),
        "no text": (2, bytes(range(128, 256)) * 300),
        "escapes": (1, b"\x1b[2J\x1b]0;title\x07\r" * 3000),
    }[how]
    for _ in range(30):
        os.write(fd, data)
    print(how * 20_000)


FORKS, FLOODS = ("returns", "raises", "exits", "abandons"), ("zeros", "lines", "one line", "no text", "escapes")


def misbehave(seed: int) -> None:
    rng = random.Random(seed)
    what = rng.random()
    if what < 0.3:
        fork(rng.choice(FORKS))
    elif what < 0.35:
        flood(rng.choice(FLOODS))
    elif what < 0.45:
        thread = threading.Thread(target=fork, args=("abandons",))
        thread.start()
        thread.join()
    elif what < 0.6 and kept:
        for array in kept:
            array[:] = -1  # what it has returned before


@cm.remote
def number(i: int, seed: int) -> int:
    misbehave(seed)
    return i


@cm.remote
def array(i: int, seed: int) -> np.ndarray:
    misbehave(seed)
    return np.full(N, i)


@cm.remote(num_returns=2)
def two(i: int, seed: int) -> list[np.ndarray]:
    misbehave(seed)
    pair = [np.full(N, i), np.full(N, i + 1)]
    kept[:] = pair
    return pair


@cm.remote
def total(values: np.ndarray, seed: int) -> int:
    misbehave(seed)
    return int(values.sum())


@cm.remote
def nested(i: int, seed: int) -> int:
    ref = number.remote(i, seed + 1)
    misbehave(seed)
    return cm.get(ref) + 1


@cm.remote(num_returns="streaming")
def items(n: int, seed: int) -> Iterator[int]:
    for i in range(n):
        misbehave(seed + i)
        yield i


@cm.remote
class Counter:
    def __init__(self, seed: int) -> None:
        misbehave(seed)
        self.n = 0
        self.state: list[np.ndarray] = []

    def add(self, seed: int) -> int:
        misbehave(seed)
        self.n += 1
        return self.n

    @cm.method(num_returns=2)
    def arrays(self, i: int) -> list[np.ndarray]:
        for old in self.state:
            old[:] = -1
        self.state = [np.full(N, i), np.full(N, i + 1)]
        return self.state


def is_all(values: np.ndarray, i: int) -> bool:
    return values.shape == (N,) and bool((values == i).all())


def one_round(rng: random.Random, counter: Any, n_added: int) -> int:
    """Asserts; how often the counter has been asked."""
    i, seed = rng.randrange(1 << 20), rng.randrange(1 << 40)
    first, second = two.remote(i, seed)
    numbers = [number.remote(i + k, seed + k) for k in range(8)]
    large = array.remote(i, seed + 9)
    sums = [total.remote(large, seed + 10 + k) for k in range(3)]
    deep = nested.remote(i, seed + 20)
    calls = [counter.add.remote(seed + 30 + k) for k in range(4)]
    up, down = counter.arrays.remote(i)
    stream = items.remote(4, seed + 40)
    assert cm.get(numbers, timeout=WAITS_S) == [i + k for k in range(8)]
    assert cm.get(sums, timeout=WAITS_S) == [i * N] * 3
    assert cm.get(deep, timeout=WAITS_S) == i + 1
    assert [cm.get(ref, timeout=WAITS_S) for ref in stream] == [0, 1, 2, 3]
    assert cm.get(calls, timeout=WAITS_S) == [n_added + k for k in range(1, 5)]
    for ref, value in ((first, i), (second, i + 1), (large, i), (up, i), (down, i + 1)):
        assert is_all(cm.get(ref, timeout=WAITS_S), value)
    return n_added + 4


def main(seed: int, seconds: float, result: str) -> None:
    rng = random.Random(seed)
    end, n, n_added = time.monotonic() + seconds, 0, 0
    with cm.init(num_cpus=2, object_store_memory=256 << 20):
        counter = Counter.remote(seed)
        while time.monotonic() < end:
            n_added = one_round(rng, counter, n_added)
            n += 1
        wrong = cm.session.current.current().client.check()
    with open(result, "w") as file:
        file.write(f"right {n}" if not wrong else str(wrong))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3])
