"""Counters, gauges and histograms; `cellmesh.state.metrics()` and `cellmesh metrics` show them."""

from __future__ import annotations

from ..observe.metrics import Counter, Gauge, Histogram

__all__ = ["Counter", "Gauge", "Histogram"]
