"""`ray.tune.search.concurrency_limiter`."""

from __future__ import annotations

from . import ConcurrencyLimiter as ConcurrencyLimiter
