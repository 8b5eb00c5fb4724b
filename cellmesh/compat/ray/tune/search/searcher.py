"""`ray.tune.search.searcher`."""

from __future__ import annotations

from . import Searcher as Searcher
