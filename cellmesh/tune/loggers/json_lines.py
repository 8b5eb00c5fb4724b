"""A line of JSON for each result, as Ray Tune writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..callbacks import TrialInfo
from .base import Logger


class JSONLogger(Logger):
    """Writes `TRIAL/params.json`, the configuration, and `TRIAL/result.json`, one line for each result.

    NaN and infinities are written as Python's `json` writes and reads them.
    """

    def begin(self, trial: TrialInfo) -> None:
        self.write_params(trial)
        (self.folder_of(trial) / "result.json").write_text("")

    def write(self, trial: TrialInfo, result: Mapping[str, Any]) -> None:
        with open(self.folder_of(trial) / "result.json", "a") as file:
            file.write(json.dumps(dict(result)) + "\n")

    def end(self, trial: TrialInfo) -> None:
        self.write_params(trial)
