"""`ray.util.scheduling_strategies`."""
from __future__ import annotations

from ....placement import (DoesNotExist, Exists, In, NodeAffinitySchedulingStrategy, NodeLabelSchedulingStrategy, NotIn,
                           PlacementGroupSchedulingStrategy)
from ... import missing as _missing

__all__ = ["DoesNotExist", "Exists", "In", "NodeAffinitySchedulingStrategy", "NodeLabelSchedulingStrategy", "NotIn", "PlacementGroupSchedulingStrategy"]
__getattr__ = _missing.no_such_name("ray.util.scheduling_strategies")
