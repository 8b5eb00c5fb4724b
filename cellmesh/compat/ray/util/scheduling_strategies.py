"""`ray.util.scheduling_strategies`."""
from __future__ import annotations

from ....placement import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy
from ... import missing as _missing

__all__ = ["NodeAffinitySchedulingStrategy", "PlacementGroupSchedulingStrategy"]
__getattr__ = _missing.no_such_name("ray.util.scheduling_strategies")
