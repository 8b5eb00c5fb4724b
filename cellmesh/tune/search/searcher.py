"""`Searcher`: the base class of searchers in Ray Tune's shape, for whoever writes one or has one.

`adapter.py` makes it a `Search`, which is what the controller asks.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FINISHED = "FINISHED"


class Searcher:
    """Suggests configurations, and is told what became of them.

    A subclass has `suggest` and `on_trial_complete`, the rest where it is of use. Any other object with these two
    methods will do, too.

    Parameters
    ----------
    metric, mode : str or list of str, optional
        What is optimised, and "min" or "max"; otherwise the experiment's.
    """

    FINISHED: str = FINISHED

    def __init__(self, metric: str | list[str] | None = None, mode: str | list[str] | None = None) -> None:
        check_objectives(metric, mode)
        self._metric = metric
        self._mode = mode

    @property
    def metric(self) -> str | list[str] | None:
        """What is optimised."""
        return self._metric

    @property
    def mode(self) -> str | list[str] | None:
        """ "min" or "max"."""
        return self._mode

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any) -> bool:
        """Take over what the experiment says of metric, mode and space.

        `spec` has `num_samples` and `seed`. False: it has a space of its own already, so `config` is not looked at.
        """
        if self._metric is None:
            self._metric = metric
        if self._mode is None:
            self._mode = mode
        return False

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """The configuration of a trial; None: not now, `FINISHED`: none any more."""
        raise NotImplementedError(f"{type(self).__name__} has no suggest(trial_id)")

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """A trial has reported."""

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """A trial has ended with this last result, None if it never reported; `error`: it failed."""
        raise NotImplementedError(f"{type(self).__name__} has no on_trial_complete(trial_id, result, error)")

    def add_evaluated_point(
        self,
        parameters: dict[str, Any],
        value: float,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: Sequence[float] | None = None,
    ) -> None:
        """A configuration was tried elsewhere, with this value of the metric."""
        raise NotImplementedError(f"{type(self).__name__} takes no evaluated points")

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        """How many trials may run at a time; True: the searcher itself sees to that."""
        return False

    def get_state(self) -> dict[str, Any]:
        """What `set_state` takes."""
        return dict(vars(self))

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from what `get_state` gave."""
        vars(self).update(state)

    def save(self, checkpoint_path: str) -> None:
        """Write the state to a file, by pickle."""
        Path(checkpoint_path).write_bytes(pickle.dumps(self.get_state()))

    def restore(self, checkpoint_path: str) -> None:
        """Read what `save` wrote. A pickle runs code: read none but your own."""
        self.set_state(pickle.loads(Path(checkpoint_path).read_bytes()))


def check_objectives(metric: object, mode: object) -> None:
    """Refuse metrics and modes that do not fit each other; None of either is still to come."""
    for each in mode if isinstance(mode, (list, tuple)) else [mode]:
        if each not in ("min", "max") and mode is not None:
            raise ValueError(f'mode={mode!r}: {each!r} is neither "min" nor "max"')
    if metric is None or mode is None:
        return
    if isinstance(metric, str) != isinstance(mode, str):
        allowed = "one metric has one mode" if isinstance(metric, str) else "give a list of modes, one for each metric"
        raise ValueError(f"metric={metric!r}, mode={mode!r}: {allowed}")
    if isinstance(metric, (list, tuple)) and isinstance(mode, (list, tuple)) and len(metric) != len(mode):
        raise ValueError(f"{len(metric)} metrics, but {len(mode)} modes: give one for each metric")
