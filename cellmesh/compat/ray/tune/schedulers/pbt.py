"""`ray.tune.schedulers.pbt`."""

from __future__ import annotations

from . import PopulationBasedTraining as PopulationBasedTraining
from . import PopulationBasedTrainingReplay as PopulationBasedTrainingReplay
