"""Callbacks called by a journal: while an experiment runs, by whoever watches it, or long after its end.

A controller calls its callbacks itself (`..callbacks`). Here somebody else reads the same records, so callbacks run in
the reader's process, and cost the experiment nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..callbacks import TrialInfo
from ..journal import Reader
from ..records import AnyRecord, Became, Closed, Launched, Opened, Reported
from ..view import ExperimentView, TrialView


class Replay:
    """Calls callbacks with what a journal says.

    Parameters
    ----------
    folder : Path
        The experiment's folder.
    callbacks : sequence
        Objects with the methods of `Callback`; of `on_trial_start` and `on_checkpoint` those that have them hear too.
        What they raise passes.
    info : callable, optional
        Makes of a `TrialView` and the `ExperimentView` what callbacks get for a trial; a `TrialInfo` unless given.
    result : callable, optional
        Makes of a `TrialView` and its flat result what callbacks get for a result; the flat result unless given.
    """

    view: ExperimentView

    def __init__(
        self,
        folder: Path,
        callbacks: Sequence[Any],
        info: Callable[[TrialView, ExperimentView], Any] | None = None,
        result: Callable[[TrialView, Mapping[str, Any]], Any] | None = None,
    ) -> None:
        self.view = ExperimentView()
        self._folder, self._callbacks = folder, list(callbacks)
        self._reader = Reader(folder)
        self._make_info = info or self._info
        self._make_result: Callable[[TrialView, Mapping[str, Any]], Any] = result or (lambda trial, flat: flat)
        self._n = 0  # results so far
        self._is_set_up = False

    def advance(self) -> ExperimentView:
        """Take what has been written since; returns the state of the experiment."""
        for record in self._reader.read():
            self.view.add((record,))
            self._tell(record)
        return self.view

    def _tell(self, record: AnyRecord) -> None:
        match record:
            case Opened() if not self._is_set_up:
                self._is_set_up = True
                space = record.definition.space
                self._call("setup", name=record.name, path=str(self._folder), space=space)
            case Launched(trial=number):
                self._about(number, "on_trial_start")
            case Reported(trial=number) if record.attempt == self.view.trials[number].attempt:
                self._n += 1
                result = self._make_result(self.view.trials[number], record.result)
                self._about(number, "on_trial_result", result=result)
                if record.checkpoint is not None:
                    self._about(number, "on_checkpoint", checkpoint=str(self._folder / record.checkpoint.path))
            case Became(trial=number, state="TERMINATED"):
                self._about(number, "on_trial_complete")
            case Became(trial=number, state="ERROR"):
                self._about(number, "on_trial_error")
            case Closed():
                self._call("on_experiment_end", trials=self.trials())
            case _:
                pass

    def _about(self, number: int, name: str, **more: Any) -> None:
        if self._callbacks:
            trials = self.trials()
            self._call(name, iteration=self._n, trials=trials, trial=trials[number], **more)

    def trials(self) -> list[Any]:
        """All trials, as callbacks get them."""
        return [self._make_info(trial, self.view) for trial in self.view.trials]

    def _call(self, name: str, /, **arguments: Any) -> None:
        for callback in self._callbacks:
            method = getattr(callback, name, None)
            if method is not None:
                method(**arguments)

    def _info(self, trial: TrialView, view: ExperimentView) -> TrialInfo:
        return TrialInfo(trial.number, trial.config, trial.state, trial.last, view.name, str(self._folder), trial.error)
