"""What proposes configurations, as the controller sees it.

The controller asks `Search.suggest` for the next configuration in a thread of its own, and tells it of results in the
order in which they arrive. One call at a time is made, so implementations need no lock.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any


class NoSuggestion(Enum):
    """Why there is no configuration now."""

    LATER = "later"  # ask again once a trial has ended
    FINISHED = "finished"  # there will be none any more


class Search:
    """Proposes configurations, one trial at a time.

    `is_adaptive`: suggestions depend on the results so far. Where they do not, the controller asks well ahead.
    `modules`: what it needs that takes long to import.
    """

    is_adaptive: bool = True
    modules: tuple[str, ...] = ()

    def begin(self, metric: str | None, mode: str, space: Mapping[str, Any], num_samples: int, seed: int) -> None:
        """Called once, before anything else. `num_samples` -1: without end."""

    def count(self) -> int | None:
        """How many trials there will be in all, where that is known."""
        return None

    def suggest(self, trial: int) -> dict[str, Any] | NoSuggestion:
        """The configuration of the trial with this number, or why there is none."""
        raise NotImplementedError

    def on_trial_result(self, trial: int, result: Mapping[str, Any]) -> None:
        """A trial has reported."""

    def on_trial_end(self, trial: int, result: Mapping[str, Any] | None, failed: bool, pruned: bool = False) -> None:
        """A trial has ended with this last result, None if it never reported; `failed`: by an error; `pruned`: the
        scheduler stopped it before it was done."""

    def replay(self, trial: int, config: Mapping[str, Any]) -> None:
        """After `begin`, when an experiment is resumed: this configuration had been suggested. Results are told again
        after it by the methods above, in their order."""

    def describe(self) -> dict[str, Any] | None:
        """What `make.from_description` builds it from again, as JSON has it; None: whoever resumes must give it
        again.
        """
        return None
