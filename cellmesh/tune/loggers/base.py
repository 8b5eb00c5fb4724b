"""What loggers share: a folder for each trial, and when it is opened and closed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..callbacks import Callback, TrialInfo
from ..space import to_json


class Logger(Callback):
    """Writes what trials report below a folder, one folder for each.

    Parameters
    ----------
    path : str or Path, optional
        The folder; `logs` in the experiment's unless given.

    Notes
    -----
    A trial that begins again, after a failure or a pause without a checkpoint, reports some iterations again. Files
    have them as they came.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path: Path | None = None if path is None else Path(path).expanduser().absolute()
        self._open: set[str] = set()

    def setup(self, **info: Any) -> None:
        if self.path is None:
            self.path = Path(info["path"]) / "logs"
        self.path.mkdir(parents=True, exist_ok=True)

    def folder_of(self, trial: TrialInfo) -> Path:
        """The folder of a trial."""
        assert self.path is not None, "setup() comes first"
        return self.path / trial.trial_id

    def on_trial_result(
        self, iteration: int, trials: Sequence[TrialInfo], trial: TrialInfo, result: Mapping[str, Any], **info: Any
    ) -> None:
        self._begin(trial)
        self.write(trial, result)

    def on_trial_complete(self, iteration: int, trials: Sequence[TrialInfo], trial: TrialInfo, **info: Any) -> None:
        self._end(trial)

    def on_trial_error(self, iteration: int, trials: Sequence[TrialInfo], trial: TrialInfo, **info: Any) -> None:
        self._begin(trial)  # a trial that has failed at once leaves its error alone
        (self.folder_of(trial) / "error.txt").write_text(f"{trial.error}\n")
        self._end(trial)

    def on_experiment_end(self, trials: Sequence[TrialInfo], **info: Any) -> None:
        for trial in trials:
            self._end(trial)

    def _begin(self, trial: TrialInfo) -> None:
        if trial.trial_id not in self._open:
            self._open.add(trial.trial_id)
            self.folder_of(trial).mkdir(exist_ok=True)
            self.begin(trial)

    def _end(self, trial: TrialInfo) -> None:
        if trial.trial_id in self._open:
            self._open.remove(trial.trial_id)
            self.end(trial)

    # ---- for subclasses
    def write_params(self, trial: TrialInfo) -> None:
        """Write `params.json`, the configuration; again at the end, as a scheduler may have changed it."""
        text = json.dumps(to_json(trial.config), indent=1)
        (self.folder_of(trial) / "params.json").write_text(f"{text}\n")

    def begin(self, trial: TrialInfo) -> None:
        """Before the first result of a trial; its folder is there."""

    def write(self, trial: TrialInfo, result: Mapping[str, Any]) -> None:
        """A result, flat."""
        raise NotImplementedError(f"{type(self).__name__} has no write(trial, result)")

    def end(self, trial: TrialInfo) -> None:
        """After its last one."""
