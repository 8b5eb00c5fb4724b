"""Which checkpoints of a trial are kept."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

from ..records import Saved
from .actions import Action, Forget, Plan
from .trial import Trial


class Keeping:
    """Keeps the latest checkpoints, the best one, and those that a trial goes on from.

    Parameters
    ----------
    plan : Plan
    do : callable
        Takes a `Forget` for each that is not needed any more.
    """

    def __init__(self, plan: Plan, do: Callable[[Action], None]) -> None:
        self._plan, self._do = plan, do
        self._n_users: Counter[str] = Counter()  # trials that go on from a checkpoint, by its path

    def keep(self, trial: Trial, saved: Saved) -> None:
        """A checkpoint more, and those fewer that are neither among the latest nor the best nor in use."""
        self.goes_on_from(trial, saved)
        score = (trial.last or {}).get(self._plan.score_by or self._plan.metric or "")
        trial.saved.append((saved, float(score) if isinstance(score, (int, float)) else None))
        if self._plan.num_to_keep is None:
            return
        latest = trial.saved[-self._plan.num_to_keep :] if self._plan.num_to_keep else []
        best = max(trial.saved, key=lambda one: self._rank(one[1]))
        has_best = self._rank(best[1]) > -math.inf
        kept = [one for one in trial.saved if one in latest or (has_best and one is best) or self._n_users[one[0].path]]
        for one in trial.saved:
            if one not in kept:
                self._do(Forget(one[0]))
        trial.saved = kept

    def is_saved(self, trial: Trial) -> bool:
        """Whether its latest checkpoint is as far as the trial."""
        return trial.checkpoint is not None and trial.checkpoint.iteration >= trial.iteration

    def goes_on_from(self, trial: Trial, saved: Saved | None) -> None:
        """Its next process goes on from this checkpoint; from the beginning without one."""
        if trial.checkpoint is not None:
            self._n_users[trial.checkpoint.path] -= 1
        if saved is not None:
            self._n_users[saved.path] += 1
        trial.checkpoint = saved

    def _rank(self, score: float | None) -> float:
        if score is None or math.isnan(score):
            return -math.inf
        return score if (self._plan.score_mode or self._plan.mode) == "max" else -score
