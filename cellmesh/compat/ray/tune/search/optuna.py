"""`ray.tune.search.optuna`."""

from __future__ import annotations

from .....tune.search import OptunaSearch as OptunaSearch

__all__ = ["OptunaSearch"]
