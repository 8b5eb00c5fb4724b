"""Whether algorithms learn CartPole, over five seeds that were fixed before: nightly. All are reported; four of five
must reach the goal within the steps.

python tests/rl/test_learning_curves.py        # prints the table
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from time import perf_counter
from typing import Any

import pytest

import cellmesh
from cellmesh import rl

SEEDS = (11, 22, 33, 44, 55)
CURVES: dict[str, tuple[dict[str, Any], float, int]] = {  # options, goal, most steps
    "PPO": ({"num_envs": 8, "num_workers": 2}, 475, 200_000),
    "DQN": ({"num_envs": 8, "prioritized": True, "n_step": 3, "dueling": True}, 195, 100_000),
    "A3C": ({"num_workers": 2}, 475, 600_000),
    "ApexDQN": ({"num_workers": 2}, 195, 150_000),
    "ES": ({"num_workers": 2}, 475, 3_000_000),
}


def curve(name: str, seed: int) -> tuple[float, int, float]:
    """The last mean return, after how many steps, and in how many seconds."""
    options, goal, most = CURVES[name]
    began = perf_counter()
    algorithm = getattr(rl, name)("CartPole-v1", seed=seed, **options)
    try:
        *_, last = algorithm.train(until={"episode_return_mean": goal, "timesteps_total": most})
    finally:
        algorithm.close()
    return last["episode_return_mean"], int(last["timesteps_total"]), perf_counter() - began


def table(name: str) -> Iterator[tuple[int, float, int, float]]:
    for seed in SEEDS:
        found = seed, *curve(name, seed)
        print("{}: seed {}, mean return {:.0f} after {:,} steps in {:.1f} s".format(name, *found), flush=True)
        yield found


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", CURVES)
def test_four_of_five_seeds_learn(session: None, name: str) -> None:
    if name != "ES":
        pytest.importorskip("torch", reason="no torch: pip install 'cellmesh[rl]'")
    found = list(table(name))
    assert sum(value >= CURVES[name][1] for _, value, *_ in found) >= 4, found


if __name__ == "__main__":
    cellmesh.init(num_cpus=2)
    for one in sys.argv[1:] or CURVES:
        list(table(one))
        print(f"load {os.getloadavg()[0]:.1f}")
    cellmesh.shutdown()
