"""Searchers: which configurations are tried; never how long a trial runs, which is `schedulers`.

`protocol.py` is what the controller asks; `basic.py` goes through grids and draws at random, `optuna_search.py` asks
Optuna, `wrappers.py` has what goes around another searcher, `searcher.py` and `adapter.py` are for those in Ray Tune's
shape.
"""

from __future__ import annotations

from typing import NoReturn

from .adapter import SearcherAdapter as SearcherAdapter
from .adapter import as_search as as_search
from .basic import BasicVariantGenerator as BasicVariantGenerator
from .make import REFUSED as _REFUSED
from .make import from_description as from_description
from .make import make as make
from .make import refusal as _refusal
from .optuna_search import Optuna as Optuna
from .optuna_search import OptunaSearch as OptunaSearch
from .protocol import NoSuggestion as NoSuggestion
from .protocol import Search as Search
from .pruners import scheduler_of as scheduler_of
from .searcher import Searcher as Searcher
from .wrappers import ConcurrencyLimiter as ConcurrencyLimiter
from .wrappers import Repeater as Repeater


def __getattr__(name: str) -> NoReturn:
    raise (ImportError(_refusal(name)) if name in _REFUSED else AttributeError(f"{__name__} has no {name}"))
