"""Experiments under every scheduler, by seeds: nothing hangs, each trial ends once, and they can be replayed."""

from __future__ import annotations

import os
import random

import pytest
from tune.population import KINDS, Population, World, negated, replayed, scheduler_of

N_SEEDS = int(os.environ.get("CELLMESH_SEEDS", "2000"))


def world_of(seed: int) -> World:
    chance = random.Random(seed)
    return World(
        n_trials=chance.randint(1, 14),
        capacity=chance.choice((1, 1, 2, 3, 8)),
        ahead=chance.choice((0, 1, 4)),
        most_living=chance.choice((None, None, 1, 2, 5)),
        length=chance.choice((3, 10, 18)),
        failures=chance.choice((0, 0, 0.05)),
        set_backs=chance.choice((0, 0, 0.05)),
        stops=chance.choice((0, 0, 0.03)),
        nan=chance.choice((0, 0, 0.2)),
        stride=chance.choice((1, 1, 5)),
        coarse=chance.random() < 0.3,
        tells_begins=chance.random() < 0.7,
        keeps_own_time=chance.random() < 0.5,
        config=lambda trial, chance: {"lr": chance.random()} if trial % 2 else {},
    )


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_hangs(kind: str) -> None:
    for seed in range(KINDS.index(kind), N_SEEDS, len(KINDS)):
        population = Population(scheduler_of(kind, seed), world_of(seed), seed).run()
        assert len(population.members) == population.world.n_trials
        assert all(population.n_ends[number] == 1 for number in range(population.world.n_trials))


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_events_give_the_same_decisions(kind: str) -> None:
    """Also with an object that has been used before, and whatever `random` has drawn meanwhile."""
    for seed in range(20):
        scheduler = scheduler_of(kind, seed)
        population = Population(scheduler, world_of(seed), seed).run()
        random.random()
        assert replayed(population.story, scheduler, "max", seed)
        assert replayed(population.story, scheduler_of(kind, seed), "max", seed)


@pytest.mark.parametrize("kind", KINDS)
def test_min_and_max_are_symmetric(kind: str) -> None:
    for seed in range(20):
        population = Population(scheduler_of(kind, seed), world_of(seed), seed).run()
        assert replayed(negated(population.story), scheduler_of(kind, seed), "min", seed)
