"""`ray.tune.schedulers.trial_scheduler`."""

from __future__ import annotations

from . import FIFOScheduler as FIFOScheduler
from . import TrialScheduler as TrialScheduler
