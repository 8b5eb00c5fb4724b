"""What a scheduler of trials hears, and what it may decide.

A scheduler is pure. It hears of every trial by the methods of `Scheduler`, in the order in which things happened, and
answers with decisions. It reads no clock, does no I/O, and draws from the generator that `begin` gives it alone: the
same events give the same decisions, which is how an experiment is resumed from its journal.

A trial is known by its number, 0, 1, 2, ... in the order of its making.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import numpy as np


class Stop(msgspec.Struct, frozen=True):
    """The trial ends here, as one that has done its part. It may run, wait in a report, or be paused."""

    trial: int


class Pause(msgspec.Struct, frozen=True):
    """The trial gives its resources back and waits for `Resume`. It goes on from its latest checkpoint, or, where it
    has none, its process waits inside the report."""

    trial: int


class Resume(msgspec.Struct, frozen=True):
    """A paused trial may go on, as soon as there is room. The order of these is the order in which they go on, and they
    go before trials that have not begun.
    """

    trial: int


class Exploit(msgspec.Struct, frozen=True):
    """The trial goes on from the latest checkpoint of another one (`donor`), with this configuration."""

    trial: int
    donor: int
    config: dict[str, Any]


Decision = Stop | Pause | Resume | Exploit
Decisions = Sequence[Decision]  # of any trials; a trial that is not named goes on


class Scheduler:
    """Decides which trials go on. The methods here are those of first in, first out: every trial runs to its end.

    Subclasses implement what they need to hear. `metric` is a name in every result they hear of, unless a result lacks
    it, which the caller has refused before; a value may be NaN, which is worse than any number.
    """

    metric: str
    mode: str
    needs_checkpoints = False  # it lets trials go on from each other's
    needs_count = False  # it waits for all trials, so their number has an end

    def begin(self, metric: str, mode: str, rng: np.random.Generator) -> None:
        """Called once, before anything else. `mode` is "min" or "max"."""
        self.metric, self.mode = metric, mode

    def on_trial_add(self, trial: int, config: Mapping[str, Any]) -> Decisions:
        """A trial exists; it has not begun."""
        return ()

    def on_trial_begin(self, trial: int) -> None:
        """It runs now: it begins, or goes on after a pause. Who lets trials take turns needs to know."""

    def on_trial_result(self, trial: int, result: Mapping[str, Any]) -> Decisions:
        """A trial reported, and waits for the answer. `result` has `training_iteration` (1, 2, ...), `time_total_s` and
        what the trial reported.
        """
        return ()

    def on_trial_end(self, trial: int, result: Mapping[str, Any] | None, failed: bool) -> Decisions:
        """A trial has ended by itself, failed for good, or was stopped by somebody else; `result` is its last one. Not
        called for what this scheduler has stopped itself."""
        return ()

    def on_no_more_trials(self) -> Decisions:
        """No trial will be added any more. Called at most once."""
        return ()

    def on_starved(self) -> Decisions:
        """Nothing runs, nothing waits to begin, and no trial will be added before some trial has gone on: of the paused
        trials some must be resumed or stopped now, or the experiment ends with an error that says so."""
        return ()
