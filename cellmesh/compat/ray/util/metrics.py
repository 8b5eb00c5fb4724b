"""`ray.util.metrics`."""
from __future__ import annotations

from ....metrics import Counter, Gauge, Histogram
from ... import missing as _missing

__all__ = ["Counter", "Gauge", "Histogram"]
__getattr__ = _missing.no_such_name("ray.util.metrics")
