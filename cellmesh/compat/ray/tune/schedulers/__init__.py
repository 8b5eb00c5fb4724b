"""`ray.tune.schedulers`: ours under Ray's names; never a rule of its own."""

from __future__ import annotations

from typing import Any

from .....tune.schedulers import ASHAScheduler as ASHAScheduler
from .....tune.schedulers import AsyncHyperBandScheduler as AsyncHyperBandScheduler
from .....tune.schedulers import FIFOScheduler as FIFOScheduler
from .....tune.schedulers import HyperBandScheduler as HyperBandScheduler
from .....tune.schedulers import MedianStoppingRule as MedianStoppingRule
from .....tune.schedulers import PopulationBasedTraining as PopulationBasedTraining
from .....tune.schedulers import PopulationBasedTrainingReplay as PopulationBasedTrainingReplay
from .....tune.schedulers import Scheduler as TrialScheduler
from .....tune.schedulers import make as _make
from .... import missing as _missing

__all__ = [
    "ASHAScheduler",
    "AsyncHyperBandScheduler",
    "FIFOScheduler",
    "HyperBandScheduler",
    "MedianStoppingRule",
    "PopulationBasedTraining",
    "PopulationBasedTrainingReplay",
    "TrialScheduler",
    "create_scheduler",
]


def create_scheduler(scheduler: str, **kwargs: Any) -> TrialScheduler:
    """A scheduler by its name: "fifo", "async_hyperband", "hyperband", "median_stopping_rule", "pbt", "pbt_replay"."""
    return _make(scheduler, **kwargs)


__getattr__: _missing.NoSuchName = _missing.no_such_name("ray.tune.schedulers")
