"""Which trials may be waiting for room, and whose turn it is.

A trial that has begun or reported since it was made, or since it was last resumed, runs; any other one may be waiting.
So may trials that are yet to be made. A trial that yields to them is held until it is resumed.
"""

from __future__ import annotations

from collections.abc import Callable

from .built_in import BuiltIn
from .protocol import Decision, Decisions, Resume


class Turns:
    """The living trials of an experiment.

    `has_more`: trials may still be made. They count as waiting at time 0.
    """

    def __init__(self) -> None:
        self.has_more: bool = True
        self.held: set[int] = set()
        self.times: dict[int, float] = {}  # of each trial's last report; 0.0 before the first
        self._unbegun: set[int] = set()
        self._unseen: set[int] = set()  # may be waiting; what is held is among them

    def add(self, trial: int) -> None:
        self.has_more = True
        self.times[trial] = 0.0
        self._unbegun.add(trial)
        self._unseen.add(trial)

    def begin(self, trial: int) -> None:
        self._unbegun.discard(trial)
        self._unseen.discard(trial)

    def report(self, trial: int, time: float) -> None:
        self.times[trial] = time
        for group in (self.held, self._unbegun, self._unseen):
            group.discard(trial)

    def end(self, trial: int) -> None:
        del self.times[trial]
        for group in (self.held, self._unbegun, self._unseen):
            group.discard(trial)

    def hold(self, trial: int) -> None:
        self.held.add(trial)
        self._unseen.add(trial)

    def release(self, trial: int) -> None:
        """It is resumed, and may have to wait for room."""
        self.held.remove(trial)

    def others_wait(self, trial: int) -> bool:
        """Whether any other trial may be waiting."""
        return self.has_more or bool(self._unseen - {trial})

    def all_have_begun(self) -> bool:
        return not self.has_more and not self._unbegun

    def is_ahead(self, trial: int, by: float) -> bool:
        """Whether it is so far ahead of another one that may be waiting."""
        limit = self.times[trial] - by
        return (self.has_more and limit >= 0) or any(self.times[u] <= limit for u in self._unseen if u != trial)

    def held_in_order(self) -> list[int]:
        """Trials that are held, the one least far first."""
        return sorted(self.held, key=lambda trial: (self.times[trial], trial))


class TakesTurns(BuiltIn):
    """A scheduler whose trials take turns. Subclasses make `_turns` when they begin, and say who need not be held."""

    _turns: Turns

    def on_trial_begin(self, trial: int) -> None:
        self._turns.begin(trial)

    def on_no_more_trials(self) -> Decisions:
        self._turns.has_more = False
        return self._release()

    def on_starved(self) -> Decisions:
        self._turns.has_more = False  # until there is another one
        return self._release()

    def _release(self) -> list[Decision]:
        """Who was held and need not be any more."""
        raise NotImplementedError

    def _release_where(self, may_go: Callable[[int], bool]) -> list[Decision]:
        """Resume those that are held and may go on, the one least far first."""
        decisions: list[Decision] = []
        for trial in self._turns.held_in_order():
            if may_go(trial):
                self._turns.release(trial)
                decisions.append(Resume(trial))
        return decisions
