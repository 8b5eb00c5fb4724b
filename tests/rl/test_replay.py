"""Replay buffers, the sum tree and transitions over n steps, each against a naive loop."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cellmesh as cm
from cellmesh import rl
from cellmesh.rl.replay import NSteps, SumTree

COLUMNS: dict[str, Any] = {"x": ((2,), np.float32), "a": ((), np.int64)}
quick = settings(max_examples=60, deadline=None)


def rows(first: int, n: int) -> dict[str, np.ndarray]:
    numbers = np.arange(first, first + n)
    return {"x": np.stack([numbers, -numbers], axis=1).astype(np.float32), "a": numbers}


@quick
@given(st.integers(1, 9), st.lists(st.integers(1, 9), max_size=12), st.booleans())
def test_a_buffer_has_the_last_rows(capacity: int, sizes: list[int], prioritized: bool) -> None:
    buffer = (rl.PrioritizedReplay if prioritized else rl.ReplayBuffer)(capacity, COLUMNS)
    kept: deque[int] = deque(maxlen=capacity)
    first = 0
    for n in sizes:
        n = min(n, capacity)
        places = buffer.add(rows(first, n))
        assert buffer.columns["a"][places].tolist() == list(range(first, first + n))
        kept.extend(range(first, first + n))
        first += n
        assert sorted(buffer.columns["a"][: len(buffer)]) == sorted(kept) and len(buffer) == len(kept)
        drawn, places, weights = buffer.sample(4, np.random.default_rng(first))
        assert set(drawn["a"]) <= set(kept) and np.array_equal(drawn["x"][:, 1], -drawn["a"])
        assert np.array_equal(drawn["a"], buffer.columns["a"][places]) and weights.tolist() == [1, 1, 1, 1]


@quick
@given(
    n=st.integers(1, 17),
    changes=st.lists(st.lists(st.tuples(st.integers(0, 16), st.floats(0, 100)), min_size=1, max_size=6), min_size=1),
    share=st.floats(0, 1, exclude_max=True),
)
def test_a_tree_finds_what_a_running_sum_finds(n: int, changes: list[list[tuple[int, float]]], share: float) -> None:
    tree, plain = SumTree(n), np.zeros(n)
    for change in changes:
        for place, value in change:
            plain[place % n] = value
        named = {place % n for place, _ in change}
        tree.set(np.array(sorted(named)), plain[sorted(named)])
        assert tree.total == pytest.approx(plain.sum()) and tree[np.arange(n)].tolist() == plain.tolist()
    if plain.sum() > 0:
        at = share * tree.total
        (found,) = tree.find(np.array([at]))
        assert plain[found] > 0
        assert plain[:found].sum() <= at * (1 + 1e-9) + 1e-9 and at <= plain[: found + 1].sum() * (1 + 1e-9) + 1e-9


def test_rows_are_drawn_by_their_priorities_and_weighed_against_them() -> None:
    buffer = rl.PrioritizedReplay(8, COLUMNS, alpha=0.5, beta=0.7)
    buffer.add(rows(0, 3))
    priorities = np.array([1.0, 4.0, 16.0])
    buffer.set_priorities(np.arange(3), priorities)
    wanted = priorities**0.5 / (priorities**0.5).sum()
    _, places, weights = buffer.sample(7000, np.random.default_rng(0))
    assert np.bincount(places) / 7000 == pytest.approx(wanted, abs=1e-3)  # a draw from each of equal parts
    exact = (3 * wanted) ** -0.7
    assert weights == pytest.approx((exact / exact.max())[places], rel=1e-6)
    (place,) = buffer.add(rows(3, 1))
    assert buffer._tree[np.array([place])] == pytest.approx(16**0.5)  # as high as there has been
    with pytest.raises(ValueError, match="each is above 0"):
        buffer.set_priorities(np.arange(2), np.array([1.0, 0.0]))


@quick
@given(
    n=st.integers(1, 4),
    seed=st.integers(0, 2**32 - 1),
    n_steps=st.integers(1, 15),
    gamma=st.sampled_from([0.0, 0.5, 0.9, 1.0]),
)
def test_transitions_over_n_steps_are_those_of_a_naive_loop(n: int, seed: int, n_steps: int, gamma: float) -> None:
    rng, n_envs = np.random.default_rng(seed), 2
    rewards = rng.normal(size=(n_steps, n_envs))
    terminated = rng.random((n_steps, n_envs)) < 0.2
    over = terminated | (rng.random((n_steps, n_envs)) < 0.2)
    seen = np.arange(n_steps * n_envs, dtype=np.float32).reshape(n_steps, n_envs, 1)  # names step and environment
    following, actions = seen + 0.5, np.arange(n_steps * n_envs).reshape(n_steps, n_envs)
    made = NSteps(n, n_envs, gamma)
    found = {}
    for t in range(n_steps):
        told = made.add(seen[t], actions[t], rewards[t], following[t], terminated[t], over[t])
        for k in range(len(told["returns"]) if told is not None else 0):
            assert told is not None
            found[int(told["actions"][k])] = tuple(
                float(np.ravel(told[name][k])[0]) for name in ("observations", "returns", "following", "discounts")
            )
    wanted = {}
    for i in range(n_envs):
        for t in range(n_steps):
            value, k = 0.0, t
            while True:
                value += gamma ** (k - t) * rewards[k, i]
                if over[k, i] or k - t == n - 1 or k == n_steps - 1:
                    break
                k += 1
            if over[k, i] or k - t == n - 1:  # else it is not complete yet
                goes_on = 0.0 if terminated[k, i] else gamma ** (k - t + 1)
                wanted[int(actions[t, i])] = (float(seen[t, i, 0]), value, float(following[k, i, 0]), goes_on)
    assert found.keys() == wanted.keys()
    for key, row in wanted.items():
        assert found[key] == pytest.approx(row, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("kind", [rl.ReplayBuffer, rl.PrioritizedReplay])
def test_a_state_is_all_there_is(kind: type[rl.ReplayBuffer]) -> None:
    one = kind(5, COLUMNS)
    one.add(rows(0, 4))
    one.set_priorities(np.arange(2), np.array([3.0, 0.5]))
    other = kind(5, COLUMNS)
    other.set_state(one.state())
    for buffer in (one, other):
        buffer.add(rows(4, 3))
    samples = [buffer.sample(50, np.random.default_rng(1)) for buffer in (one, other)]
    assert all(np.array_equal(a, b) for a, b in zip(samples[0][1:], samples[1][1:], strict=True))
    assert np.array_equal(samples[0][0]["x"], samples[1][0]["x"])


@pytest.mark.may_keep("threads", "of the session, which this module shares")
def test_a_buffer_in_shared_memory_is_filled_by_one_process_and_read_by_another(session: None) -> None:
    buffer = rl.PrioritizedReplay(10, COLUMNS, make=cm.shared_array)

    @cm.remote
    def fill(given: rl.PrioritizedReplay) -> None:
        given.add(rows(0, 6))
        given.set_priorities(np.arange(6), np.array([1e-9, 1e-9, 5.0, 1e-9, 1e-9, 1e-9]))

    cm.get(fill.remote(buffer))
    assert len(buffer) == 6 and set(buffer.sample(8, np.random.default_rng(0))[0]["a"]) == {2}


def test_bad_arguments() -> None:
    buffer = rl.ReplayBuffer(3, COLUMNS)
    with pytest.raises(ValueError, match="the buffer is empty"):
        buffer.sample(1, np.random.default_rng(0))
    with pytest.raises(ValueError, match="4 rows, and there is room for 3"):
        buffer.add(rows(0, 4))
    with pytest.raises(ValueError, match="rows of x: the buffer has x, a"):
        buffer.add({"x": np.zeros((1, 2))})
    with pytest.raises(ValueError, match="capacity=0"):
        rl.ReplayBuffer(0, COLUMNS)
