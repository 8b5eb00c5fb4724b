"""`ray.tune.stopper`."""

from __future__ import annotations

from ....tune.stoppers import CombinedStopper as CombinedStopper
from ....tune.stoppers import ExperimentPlateauStopper as ExperimentPlateauStopper
from ....tune.stoppers import FunctionStopper as FunctionStopper
from ....tune.stoppers import MaximumIterationStopper as MaximumIterationStopper
from ....tune.stoppers import NoopStopper as NoopStopper
from ....tune.stoppers import Stopper as Stopper
from ....tune.stoppers import TimeoutStopper as TimeoutStopper
from ....tune.stoppers import TrialPlateauStopper as TrialPlateauStopper
from ... import missing as _missing

__all__ = [
    "CombinedStopper",
    "ExperimentPlateauStopper",
    "FunctionStopper",
    "MaximumIterationStopper",
    "NoopStopper",
    "Stopper",
    "TimeoutStopper",
    "TrialPlateauStopper",
]
__getattr__: _missing.NoSuchName = _missing.no_such_name("ray.tune.stopper")
