"""The controller, in a world that misbehaves by a seed."""

from __future__ import annotations

import os
import random

import pytest
from tune.simulated import Whims, World, packs

from cellmesh.tune.control import actions as c
from cellmesh.tune.control.controller import Controller
from cellmesh.tune.control.trial import State
from cellmesh.tune.records import Event

SEEDS_A_BLOCK = int(os.environ.get("CELLMESH_TUNE_SEEDS", "2000")) // 10


def plan_of(seed: int) -> c.Plan:
    draw = random.Random(seed)
    return c.Plan(
        metric="score",
        max_failures=draw.choice((0, 1, 3, -1)),
        fail_fast=draw.random() < 0.1,
        can_save=draw.random() < 0.5,
        num_to_keep=draw.choice((None, 1, 2)),
        ahead=draw.choice((0, 1, 3)),
    )


@pytest.mark.parametrize("block", range(10))
def test_whatever_happens_each_trial_ends_once(block: int) -> None:
    for seed in range(block * SEEDS_A_BLOCK, (block + 1) * SEEDS_A_BLOCK):
        world = World(seed, plan_of(seed), Whims(seed), n_trials=1 + seed % 12)
        try:
            world.run()
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


@pytest.mark.parametrize("seed", range(50))
def test_a_replay_of_the_events_is_the_same_experiment(seed: int) -> None:
    world = World(seed, plan_of(seed), Whims(seed), n_trials=8)
    world.run()
    again = Controller(plan_of(seed), Whims(seed))
    for event in world.events:
        again.step(event)
    assert [(t.state, t.attempt, t.last, t.checkpoint) for t in again.trials] == [
        (t.state, t.attempt, t.last, t.checkpoint) for t in world.controller.trials
    ]


def test_what_is_told_of_states_is_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    step, told = Controller.step, dict[Controller, dict[int, State]]()

    def heard(self: Controller, event: Event) -> list[c.Action]:
        actions, states = step(self, event), told.setdefault(self, {})
        for action in actions:
            if isinstance(action, c.Note):
                states[action.trial] = action.state
            elif isinstance(action, c.Launch):
                states[action.trial] = State.RUNNING
        assert [states.get(t.number, State.PENDING) for t in self.trials] == [t.state for t in self.trials]
        return actions

    monkeypatch.setattr(Controller, "step", heard)
    for seed in range(100):
        World(seed, plan_of(seed), Whims(seed), n_trials=1 + seed % 12).run()


@pytest.mark.parametrize("block", range(4))
def test_trials_that_take_their_own_never_take_more_than_there_is(block: int) -> None:
    for seed in range(block * SEEDS_A_BLOCK // 2, (block + 1) * SEEDS_A_BLOCK // 2):
        machines = [(4,), (2, 2), (1, 4), (3, 1, 2)][seed % 4]
        world = World(seed, plan_of(seed), Whims(seed), n_trials=1 + seed % 12, machines=machines)
        try:
            world.run()
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
        for trial in world.controller.trials:
            assert trial.resources is not None
            if trial.attempt:
                assert packs(list(machines), [trial.resources])
