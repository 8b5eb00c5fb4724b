"""Ray's `Tuner`, on ours."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ....tune import Experiment as _Search
from ....tune import Tuner as _Tuner
from ....tune import journal
from ....tune.exceptions import TuneError
from ....tune.experiment import folder_of
from ....tune.loggers.replay import Replay
from ....tune.running.resuming import MISSING, resume
from . import configs, watching
from .analysis import ExperimentAnalysis
from .configs import RunConfig, TuneConfig
from .results import ResultGrid
from .trainables import name_of, resolved


class Tuner:
    """Tries configurations of a function or class.

    Parameters
    ----------
    trainable : callable, Trainable subclass or str
        Or the name under which one was registered.
    param_space : dict, optional
    tune_config : TuneConfig, optional
    run_config : RunConfig, optional
    """

    def __init__(
        self,
        trainable: Any = None,
        *,
        param_space: Mapping[str, Any] | None = None,
        tune_config: TuneConfig | None = None,
        run_config: RunConfig | None = None,
    ) -> None:
        if trainable is None:
            raise TuneError("You need to provide a trainable to tune.")
        if hasattr(trainable, "as_trainable"):  # of `ray.train`
            trainable = trainable.as_trainable()
        if not isinstance(trainable, str) and not callable(trainable):
            raise TuneError(f"{trainable!r}: a trainable is a function of the configuration, a Trainable, or a name")
        self._trainable = resolved(trainable)
        self._name = name_of(trainable)
        self._space = dict(param_space or {})
        self._tune, self._run = tune_config or TuneConfig(), run_config or RunConfig()
        self._resume: dict[str, Any] | None = None
        self._grid: ResultGrid | None = None

    def fit(self) -> ResultGrid:
        """Run to the end, and return the results, also those of trials that have failed.

        Ctrl-C and the stop button end the experiment, and its results are returned.

        Raises
        ------
        TuneError
            The experiment could not be begun, or could not go on.
        """
        analysis = analysis_of(self.start(), self._run, self._tune)
        self._grid = ResultGrid(analysis)
        if (self._run.failure_config or configs.FailureConfig()).fail_fast == "raise" and self._grid.errors:
            raise self._grid.errors[0]
        return self._grid

    def start(self) -> _Search:
        """Begin, and return our handle at once: `search.stop()`, `search.wait()`, a live card in a notebook."""
        if self._resume is not None:
            return resume(trainable=self._trainable, **self._resume)
        run = configs.run_config(self._run)
        if run.name is not None:
            set_aside(folder_of(run.name, run.storage_path))
        return _Tuner(self._trainable, self._space, tune_config=configs.tune_config(self._tune), run_config=run).start()

    def get_results(self) -> ResultGrid:
        """The results of `fit`, or of the experiment that was restored.

        Raises
        ------
        RuntimeError
            Neither has been.
        """
        if self._grid is None and self._resume is not None:
            folder = folder_of(self._resume["name"], self._resume["storage_path"])
            view = Replay(folder, ()).advance()
            return ResultGrid(ExperimentAnalysis.of(folder, view, {}, self._tune.trial_name_creator))
        if self._grid is None:
            raise RuntimeError(
                "Can't return results as experiment has not been run, yet. Call `Tuner.fit()` to run the experiment "
                "first."
            )
        return self._grid

    @classmethod
    def restore(
        cls,
        path: str,
        trainable: Any,
        resume_unfinished: bool = True,
        resume_errored: bool = False,
        restart_errored: bool = False,
        param_space: Mapping[str, Any] | None = None,
        storage_filesystem: Any = None,
        _resume_config: Any = None,
        **again: Any,
    ) -> Tuner:
        """A tuner that goes on with an experiment.

        Parameters
        ----------
        path : str
            The experiment's folder.
        trainable
            What its trials run.
        resume_unfinished : bool
            True: trials that had not ended go on.
        resume_errored, restart_errored : bool
            Whether trials that have failed go on from their checkpoints, or begin again.
        **again
            `stop`, `scheduler`, `search_alg` and `callbacks`, where they are functions or objects of your own classes,
            which a journal cannot keep.

        Raises
        ------
        FileNotFoundError
            There is no experiment.
        ValueError
            resume_errored and restart_errored are both given.
        """
        if storage_filesystem is not None or not cls.can_restore(path):
            raise FileNotFoundError(f"no experiment of cellmesh lies in {path}, its folder on this machine")
        if resume_errored and restart_errored:
            raise ValueError("resume_errored=True, restart_errored=True: a trial either goes on or begins again")
        errored = configs.errored_of(_resume_config)
        if not resume_unfinished:
            raise TuneError("resume_unfinished=False: get_results() shows what there is, and fit() goes on with it")
        unknown = again.keys() - {"stop", "scheduler", "search_alg", "callbacks"}
        if unknown:
            raise TypeError(f"Tuner.restore() got an unexpected keyword argument {min(unknown)!r}")
        self = cls(trainable, run_config=RunConfig(callbacks=again.get("callbacks")))
        place = Path(configs.storage_of(path) or "").expanduser().absolute()
        self._resume = {
            "name": place.name,
            "storage_path": str(place.parent),
            "errored": "resume" if resume_errored else "restart" if restart_errored else errored,
            "param_space": param_space,
            "scheduler": again.get("scheduler"),
            "search_alg": again.get("search_alg"),
            "stop": configs.stop_of(again["stop"]) if "stop" in again else MISSING,
        }
        return self

    @classmethod
    def can_restore(cls, path: str | os.PathLike[str], storage_filesystem: Any = None) -> bool:
        """Whether an experiment lies there."""
        return journal.first_record(Path(configs.storage_of(path) or "").expanduser().absolute()) is not None


def analysis_of(search: _Search, run: RunConfig, tune: TuneConfig) -> ExperimentAnalysis:
    """Wait for an experiment, and look at it."""
    errors = watching.attend(
        search,
        run.callbacks or (),
        stop=run.stop,
        num_samples=tune.num_samples,
        name_creator=tune.trial_name_creator,
    )
    return ExperimentAnalysis.of(Path(search.path), search.refresh(), errors, tune.trial_name_creator, tune.mode)


def set_aside(folder: Path) -> None:
    """Make room for an experiment of a name that is taken: the earlier one is kept, as NAME-1, NAME-2, ...

    Raises
    ------
    ExperimentBusyError
        It runs.
    """
    if journal.first_record(folder) is None:
        return
    journal.Writer(folder).close()  # raises if somebody writes
    number = 1
    while (other := folder.with_name(f"{folder.name}-{number}")).exists():
        number += 1
    folder.rename(other)
