"""A cluster in one process under every mix of faults; see `simulation`. More seeds with the nightly tests."""

from __future__ import annotations

import os

import pytest
from cluster.simulated.simulation import Cluster

N_SEEDS = int(os.environ.get("CELLMESH_SEEDS", "200"))
CHUNK = 100
KEPT = {
    90: "a task for its own node alone, which is too small for it: nobody said why it waits",
    1467: "two nodes given up at the same moment: what was said twice was answered for ever",
    2493: "a node that does not read is given up and used again: it was sent tasks before it had read anything",
}


@pytest.mark.parametrize("first", range(0, N_SEEDS, CHUNK))
def test_every_task_ends_once_and_nothing_is_left(first: int) -> None:
    for seed in range(first, min(first + CHUNK, N_SEEDS)):
        Cluster(seed).run()


@pytest.mark.parametrize("seed", KEPT)
def test_what_has_gone_wrong_once_does_not_again(seed: int) -> None:
    Cluster(seed).run()


def test_a_seed_gives_the_same_story_every_time() -> None:
    one, other = Cluster(7), Cluster(7)
    one.run()
    other.run()
    assert list(one.world.story) == list(other.world.story) and one.world.n_steps == other.world.n_steps
