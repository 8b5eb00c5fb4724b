"""`ray.util.scheduling_strategies`."""

from __future__ import annotations

from ....submit.scheduling_strategies import (
    DoesNotExist,
    Exists,
    In,
    NodeAffinitySchedulingStrategy,
    NodeLabelSchedulingStrategy,
    NotIn,
    PlacementGroupSchedulingStrategy,
)
from ... import missing as _missing

__all__ = [
    "DoesNotExist",
    "Exists",
    "In",
    "NodeAffinitySchedulingStrategy",
    "NodeLabelSchedulingStrategy",
    "NotIn",
    "PlacementGroupSchedulingStrategy",
]
__getattr__: _missing.NoSuchName = _missing.no_such_name("ray.util.scheduling_strategies")
