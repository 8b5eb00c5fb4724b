"""What users hang onto an experiment: called by its controller when something happens."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .control.trial import State, Trial


@dataclass(frozen=True)
class TrialInfo:
    """A trial as callbacks and loggers see it.

    Attributes
    ----------
    trial_id : str
        Its number, five digits.
    config : dict
        The one that it has run with last, also once PBT has another one for it.
    status : str
        PENDING, RUNNING, PAUSED, TERMINATED or ERROR.
    last_result : dict
        What it reported last; empty before.
    experiment : str
        The experiment's name.
    path : str
        The experiment's folder.
    """

    number: int
    config: dict[str, Any]
    status: str
    last_result: Mapping[str, Any]
    experiment: str
    path: str
    error: str = ""

    @property
    def trial_id(self) -> str:
        return f"{self.number:05}"

    def __str__(self) -> str:
        return f"{self.experiment}_{self.trial_id}"


class Callback:
    """Subclasses implement what they want to hear of. What they raise is told to the user, and does not end the
    experiment.

    They run in the controller's process, one after the other: what takes long keeps reports waiting.
    """

    def setup(self, **info: Any) -> None:
        """The experiment begins; `info` has `name`, `path` and `space`."""

    def on_trial_result(
        self, iteration: int, trials: Sequence[TrialInfo], trial: TrialInfo, result: Mapping[str, Any], **info: Any
    ) -> None:
        """A trial reported."""

    def on_trial_complete(self, iteration: int, trials: Sequence[TrialInfo], trial: TrialInfo, **info: Any) -> None:
        """A trial has ended, or was stopped."""

    def on_trial_error(self, iteration: int, trials: Sequence[TrialInfo], trial: TrialInfo, **info: Any) -> None:
        """A trial has failed for good."""

    def on_experiment_end(self, trials: Sequence[TrialInfo], **info: Any) -> None:
        """The experiment is over."""


def check_callbacks(callbacks: Any) -> None:
    """`TypeError` unless they are callbacks."""
    given = f"callbacks={callbacks!r}"
    if callbacks is not None and not isinstance(callbacks, Sequence):
        raise TypeError(f"{given}: give a list of them")
    for callback in callbacks or ():
        if isinstance(callback, type) and issubclass(callback, Callback):
            raise TypeError(f"{given}: give an object of it, not the class: {callback.__name__}()")
        if not isinstance(callback, Callback):
            raise TypeError(f"{given}: a callback is a tune.Callback, whose methods hear of what happens")


class Callbacks:
    """Calls several of them."""

    def __init__(self, callbacks: Sequence[Callback], folder: Path, tell: Callable[[str], None]) -> None:
        self._callbacks, self._folder, self._tell = list(callbacks), folder, tell
        self._failed: set[tuple[int, str]] = set()
        self._trials: list[Trial] = []
        self._n = 0

    def setup(self, opening: Any) -> None:
        """Before the first trial."""
        self._call("setup", name=self._folder.name, path=str(self._folder), space=opening.space)

    def result(self, trials: list[Trial], trial: Trial, result: Mapping[str, Any]) -> None:
        """A trial reported."""
        self._trials = trials
        if self._callbacks:
            self._n += 1
            self._call(
                "on_trial_result", iteration=self._n, trials=_Infos(self, trials), trial=self.info(trial), result=result
            )

    def end(self, trials: list[Trial], trial: Trial, failed: bool) -> None:
        """A trial is over."""
        if self._callbacks:
            name = "on_trial_error" if failed else "on_trial_complete"
            self._call(name, iteration=self._n, trials=_Infos(self, trials), trial=self.info(trial))

    def finish(self, trials: list[Trial]) -> None:
        """The experiment is over."""
        self._call("on_experiment_end", trials=_Infos(self, trials))

    def info(self, trial: Trial) -> TrialInfo:
        """How callbacks see a trial."""
        error = trial.why if trial.state is State.ERROR else ""
        folder = self._folder
        config = trial.ran_with if trial.attempt else trial.config
        return TrialInfo(trial.number, config, trial.state.value, trial.last or {}, folder.name, str(folder), error)

    def _call(self, name: str, /, **arguments: Any) -> None:
        for i, callback in enumerate(self._callbacks):
            try:
                getattr(callback, name)(**arguments)
            except Exception as error:  # it is the user's
                if (i, name) not in self._failed:
                    self._failed.add((i, name))
                    where = traceback.extract_tb(error.__traceback__)[-1]
                    self._tell(
                        f"{type(callback).__name__}.{name} raised {type(error).__name__}: {error} "
                        f"({where.filename}:{where.lineno}); "
                        "said once"
                    )


class _Infos(Sequence[TrialInfo]):
    """Trials as callbacks see them, made when they are looked at."""

    def __init__(self, of: Callbacks, trials: list[Trial]) -> None:
        self._of, self._trials = of, trials

    def __len__(self) -> int:
        return len(self._trials)

    def __getitem__(self, index: Any) -> Any:
        found = self._trials[index]
        return [self._of.info(trial) for trial in found] if isinstance(index, slice) else self._of.info(found)
