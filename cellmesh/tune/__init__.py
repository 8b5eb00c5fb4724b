"""Tune: tries configurations of a function, many at a time, and stops the bad ones early; never a scheduler of tasks.

    from cellmesh import tune

    def train(config):
        for epoch in range(27):
            tune.report(accuracy=...)

    search = tune.Tuner(train, {"lr": tune.loguniform(1e-4, 1e-1)}, metric="accuracy", num_samples=40,
                        scheduler="asha", name="digits").start()
    search.wait().best.config

`space/` has what is tried, `search/` who proposes it, `schedulers/` who stops it; `controller.py` decides, `host.py`
performs, `journal.py` keeps. Everything is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .callbacks import Callback as Callback
    from .checkpoint import Checkpoint as Checkpoint
    from .exceptions import ExperimentBusyError as ExperimentBusyError
    from .exceptions import ExperimentExistsError as ExperimentExistsError
    from .exceptions import ExperimentNotFoundError as ExperimentNotFoundError
    from .exceptions import JournalError as JournalError
    from .exceptions import StopTrial as StopTrial
    from .exceptions import TuneError as TuneError
    from .exceptions import TuneWarning as TuneWarning
    from .experiment import Experiment as Experiment
    from .experiment import attach as attach
    from .experiment import delete as delete
    from .experiment import experiments as experiments
    from .reporting import get_checkpoint as get_checkpoint
    from .reporting import get_context as get_context
    from .reporting import report as report
    from .resources import PlacementGroupFactory as PlacementGroupFactory
    from .results import Result as Result
    from .results import ResultGrid as ResultGrid
    from .running.resuming import resume as resume
    from .schedulers import ASHA as ASHA
    from .schedulers import FIFO as FIFO
    from .schedulers import PBT as PBT
    from .schedulers import HyperBand as HyperBand
    from .schedulers import MedianStopping as MedianStopping
    from .schedulers import PBTReplay as PBTReplay
    from .schedulers.protocol import Scheduler as Scheduler
    from .search import BasicVariantGenerator as BasicVariantGenerator
    from .search import ConcurrencyLimiter as ConcurrencyLimiter
    from .search import Optuna as Optuna
    from .search import Repeater as Repeater
    from .search import Search as Search
    from .search import Searcher as Searcher
    from .space import SpaceError as SpaceError
    from .space import choice as choice
    from .space import grid_search as grid_search
    from .space import lograndint as lograndint
    from .space import loguniform as loguniform
    from .space import qlograndint as qlograndint
    from .space import qloguniform as qloguniform
    from .space import qrandint as qrandint
    from .space import qrandn as qrandn
    from .space import quniform as quniform
    from .space import randint as randint
    from .space import randn as randn
    from .space import sample_from as sample_from
    from .space import uniform as uniform
    from .stoppers import CombinedStopper as CombinedStopper
    from .stoppers import ExperimentPlateauStopper as ExperimentPlateauStopper
    from .stoppers import FunctionStopper as FunctionStopper
    from .stoppers import MaximumIterationStopper as MaximumIterationStopper
    from .stoppers import NoopStopper as NoopStopper
    from .stoppers import Stopper as Stopper
    from .stoppers import TimeoutStopper as TimeoutStopper
    from .stoppers import TrialPlateauStopper as TrialPlateauStopper
    from .trainable import Trainable as Trainable
    from .trainable import with_parameters as with_parameters
    from .trainable import with_resources as with_resources
    from .tuner import CheckpointConfig as CheckpointConfig
    from .tuner import FailureConfig as FailureConfig
    from .tuner import RunConfig as RunConfig
    from .tuner import TuneConfig as TuneConfig
    from .tuner import Tuner as Tuner

# public name -> the module that defines it
_HOMES = {
    **dict.fromkeys(("attach", "delete", "experiments", "Experiment"), "experiment"),
    **dict.fromkeys(("get_checkpoint", "get_context", "report"), "reporting"),
    **dict.fromkeys(("Result", "ResultGrid"), "results"),
    **dict.fromkeys(
        (
            "ExperimentBusyError",
            "ExperimentExistsError",
            "ExperimentNotFoundError",
            "JournalError",
            "StopTrial",
            "TuneError",
            "TuneWarning",
        ),
        "exceptions",
    ),
    **dict.fromkeys(("ASHA", "FIFO", "PBT", "HyperBand", "MedianStopping", "PBTReplay"), "schedulers"),
    "Scheduler": "schedulers.protocol",
    **dict.fromkeys(
        ("BasicVariantGenerator", "ConcurrencyLimiter", "Optuna", "Repeater", "Search", "Searcher"), "search"
    ),
    **dict.fromkeys(
        (
            "SpaceError",
            "choice",
            "grid_search",
            "lograndint",
            "loguniform",
            "qlograndint",
            "qloguniform",
            "qrandint",
            "qrandn",
            "quniform",
            "randint",
            "randn",
            "sample_from",
            "uniform",
        ),
        "space",
    ),
    **dict.fromkeys(
        (
            "CombinedStopper",
            "ExperimentPlateauStopper",
            "FunctionStopper",
            "MaximumIterationStopper",
            "NoopStopper",
            "Stopper",
            "TimeoutStopper",
            "TrialPlateauStopper",
        ),
        "stoppers",
    ),
    **dict.fromkeys(("Trainable", "with_parameters", "with_resources"), "trainable"),
    **dict.fromkeys(("CheckpointConfig", "FailureConfig", "RunConfig", "TuneConfig", "Tuner"), "tuner"),
    "Callback": "callbacks",
    "PlacementGroupFactory": "resources",
    "Checkpoint": "checkpoint",
    "resume": "running.resuming",
}

__all__ = [*_HOMES]  # noqa: PLE0604 (the names are those of the table)


def _have_workers_import() -> None:
    """Have this machine's workers import what an experiment runs in them, while this process imports the rest."""
    from ..session.current import current_or_none
    from ..util.preloading import preload

    if current_or_none() is not None:
        preload(f"{__name__}.running.host", f"{__name__}.trainable")


if not TYPE_CHECKING:  # for whom any name would be there then

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            hint = "" if name.startswith("_") else "; names of Ray Tune are in cellmesh.compat.ray.tune"
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
        if name == "Tuner":
            _have_workers_import()
        value = globals()[name] = getattr(import_module(f".{_HOMES[name]}", __name__), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
