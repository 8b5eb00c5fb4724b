"""`ray.tune.search`: ours under Ray's names; never a search of its own."""

from __future__ import annotations

from typing import Any

from .....tune.search import BasicVariantGenerator as BasicVariantGenerator
from .....tune.search import ConcurrencyLimiter as ConcurrencyLimiter
from .....tune.search import Repeater as Repeater
from .....tune.search import Search as SearchAlgorithm
from .....tune.search import Searcher as Searcher
from .....tune.search import make as _make
from .....tune.space import grid_search as grid_search
from .... import missing as _missing

__all__ = [
    "BasicVariantGenerator",
    "ConcurrencyLimiter",
    "Repeater",
    "SearchAlgorithm",
    "Searcher",
    "create_searcher",
    "grid_search",
]


def create_searcher(search_alg: str, **kwargs: Any) -> Any:
    """A searcher by its name: "random", "variant_generator" or "optuna"."""
    return _make(search_alg, **kwargs)


__getattr__: _missing.NoSuchName = _missing.no_such_name("ray.tune.search")
