"""`ray.tune.logger`: callbacks that write what trials report into each trial's folder, where it is asked for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar

from ....tune.loggers import Logger, make
from ... import missing as _missing
from .configs import flattened
from .trials import Trial
from .watching import Callback

__all__ = ["CSVLoggerCallback", "JsonLoggerCallback", "LoggerCallback", "TBXLoggerCallback", "pretty_print"]


class LoggerCallback(Callback):
    """Subclasses implement what they want to log."""

    def log_trial_start(self, trial: Trial) -> None:
        """A trial begins."""

    def log_trial_restore(self, trial: Trial) -> None:
        """A trial goes on from a checkpoint."""

    def log_trial_save(self, trial: Trial) -> None:
        """A trial has saved a checkpoint."""

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        """A trial has reported."""

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        """A trial has ended."""

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self.log_trial_start(trial)

    def on_trial_restore(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self.log_trial_restore(trial)

    def on_trial_save(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self.log_trial_save(trial)

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        self.log_trial_result(iteration, trial, result)

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self.log_trial_end(trial, failed=False)

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self.log_trial_end(trial, failed=True)


class _Files(LoggerCallback):
    """One of our loggers, in the folders of the trials."""

    kind: ClassVar[str]

    def __init__(self) -> None:
        self._logger: Logger | None = None

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        flat = flattened({name: value for name, value in result.items() if name != "config"})
        self._of(trial).on_trial_result(iteration, [], trial, flat)

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        logger = self._of(trial)
        (logger.on_trial_error if failed else logger.on_trial_complete)(0, [], trial)

    def _of(self, trial: Trial) -> Any:
        if self._logger is None:
            folder = Path(trial.path).parent
            self._logger = make(self.kind, folder)
            self._logger.setup(path=str(folder))
        return self._logger


class CSVLoggerCallback(_Files):
    """Writes `progress.csv`."""

    kind = "csv"


class JsonLoggerCallback(_Files):
    """Writes `params.json` and `result.json`."""

    kind = "json"


class TBXLoggerCallback(_Files):
    """Writes event files for TensorBoard."""

    kind = "tensorboard"


def pretty_print(result: Mapping[str, Any], exclude: Collection[str] | None = None) -> str:
    """A result as text, a line for each value that is not None."""
    shown = {name: value for name, value in result.items() if value is not None and name not in (exclude or ())}
    return "\n".join(_lines(shown)) + "\n"


def _lines(tree: Mapping[str, Any], indent: str = "") -> list[str]:
    lines: list[str] = []
    for name, value in sorted(tree.items()):
        if isinstance(value, Mapping) and value:
            lines += [f"{indent}{name}:", *_lines(value, indent + "  ")]
        else:
            lines.append(f"{indent}{name}: {value}")
    return lines


__getattr__: _missing.NoSuchName = _missing.no_such_name("ray.tune.logger")
