"""Whether algorithms learn CartPole, over five seeds that were fixed before: nightly. All are reported; four of five
must reach the goal within the steps.

python tests/rl/test_learning_curves.py              # prints the table
python tests/rl/test_learning_curves.py PPO 11       # the points of one curve, as JSON
"""

from __future__ import annotations

import json
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


def curve(name: str, seed: int) -> list[tuple[int, float, float]]:
    """After how many steps, and seconds, which mean return, in each iteration."""
    options, goal, most = CURVES[name]
    began = perf_counter()
    algorithm = getattr(rl, name)("CartPole-v1", seed=seed, **options)
    try:
        return [
            (int(result["timesteps_total"]), perf_counter() - began, result["episode_return_mean"])
            for result in algorithm.train(until={"episode_return_mean": goal, "timesteps_total": most})
        ]
    finally:
        algorithm.close()


def table(name: str) -> Iterator[tuple[int, float, int, float]]:
    for seed in SEEDS:
        steps, seconds, value = curve(name, seed)[-1]
        print(f"{name}: seed {seed}, mean return {value:.0f} after {steps:,} steps in {seconds:.1f} s", flush=True)
        yield seed, value, steps, seconds


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
    if sys.argv[2:]:
        print(json.dumps(curve(sys.argv[1], int(sys.argv[2]))))
    else:
        for one in sys.argv[1:] or CURVES:
            list(table(one))
            print(f"load {os.getloadavg()[0]:.1f}")
    cellmesh.shutdown()
