"""Searchers in Ray Tune's shape as a `Search`.

Such a searcher knows trials by texts, suggests a part of the configuration, and may have a space of its own. What it
does not suggest comes from the experiment's space: constants as they are, domains that are left drawn by the trial's
own generator.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from ..space import same
from ..space.expand import check_num_samples, check_seed, generator_of
from ..space.resolve import resolve
from ..space.tree import checked, thaw
from .protocol import NoSuggestion, Search
from .searcher import FINISHED, Searcher


def merged(tree: Any, suggested: Any) -> Any:
    """A thawed tree with what was suggested in its place, key by key where both are dicts."""
    if not isinstance(tree, dict) or not isinstance(suggested, Mapping):
        return thaw(suggested)
    return {**tree, **{key: merged(tree.get(key), value) for key, value in suggested.items()}}


class SearcherAdapter(Search):
    """A searcher in Ray Tune's shape as what the controller asks.

    Parameters
    ----------
    searcher : object
        With `suggest(trial_id)` and `on_trial_complete(trial_id, result, error)`; what else `Searcher` has is used
        where it is there. `replay(trial_id, config)`, if there is one, is called when an experiment is resumed;
        otherwise the searcher is asked again, and told nothing of a trial for which it suggests something else than
        before.
    """

    def __init__(self, searcher: Any) -> None:
        self.searcher = searcher
        self._tree: dict[str, Any] = {}
        self._seed, self._num_samples, self._n_suggested = 0, 1, 0
        self._foreign: dict[
            int, Mapping[str, Any]
        ] = {}  # trials that the searcher does not know, and their configurations

    @property
    def metric(self) -> str | list[str] | None:
        """What the searcher optimises, if it says so."""
        return getattr(self.searcher, "metric", None)

    def begin(self, metric: str | None, mode: str, space: Mapping[str, Any], num_samples: int, seed: int) -> None:
        check_num_samples(num_samples)
        self._tree, self._num_samples, self._seed = checked(space), num_samples, check_seed(seed)
        take_over = getattr(self.searcher, "set_search_properties", None)
        if take_over is not None:
            take_over(metric, mode, dict(space), num_samples=num_samples, seed=seed)

    def count(self) -> int | None:
        return None if self._num_samples == -1 else self._num_samples

    def suggest(self, trial: int) -> dict[str, Any] | NoSuggestion:
        if self._n_suggested >= self._num_samples != -1:
            return NoSuggestion.FINISHED
        suggested = self._ask(trial)
        if isinstance(suggested, NoSuggestion):
            return suggested
        self._n_suggested += 1
        return resolve(merged(thaw(self._tree), suggested), generator_of(self._seed, trial))

    def _ask(self, trial: int) -> Mapping[str, Any] | NoSuggestion:
        suggested = self.searcher.suggest(self.id_of(trial))
        if suggested is None:
            return NoSuggestion.LATER
        if isinstance(suggested, str) and suggested == FINISHED:
            return NoSuggestion.FINISHED
        if not isinstance(suggested, Mapping):
            kind = type(self.searcher).__name__
            raise TypeError(
                f"{kind}.suggest returned {suggested!r}: a dict, None (not now) or {FINISHED!r} is expected"
            )
        return suggested

    def id_of(self, trial: int) -> str:
        """By what the searcher knows a trial."""
        return f"{trial:05d}"

    def on_trial_result(self, trial: int, result: Mapping[str, Any]) -> None:
        tell = getattr(self.searcher, "on_trial_result", None)
        if tell is not None and trial not in self._foreign:
            tell(self.id_of(trial), dict(result))

    def on_trial_end(self, trial: int, result: Mapping[str, Any] | None, failed: bool, pruned: bool = False) -> None:
        last = None if result is None else dict(result)
        if trial not in self._foreign:
            self.searcher.on_trial_complete(self.id_of(trial), result=last, error=failed)
            return
        config = self._foreign.pop(trial)
        add = getattr(self.searcher, "add_evaluated_point", None)
        if getattr(add, "__func__", None) is Searcher.add_evaluated_point:
            add = None  # which takes none
        if add is not None and last is not None and isinstance(self.metric, str) and self.metric in last:
            add(dict(config), last[self.metric], error=failed, pruned=pruned)

    def replay(self, trial: int, config: Mapping[str, Any]) -> None:
        self._n_suggested += 1
        own = getattr(self.searcher, "replay", None)
        if own is not None:
            own(self.id_of(trial), dict(config))
            return
        suggested = self._ask(trial)
        if isinstance(suggested, NoSuggestion) or not _is_part(suggested, config):
            self._foreign[trial] = config
            if len(self._foreign) == 1:
                warnings.warn(
                    f"{type(self.searcher).__name__} does not suggest for trial {trial} what it did before: results "
                    "of such trials do not reach it. Give it a method replay(trial_id, config), or a seed",
                    stacklevel=2,
                )


def _is_part(suggested: Any, config: Any) -> bool:
    if isinstance(suggested, Mapping) and isinstance(config, Mapping):
        return all(key in config and _is_part(value, config[key]) for key, value in suggested.items())
    return same(suggested, config)


def as_search(search: Any) -> Search:
    """A `Search` from one, or from a searcher in Ray Tune's shape.

    Raises
    ------
    TypeError
        It is neither.
    """
    if isinstance(search, Search):
        return search
    missing = [name for name in ("suggest", "on_trial_complete") if not callable(getattr(search, name, None))]
    if missing or isinstance(search, type):
        hint = "make an object of the class" if isinstance(search, type) else f"it has no {missing[0]}"
        raise TypeError(
            f"{search!r} is no searcher: {hint}. Give a name, such as 'optuna', or an object with "
            "suggest(trial_id) and on_trial_complete(trial_id, result, error)"
        )
    return SearcherAdapter(search)
