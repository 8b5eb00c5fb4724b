"""What the controller is told of an experiment, and what it has the host do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from ..records import Saved
from .trial import State


class Plan(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the controller needs to know of an experiment."""

    metric: str | None = None
    mode: Literal["min", "max"] = "max"
    max_failures: int = 0  # after so many a trial is given up; -1: never
    fail_fast: bool = False  # the first trial that is given up ends the experiment
    can_save: bool = False  # a trial writes a checkpoint when it is told to pause
    num_to_keep: int | None = 1  # latest checkpoints of a trial, beside its best one; None: all
    score_by: str | None = None  # metric of the best checkpoint; None: `metric`
    score_mode: Literal["min", "max"] | None = None  # whether that one is to be small or large; None: `mode`
    needs_metric: bool = False  # the scheduler or the searcher decides by it
    takes_group: bool = False  # a trial has a placement group, unless its own resources say something else
    ahead: int = 1  # configurations that are suggested before there is room for them


# ---- actions
class Suggest(msgspec.Struct, frozen=True):
    """Ask the searcher for the next configuration; `Suggested` or `NoneLeft` answers."""


class Launch(msgspec.Struct, frozen=True):
    """Begin an attempt of the trial, from its checkpoint."""

    trial: int
    attempt: int


Word = Literal["go", "stop", "pause"]


class Answer(msgspec.Struct, frozen=True):
    """Answer the report in which an attempt waits. At "pause" it writes a checkpoint if it can, then it ends."""

    trial: int
    attempt: int
    word: Word


class Interrupt(msgspec.Struct, frozen=True):
    """End an attempt that works, as the stop button would; `by_force`: end its process."""

    trial: int
    attempt: int
    by_force: bool = False


class TellResult(msgspec.Struct, frozen=True):
    """Tell the searcher of a result."""

    trial: int
    result: Mapping[str, Any]


class TellEnd(msgspec.Struct, frozen=True):
    """Tell the searcher that a trial is over. `pruned`: the scheduler has stopped it before it was done."""

    trial: int
    result: Mapping[str, Any] | None
    failed: bool
    pruned: bool


class Forget(msgspec.Struct, frozen=True):
    """Delete a checkpoint that nothing will go on from."""

    saved: Saved


class Note(msgspec.Struct, frozen=True):
    """A trial is in another state."""

    trial: int
    state: State
    why: str


class Warn(msgspec.Struct, frozen=True):
    """Tell the user."""

    text: str


class Finish(msgspec.Struct, frozen=True):
    """The experiment is over, and hears no event any more. `failed`: it could not go on."""

    why: str
    failed: bool = False


Action = Suggest | Launch | Answer | Interrupt | TellResult | TellEnd | Forget | Note | Warn | Finish
