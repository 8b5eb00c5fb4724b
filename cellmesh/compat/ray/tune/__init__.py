"""`ray.tune`, with cellmesh.tune behind it (`from cellmesh.compat.ray import tune`); never a search of its own.

Names of today are Ray's; what there was in 2018 is in `legacy.py`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ....tune import TuneError as TuneError
from ....tune.space import grid_search as grid_search
from ... import missing as _missing
from .configs import CheckpointConfig as CheckpointConfig
from .configs import FailureConfig as FailureConfig
from .configs import PlacementGroupFactory as PlacementGroupFactory
from .configs import ResumeConfig as ResumeConfig
from .configs import RunConfig as RunConfig
from .configs import SyncConfig as SyncConfig
from .configs import TuneConfig as TuneConfig
from .reporting import Checkpoint as Checkpoint
from .reporting import TuneContext as TuneContext
from .reporting import get_checkpoint as get_checkpoint
from .reporting import get_context as get_context
from .reporting import report as report
from .search.sample import choice as choice
from .search.sample import lograndint as lograndint
from .search.sample import loguniform as loguniform
from .search.sample import qlograndint as qlograndint
from .search.sample import qloguniform as qloguniform
from .search.sample import qrandint as qrandint
from .search.sample import qrandn as qrandn
from .search.sample import quniform as quniform
from .search.sample import randint as randint
from .search.sample import randn as randn
from .search.sample import sample_from as sample_from
from .search.sample import uniform as uniform
from .trainables import Trainable as Trainable
from .trainables import register_env as register_env
from .trainables import register_trainable as register_trainable
from .trainables import with_parameters as with_parameters
from .trainables import with_resources as with_resources

if TYPE_CHECKING:
    from .analysis import ExperimentAnalysis as ExperimentAnalysis
    from .reporters import CLIReporter as CLIReporter
    from .reporters import JupyterNotebookReporter as JupyterNotebookReporter
    from .reporters import ProgressReporter as ProgressReporter
    from .results import Result as Result
    from .results import ResultGrid as ResultGrid
    from .running import Experiment as Experiment
    from .running import run as run
    from .running import run_experiments as run_experiments
    from .schedulers import create_scheduler as create_scheduler
    from .search import create_searcher as create_searcher
    from .stopper import Stopper as Stopper
    from .tuner import Tuner as Tuner
    from .watching import Callback as Callback

# What a trial does not need is imported when it is first asked for: name -> module.
_HOMES = {
    "ExperimentAnalysis": "analysis",
    **dict.fromkeys(("CLIReporter", "JupyterNotebookReporter", "ProgressReporter"), "reporters"),
    **dict.fromkeys(("Result", "ResultGrid"), "results"),
    **dict.fromkeys(("Experiment", "run", "run_experiments"), "running"),
    "create_scheduler": "schedulers",
    "create_searcher": "search",
    "Stopper": "stopper",
    "Tuner": "tuner",
    "Callback": "watching",
}
__all__ = [
    "CLIReporter",
    "Callback",
    "Checkpoint",
    "CheckpointConfig",
    "Experiment",
    "ExperimentAnalysis",
    "FailureConfig",
    "JupyterNotebookReporter",
    "PlacementGroupFactory",
    "ProgressReporter",
    "Result",
    "ResultGrid",
    "ResumeConfig",
    "RunConfig",
    "Stopper",
    "SyncConfig",
    "Trainable",
    "TuneConfig",
    "TuneContext",
    "TuneError",
    "Tuner",
    "choice",
    "create_scheduler",
    "create_searcher",
    "get_checkpoint",
    "get_context",
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
    "register_env",
    "register_trainable",
    "report",
    "run",
    "run_experiments",
    "sample_from",
    "uniform",
    "with_parameters",
    "with_resources",
]

_MODULES = ("schedulers", "search", "stopper", "logger", "registry", "result", "hyperband", "pbt")

_refuse = _missing.no_such_name("ray.tune")


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = globals()[name] = getattr(import_module(f".{_HOMES[name]}", __name__), name)
        return value
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    return _refuse(name)
