"""Whoever waits for an experiment: callbacks, the stop button, and exceptions before they are gone.

Ray runs an experiment in the driver, and so its callbacks. Here it has a process of its own. The driver follows its
journal while it waits, and calls them with what it reads, so that they can print, count and plot as they are used to.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ....tune import Experiment
from ....tune.exceptions import TuneError
from ....tune.loggers.replay import Replay
from ..exceptions import GetTimeoutError
from .trials import Trial, full_result

LOOK_EVERY_S = 0.1  # how late callbacks may hear


class Callback:
    """Subclasses implement what they want to hear of. They are called where `fit` or `run` waits.

    What they raise ends the experiment, and is raised there.
    """

    def setup(self, stop: Any = None, num_samples: Any = None, total_num_samples: Any = None, **info: Any) -> None:
        """Before the first trial."""

    def on_step_begin(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Before something is heard of a trial."""

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """After it."""

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """A trial begins, or begins again."""

    def on_trial_restore(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """A trial goes on from a checkpoint."""

    def on_trial_save(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """A trial has saved a checkpoint."""

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """A trial has reported."""

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """A trial has ended."""

    def on_trial_recover(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """A trial is tried again after a failure."""

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """A trial has failed for good."""

    def on_checkpoint(self, iteration: int, trials: list[Trial], trial: Trial, checkpoint: Any, **info: Any) -> None:
        """As `on_trial_save`, with the checkpoint."""

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        """The experiment is over."""

    def get_state(self) -> dict[str, Any] | None:
        """What `set_state` takes."""
        return None

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from what `get_state` gave."""


class _Steps:
    """Calls Ray's callbacks around what a replay says: the steps, and saves by both names."""

    def __init__(self, callback: Any, stop: Any, num_samples: int) -> None:
        self._callback, self._stop, self._num_samples = callback, stop, num_samples

    def setup(self, **info: Any) -> None:
        n = self._num_samples
        self._call("setup", stop=self._stop, num_samples=n, total_num_samples=n, experiment_name=info["name"])

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("on_"):
            raise AttributeError(name)

        def call(**arguments: Any) -> None:
            step = {key: arguments[key] for key in ("iteration", "trials") if key in arguments}
            trial: Any = arguments.get("trial")
            if "iteration" in step:
                self._call("on_step_begin", **step)
            if name == "on_trial_start" and trial._view.attempt > 1:
                self._call("on_trial_recover" if trial._view.n_failures else "on_trial_restore", **arguments)
            if name == "on_checkpoint":
                self._call("on_trial_save", **step, trial=trial)
            self._call(name, **arguments)
            if "iteration" in step:
                self._call("on_step_end", **step)

        return call

    def _call(self, name: str, /, **arguments: Any) -> None:
        method = getattr(self._callback, name, None)
        if method is not None:
            method(**arguments)


def attend(
    search: Experiment,
    callbacks: Sequence[Any] = (),
    *,
    stop: Any = None,
    num_samples: int = 1,
    name_creator: Any = None,
) -> dict[int, Exception]:
    """Wait for an experiment, calling callbacks meanwhile; returns what trials have failed with.

    Ctrl-C and the stop button end the experiment; what has been reported is kept, and this returns. A second one is
    raised.

    Raises
    ------
    TuneError
        The experiment could not go on.
    """
    folder = Path(search.path)
    last_words: dict[int, Exception] = {}
    replay = Replay(
        folder,
        [_Steps(callback, stop, num_samples) for callback in callbacks],
        lambda trial, view: Trial(trial, view, folder, name_creator=name_creator),
        full_result,
    )
    is_interrupted, failed = False, None
    while True:
        try:
            if callbacks:
                replay.advance()
            search.wait(LOOK_EVERY_S if callbacks else None)
            break
        except GetTimeoutError:
            continue
        except TuneError as error:  # it could not go on
            failed = error
            break
        except KeyboardInterrupt:
            if is_interrupted:
                raise
            is_interrupted = True
            search.stop(why="interrupted")
        except BaseException:  # a callback's: the experiment is not left to itself
            search.stop(why="a callback raised")
            search.wait()
            raise
    if callbacks:
        replay.advance()
    view = search.refresh()
    for trial in view.trials:
        if trial.state == "ERROR" and (error := search.exception(trial.number)) is not None:
            last_words[trial.number] = error
    if failed is not None and not last_words:  # else it was fail_fast, and the results say it
        raise failed
    return last_words
