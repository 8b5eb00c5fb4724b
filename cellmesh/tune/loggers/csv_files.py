"""A table for each trial."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..callbacks import TrialInfo
from .base import Logger


class CSVLogger(Logger):
    """Writes `TRIAL/params.json`, the configuration, and `TRIAL/progress.csv`, a row for each result.

    A metric that comes up later is a column more: the file is written again then.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        super().__init__(path)
        self._columns: dict[str, list[str]] = {}

    def begin(self, trial: TrialInfo) -> None:
        folder = self.folder_of(trial)
        self.write_params(trial)
        self._columns[trial.trial_id] = []
        (folder / "progress.csv").write_text("")

    def write(self, trial: TrialInfo, result: Mapping[str, Any]) -> None:
        path, columns = self.folder_of(trial) / "progress.csv", self._columns[trial.trial_id]
        if new := [name for name in result if name not in columns]:
            with open(path, newline="") as file:
                before = list(csv.DictReader(file))
            columns += new
            with open(path, "w", newline="") as file:
                writer = csv.DictWriter(file, columns)
                writer.writeheader()
                writer.writerows(before)
        with open(path, "a", newline="") as file:
            csv.DictWriter(file, columns).writerow(result)

    def end(self, trial: TrialInfo) -> None:
        self.write_params(trial)
        del self._columns[trial.trial_id]
