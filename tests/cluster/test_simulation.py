"""A cluster in one process under every mix of faults; see `simulation`. More seeds with the nightly tests."""
from __future__ import annotations

import os

import pytest
from cluster.simulation import Cluster

N_SEEDS = int(os.environ.get("CELLMESH_SEEDS", "2000"))
CHUNK = 100


@pytest.mark.parametrize("first", range(0, N_SEEDS, CHUNK))
def test_every_task_ends_once_and_nothing_is_left(first: int) -> None:
    for seed in range(first, min(first + CHUNK, N_SEEDS)):
        Cluster(seed).run()


def test_a_seed_gives_the_same_story_every_time() -> None:
    one, other = Cluster(7), Cluster(7)
    one.run()
    other.run()
    assert list(one.world.story) == list(other.world.story) and one.world.n_steps == other.world.n_steps
