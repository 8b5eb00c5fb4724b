"""`Tuner`: what is tried, how, and with what."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from .. import front_end
from ..scheduler.node import private_dir
from ..text import closest
from . import journal, schedulers, search
from .callbacks import Callback, check_callbacks
from .control.actions import Plan
from .exceptions import ExperimentExistsError, TuneError
from .experiment import Experiment, folder_of
from .records import Definition
from .resources import Resources, options_of
from .running.launching import check_budget, check_room, launch, pickled, stop_interrupted, task_of
from .running.opening import Opening
from .running.resuming import opening_again
from .schedulers.protocol import Scheduler
from .space import count, to_json
from .space.tree import checked_dict
from .stoppers import stopper_of
from .trainable import check, is_class
from .watching.progress import show_progress

Mode = Literal["min", "max"]
NAME_ALLOWED = "letters, digits, and . _ - +"


@dataclass
class FailureConfig:
    """What becomes of failures.

    Attributes
    ----------
    max_failures : int
        How often a trial is tried again, from its checkpoint; -1: always.
    fail_fast : bool
        Whether the first trial that is given up ends the experiment.
    """

    max_failures: int = 0
    fail_fast: bool = False


@dataclass
class CheckpointConfig:
    """Which checkpoints are kept, and when a `Trainable` writes them.

    Attributes
    ----------
    num_to_keep : int, optional
        The latest ones of each trial, beside its best one; None: all.
    checkpoint_score_attribute : str, optional
        The metric of the best one; the experiment's unless given.
    checkpoint_score_order : str
        "max" or "min".
    checkpoint_frequency : int
        Every so many steps; 0: only to pause.
    checkpoint_at_end : bool
        Whether the last step is followed by one.
    """

    num_to_keep: int | None = 1
    checkpoint_score_attribute: str | None = None
    checkpoint_score_order: Mode = "max"
    checkpoint_frequency: int = 0
    checkpoint_at_end: bool = False


@dataclass
class RunConfig:
    """How an experiment runs.

    Attributes
    ----------
    name : str, optional
        The function's name and a number, unless given.
    storage_path : str, optional
        The folder in which the experiment's folder lies.
    stop : dict, callable, Stopper or list of those, optional
    failure_config : FailureConfig, optional
    checkpoint_config : CheckpointConfig, optional
    callbacks : list of Callback, optional
    verbose : int
        0: `fit` prints nothing.
    """

    name: str | None = None
    storage_path: str | None = None
    stop: Any = None
    failure_config: FailureConfig | None = None
    checkpoint_config: CheckpointConfig | None = None
    callbacks: Sequence[Callback] | None = None
    verbose: int = 1


@dataclass
class TuneConfig:
    """What is looked for, and how.

    Attributes
    ----------
    metric : str, optional
    mode : str
        "min" or "max".
    search_alg : Search, Searcher or str, optional
    scheduler : Scheduler or str, optional
        "fifo", "asha", "hyperband", "median" or "pbt", or one of them with options of its own.
    num_samples : int
        How often the space is drawn from; -1: until something ends the experiment.
    max_concurrent_trials : int, optional
    time_budget_s : float, optional
    seed : int, optional
        Of everything that is drawn. A trial's draws follow from it and the trial's number alone.
    """

    metric: str | None = None
    mode: Mode = "max"
    search_alg: Any = None
    scheduler: Any = None
    num_samples: int = 1
    max_concurrent_trials: int | None = None
    time_budget_s: float | None = None
    seed: int | None = None


# Short names of what stands in the configurations: `Tuner(f, space, metric="loss", name="digits")`.
SHORT: dict[str, tuple[type[Any], str]] = {
    **{field.name: (TuneConfig, field.name) for field in fields(TuneConfig)},
    **{field.name: (RunConfig, field.name) for field in fields(RunConfig) if not field.name.endswith("_config")},
    **{field.name: (FailureConfig, field.name) for field in fields(FailureConfig)},
    **{field.name: (CheckpointConfig, field.name) for field in fields(CheckpointConfig)},
    "max_concurrent": (TuneConfig, "max_concurrent_trials"),
}


class Tuner:
    """Tries configurations of a function or class.

        search = tune.Tuner(train, {"lr": tune.loguniform(1e-4, 1e-1)}, metric="accuracy", num_samples=40).start()

    Parameters
    ----------
    trainable : callable or Trainable subclass
        A function of the configuration that calls `report`, returns a dict of metrics, or yields such dicts; or a class
        with steps; or a Trainer of `cellmesh.train`.
    param_space : dict, optional
        Values and domains (`uniform`, `choice`, `grid_search`, ...), nested as the configuration is.
    tune_config : TuneConfig, optional
    run_config : RunConfig, optional
    resources : dict, PlacementGroupFactory or callable, optional
        Of each trial: {"cpu": 2, "gpu": 1, "memory": bytes} and others by name; one CPU unless given. Several bundles
        of them, for a trial that submits tasks of its own; or a function of the configuration that says what its trial
        takes.
    if_exists : str
        What becomes of an experiment of the same name: "error", "replace" it if it is over, or "resume".
    **short
        What stands in the two configurations, and in those inside, by its name: metric, mode, num_samples, seed,
        scheduler, search_alg, max_concurrent, time_budget_s, name, storage_path, stop, callbacks, max_failures,
        fail_fast, num_to_keep, ...

    Raises
    ------
    TypeError, ValueError
        An argument is unknown, or has a value that it does not take.
    """

    param_space: dict[str, Any]
    tune_config: TuneConfig
    run_config: RunConfig
    resources: Any

    def __init__(
        self,
        trainable: Any,
        param_space: Mapping[str, Any] | None = None,
        *,
        tune_config: TuneConfig | None = None,
        run_config: RunConfig | None = None,
        resources: Resources | Callable[[dict[str, Any]], Resources] | None = None,
        if_exists: Literal["error", "replace", "resume"] = "error",
        **short: Any,
    ) -> None:
        if hasattr(trainable, "as_trainable"):  # a Trainer, whose ranks are a trial together
            trainable = trainable.as_trainable()
        check(trainable)
        if if_exists not in ("error", "replace", "resume"):
            raise ValueError(f"if_exists={if_exists!r}: it is 'error', 'replace' or 'resume'")
        self.trainable = trainable
        self.param_space = dict({} if param_space is None else checked_dict(param_space))
        self.tune_config, self.run_config = _configured(tune_config or TuneConfig(), run_config or RunConfig(), short)
        self.resources = resources if resources is not None else getattr(trainable, "_cellmesh_resources", None)
        self.if_exists = if_exists
        self._check()

    def _check(self) -> None:
        t = self.tune_config
        count(self.param_space, t.num_samples)  # which looks at the space
        if t.mode not in ("min", "max"):
            raise ValueError(f"mode={t.mode!r}: it is 'min' or 'max'")
        if t.max_concurrent_trials is not None and t.max_concurrent_trials < 1:
            raise ValueError(f"max_concurrent_trials={t.max_concurrent_trials}: it is 1 or more")
        if t.time_budget_s is not None:
            check_budget(t.time_budget_s)
        stopper_of(self.run_config.stop)  # which looks at it
        check_callbacks(self.run_config.callbacks)
        if not callable(self.resources):
            options_of(self.resources)
        self._check_failures_and_checkpoints()
        if self.run_config.name is not None and not re.fullmatch(r"[\w.+-]{1,100}", self.run_config.name):
            raise ValueError(
                f"name={self.run_config.name!r}: an experiment's name has 1 to 100 characters: {NAME_ALLOWED}"
            )

    def _check_failures_and_checkpoints(self) -> None:
        f, c = self.run_config.failure_config or FailureConfig(), self.run_config.checkpoint_config
        if f.max_failures < -1:
            raise ValueError(f"max_failures={f.max_failures}: it is 0 or more, or -1 for no limit")
        if c is None:
            return
        if c.num_to_keep is not None and c.num_to_keep < 1:
            raise ValueError(f"num_to_keep={c.num_to_keep}: it is 1 or more, or None for all")
        if c.checkpoint_frequency < 0:
            raise ValueError(f"checkpoint_frequency={c.checkpoint_frequency}: it is 0 or more steps")
        if c.checkpoint_score_order not in ("min", "max"):
            raise ValueError(f"checkpoint_score_order={c.checkpoint_score_order!r}: it is 'min' or 'max'")

    # ---- running
    def start(self, detached: bool | None = None) -> Experiment:
        """Begin, and return at once.

        Parameters
        ----------
        detached : bool, optional
            Whether the experiment goes on when this process ends. `tune.attach(name)` finds it from the next run.
            Unless it is said, it does in a notebook at which somebody sits, and does not elsewhere.

        Raises
        ------
        ExperimentExistsError
            There is an experiment of that name.
        TuneError
            No machine has the resources that a trial takes.
        """
        return self._start(detached)

    def fit(self) -> Experiment:
        """Run to the end, and return the results. Ctrl-C and the stop button stop the experiment, and its results are
        kept.
        """
        return see_through(self._start(detached=False), self.run_config.verbose)

    def _start(self, detached: bool | None) -> Experiment:
        t, r = self.tune_config, self.run_config
        failures, checkpoints = r.failure_config or FailureConfig(), r.checkpoint_config or CheckpointConfig()
        scheduler, searcher = schedulers.make(t.scheduler), search.make(t.search_alg or "random")
        decides = searcher.is_adaptive or not schedulers.is_fifo(scheduler)
        metric, mode = _agreed(scheduler, t)
        if decides and metric is None:
            raise ValueError(
                "metric: the scheduler or the searcher decides by one, so name a metric that the trials report"
            )
        if t.num_samples == -1 and scheduler.needs_count:
            raise ValueError(
                f"num_samples=-1: {type(scheduler).__name__} is for a population, so give its size, such as 20"
            )
        can_save = is_class(self.trainable) and self.trainable.can_save()
        frequency = checkpoints.checkpoint_frequency or int(can_save and scheduler.needs_checkpoints)
        resources = False if callable(self.resources) else options_of(self.resources)
        plan = Plan(
            metric=metric,
            mode=mode,
            max_failures=failures.max_failures,
            fail_fast=failures.fail_fast,
            can_save=can_save,
            num_to_keep=checkpoints.num_to_keep,
            score_by=checkpoints.checkpoint_score_attribute,
            score_mode=checkpoints.checkpoint_score_order if checkpoints.checkpoint_score_attribute else None,
            needs_metric=decides,
            takes_group=resources is not False and "bundles" in resources,
            ahead=0 if searcher.is_adaptive and t.max_concurrent_trials == 1 else 1,
        )
        definition = Definition(
            trainable=getattr(self.trainable, "__name__", type(self.trainable).__name__),
            space=to_json(self.param_space),
            scheduler=schedulers.describe(scheduler),
            search=searcher.describe(),
            stop=dict(r.stop) if isinstance(r.stop, Mapping) else None if r.stop is None else False,
            num_samples=t.num_samples,
            seed=random.SystemRandom().getrandbits(32) if t.seed is None else t.seed,
            resources=resources,
            max_concurrent=t.max_concurrent_trials,
            time_budget_s=t.time_budget_s,
            checkpoint_frequency=frequency,
            checkpoint_at_end=checkpoints.checkpoint_at_end,
        )
        check_room(resources)
        code = pickled(self.trainable)
        folder = self._folder()
        if journal.first_record(folder) is not None:  # if_exists="resume"
            again = opening_again(
                folder.name,
                self.trainable,
                param_space=self.param_space,
                scheduler=scheduler,
                search_alg=searcher,
                stop=r.stop,
                resources=self.resources,
                time_budget_s=t.time_budget_s,
                callbacks=r.callbacks,
                storage_path=r.storage_path,
            )
            return launch(again, detached, r.verbose)
        opening = Opening(
            folder=str(folder),
            plan=plan,
            definition=definition,
            code=code,
            run=task_of(self.trainable, definition, folder.name),
            scheduler=scheduler,
            search=searcher,
            stopper=stopper_of(r.stop),
            space=self.param_space,
            resources=self.resources if resources is False else None,
            callbacks=list(r.callbacks or ()),
        )
        return launch(opening, detached, r.verbose)

    def _folder(self) -> Path:
        """Make the experiment's folder."""
        try:
            return self._new_folder()
        except TuneError:  # there is one
            raise
        except OSError as error:
            storage = folder_of("x", self.run_config.storage_path).parent
            raise type(error)(
                error.errno,
                f"the experiment's folder cannot be made in {storage}: {error.strerror}. Another place is "
                "Tuner(..., storage_path=...)",
                error.filename,
            ) from None

    def _new_folder(self) -> Path:
        r = self.run_config
        base = getattr(self.trainable, "__name__", type(self.trainable).__name__)
        if r.name is None:
            base = re.sub(r"[^\w.+-]+", "", base) or "experiment"
            number = 1
            private_dir.make_with_parents(str(folder_of(base, r.storage_path).parent))
            while True:
                folder = folder_of(f"{base}-{number}", r.storage_path)
                try:
                    folder.mkdir(mode=0o700)
                except FileExistsError:
                    number += 1
                else:
                    return folder
        folder = folder_of(r.name, r.storage_path)
        if journal.first_record(folder) is not None:
            if self.if_exists == "replace":
                journal.Writer(folder).close()  # raises if somebody writes
                shutil.rmtree(folder)
            elif self.if_exists == "error":
                raise ExperimentExistsError(
                    f"there is an experiment {r.name!r} in {folder.parent}. tune.attach({r.name!r}) shows it, "
                    f"tune.resume({r.name!r}) goes "
                    f"on with it; another name, or Tuner(..., if_exists='replace'), begins a new one"
                )
        private_dir.make_with_parents(str(folder))
        return folder


def see_through(experiment: Experiment, verbose: int = 1) -> Experiment:
    """Wait until it is over, and show how far it is; Ctrl-C and the stop button end it."""
    refresh = None
    try:
        if verbose and not front_end.current.shows_experiments:
            refresh = show_progress(experiment)
        return experiment.wait()
    except KeyboardInterrupt:
        stop_interrupted(experiment, verbose)
        raise
    finally:
        if refresh is not None:
            refresh()


def _configured(tune: TuneConfig, run: RunConfig, short: Mapping[str, Any]) -> tuple[TuneConfig, RunConfig]:
    """The configurations with what was given by short names."""
    given: dict[type[Any], dict[str, Any]] = {}
    for name, value in short.items():
        if name not in SHORT:
            close = closest(name, SHORT)
            raise TypeError(
                f"Tuner({name}=...): there is no such argument"
                + (f"; did you mean {close}=?" if close else f"; there are {', '.join(SHORT)}")
            )
        kind, field = SHORT[name]
        given.setdefault(kind, {})[field] = value
    tune = replace(tune, **given.get(TuneConfig, {}))
    run = replace(run, **given.get(RunConfig, {}))
    if FailureConfig in given:
        run = replace(run, failure_config=replace(run.failure_config or FailureConfig(), **given[FailureConfig]))
    if CheckpointConfig in given:
        run = replace(
            run, checkpoint_config=replace(run.checkpoint_config or CheckpointConfig(), **given[CheckpointConfig])
        )
    return tune, run


def _agreed(scheduler: Scheduler, tune: TuneConfig) -> tuple[str | None, Mode]:
    """The experiment's metric and mode: a scheduler may have been made for some."""
    metric, mode = getattr(scheduler, "wanted", (None, None))
    return tune.metric or metric, mode if mode and tune.metric is None else tune.mode
