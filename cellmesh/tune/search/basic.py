"""`BasicVariantGenerator`: grids and random values, the searcher where none is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..space import Expansion, from_json, to_json, unstored
from .protocol import NoSuggestion, Search

if TYPE_CHECKING:
    import numpy as np


class BasicVariantGenerator(Search):
    """Goes through the grid, `num_samples` times, and draws everything else.

    Parameters
    ----------
    points_to_evaluate : sequence of dict, optional
        Values of some or all parameters, which come first; each takes the place of one sample.
    random_state : int, numpy.random.Generator or numpy.random.RandomState, optional
        A seed of its own; otherwise the experiment's.
    constant_grid_search : bool
        Draw values once for each time that the grid is gone through, and not for each trial.
    max_concurrent : int
        How many of its trials may be under way at a time; 0: as many as there is room for.

    Notes
    -----
    A configuration depends on the seed and the trial's number alone.
    """

    is_adaptive: bool = False

    def __init__(
        self,
        points_to_evaluate: Sequence[Mapping[str, Any]] | None = None,
        *,
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
        constant_grid_search: bool = False,
        max_concurrent: int = 0,
    ) -> None:
        if max_concurrent < 0:
            raise ValueError(f"max_concurrent={max_concurrent}: give a number above 0, or 0 for no limit")
        self.points_to_evaluate: list[Mapping[str, Any]] = list(points_to_evaluate or ())
        self.random_state: int | None = _seed_of(random_state)
        self.constant_grid_search: bool = constant_grid_search
        self.max_concurrent: int = max_concurrent
        self._expansion = Expansion({})
        self._live: set[int] = set()

    def begin(self, metric: str | None, mode: str, space: Mapping[str, Any], num_samples: int, seed: int) -> None:
        own = seed if self.random_state is None else self.random_state
        self._expansion = Expansion(space, num_samples, own, self.points_to_evaluate, self.constant_grid_search)

    def count(self) -> int | None:
        return self._expansion.count()

    def suggest(self, trial: int) -> dict[str, Any] | NoSuggestion:
        if 0 < self.max_concurrent <= len(self._live):
            return NoSuggestion.LATER
        _, config = next(self._expansion, (0, None))
        if config is None:
            return NoSuggestion.FINISHED
        self._live.add(trial)
        return config

    def on_trial_end(self, trial: int, result: Mapping[str, Any] | None, failed: bool, pruned: bool = False) -> None:
        self._live.discard(trial)

    def replay(self, trial: int, config: Mapping[str, Any]) -> None:
        self._expansion.skip()
        self._live.add(trial)

    def describe(self) -> dict[str, Any] | None:
        points = to_json([dict(point) for point in self.points_to_evaluate])
        if any(unstored(points)):
            return None
        return {
            "kind": "random",
            "points_to_evaluate": points,
            "random_state": self.random_state,
            "constant_grid_search": self.constant_grid_search,
            "max_concurrent": self.max_concurrent,
        }

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> BasicVariantGenerator:
        """The searcher that gave this description."""
        options = {key: value for key, value in description.items() if key != "kind"}
        return cls(from_json(options.pop("points_to_evaluate")), **options)


def _seed_of(random_state: int | np.random.Generator | np.random.RandomState | None) -> int | None:
    if random_state is None or isinstance(random_state, int):
        return random_state
    import numpy as np

    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(1 << 63))
    return int(random_state.randint(1 << 31)) if isinstance(random_state, np.random.RandomState) else random_state
