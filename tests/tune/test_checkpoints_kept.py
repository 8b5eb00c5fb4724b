"""Which checkpoints of a trial are there, by the controller's decisions."""

from __future__ import annotations

import sys
import tarfile
from pathlib import Path

import pytest

from cellmesh.tune import checkpoint
from cellmesh.tune.control import actions as c
from cellmesh.tune.control.controller import Controller
from cellmesh.tune.control.trial import Process, State
from cellmesh.tune.records import Capacity, Ended, Outcome, Reported, Saved, Suggested
from cellmesh.tune.schedulers import FIFO


def kept_after(plan: c.Plan, values: list[float]) -> list[int]:
    """The iterations whose checkpoints are there once a trial has reported these."""
    controller = Controller(plan, FIFO())
    for event in (Capacity(at=0, n=1), Suggested(at=0, trial=0, config={})):
        controller.step(event)
    for i, value in enumerate(values, 1):
        saved = Saved(f"checkpoints/{i}", i, 0.0)
        controller.step(Reported(at=0, trial=0, attempt=1, result={"loss": value}, checkpoint=saved))
    return [saved.iteration for saved, _ in controller.trials[0].saved]


def test_the_latest_checkpoints_are_kept_and_the_best() -> None:
    losses = [3.0, 1.0, 2.0, 5.0, 4.0]
    assert kept_after(c.Plan(metric="loss", mode="min"), losses) == [2, 5]
    assert kept_after(c.Plan(score_by="loss", score_mode="min"), losses) == [2, 5], "with an order of their own"
    assert kept_after(c.Plan(score_by="loss", mode="max"), losses) == [4, 5]
    assert kept_after(c.Plan(num_to_keep=2), losses) == [4, 5], "none is the best where there is no score"
    assert kept_after(c.Plan(num_to_keep=None), losses) == [1, 2, 3, 4, 5]


def ended_with_a_checkpoint(state: State, outcome: Outcome) -> Controller:
    """After the end of an attempt that left a checkpoint, of a trial that was told to be in a state."""
    controller = Controller(c.Plan(can_save=True, num_to_keep=1), FIFO(), lambda trial, result: "it is enough")
    for event in (Capacity(at=0, n=1), Suggested(at=0, trial=0, config={})):
        controller.step(event)
    if state is State.TERMINATED:
        controller.step(Reported(at=0, trial=0, attempt=1, result={}))
    else:
        trial = controller.trials[0]
        trial.checkpoint, trial.process, trial.state = Saved("checkpoints/donor", 7, 0.0), Process.LEAVES, state
    controller.step(Ended(at=0, trial=0, attempt=1, outcome=outcome, checkpoint=Saved("checkpoints/own", 1, 0.0)))
    return controller


def test_the_checkpoint_that_a_trial_leaves_at_its_end_is_kept() -> None:
    assert ended_with_a_checkpoint(State.TERMINATED, "stopped").checkpoints() == {"checkpoints/own"}
    assert ended_with_a_checkpoint(State.PAUSED, "paused").checkpoints() == {"checkpoints/own"}


def test_a_trial_that_goes_on_from_another_leaves_its_own_checkpoint_behind() -> None:
    assert ended_with_a_checkpoint(State.PENDING, "stopped").checkpoints() == {"checkpoints/donor"}


# Filters of tar files came with Python 3.12, and with 3.11.4; 3.14 needs them itself.
@pytest.mark.parametrize("has_filter", [True, False] if sys.version_info < (3, 12) else [True])
def test_what_is_packed_for_another_machine_is_unpacked_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, has_filter: bool
) -> None:
    if not has_filter:
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    saved = tmp_path / "saved"
    saved.mkdir()
    (saved / "weights").write_text("1 2 3")
    there = checkpoint.unpack(checkpoint.pack_saved(tmp_path, "saved"), tmp_path / "there")
    assert (there / "weights").read_text() == "1 2 3"
