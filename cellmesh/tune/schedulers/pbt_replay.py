"""Trains one trial with a policy that population based training has found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import policy as policies
from .built_in import BuiltIn
from .explore import copied
from .protocol import Decisions, Exploit


class PBTReplay(BuiltIn):
    """Trains one trial with the configurations that led to a trial of population based training.

    The trial begins with the first of them, whatever configuration it was given, and goes on from its own latest
    checkpoint where they change.

    Parameters
    ----------
    policy : list of rows, or path
        From `PBT.policy`, or a file of Ray's (`pbt_policy_*.txt`).
    """

    name = "pbt_replay"

    def __init__(self, policy: policies.Given) -> None:
        super().__init__()
        rows = self.options["policy"] = policies.given(policy)  # a description needs no file
        self.config: dict[str, Any] | None
        self.config, self._changes = policies.schedule(rows)

    def _reset(self) -> None:
        self._trial: int | None = None
        self._n_changed = 0

    def on_trial_add(self, trial: int, config: Mapping[str, Any]) -> Decisions:
        if self._trial is not None:
            raise ValueError("PBTReplay trains one trial, and there is a second one: give num_samples=1")
        self._trial = trial
        return [] if self.config is None else [Exploit(trial, trial, copied(self.config))]

    def on_trial_result(self, trial: int, result: Mapping[str, Any]) -> Decisions:
        due = [config for at, config in self._changes[self._n_changed :] if at <= self._time(trial, result)]
        self._n_changed += len(due)
        return [Exploit(trial, trial, copied(due[-1]))] if due else []
