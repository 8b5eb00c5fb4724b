"""Each scheduler under the real controller, in a world that misbehaves by a seed.

Processes die and are late, users pause and stop, the capacity changes, controllers end.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from tune.population import KINDS, scheduler_of
from tune.simulated import World

from cellmesh.tune.control.actions import Plan
from cellmesh.tune.control.controller import Controller
from cellmesh.tune.schedulers import Scheduler

N_SEEDS = 40


def begun(kind: str, seed: int) -> Scheduler:
    scheduler = scheduler_of(kind, seed)
    scheduler.begin("score", random.Random(seed).choice(("min", "max")), np.random.default_rng(seed))
    return scheduler


def plan_of(seed: int) -> Plan:
    return Plan(metric="score", max_failures=seed % 3, can_save=seed % 2 == 0, ahead=seed % 4)


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_happens_each_trial_ends_once(kind: str) -> None:
    for seed in range(N_SEEDS):
        world = World(seed, plan_of(seed), begun(kind, seed), n_trials=1 + seed % 14)
        world.run()
        assert world.finished is not None and "paused" not in world.finished.why, f"seed {seed}: {world.finished.why}"


@pytest.mark.parametrize("kind", KINDS)
def test_a_replay_of_the_events_is_the_same_experiment(kind: str) -> None:
    for seed in range(10):
        world = World(seed, plan_of(seed), begun(kind, seed), n_trials=8)
        world.run()
        again = Controller(plan_of(seed), begun(kind, seed))
        for event in world.events:
            again.step(event)
        assert [(t.state, t.attempt, t.config, t.last) for t in again.trials] == [
            (t.state, t.attempt, t.config, t.last) for t in world.controller.trials
        ]
