"""What the programs of a session count and measure, added up: in each process until it is sent, in the local scheduler for good."""
from __future__ import annotations

from collections.abc import Iterable

from .messages import MAX_SERIES, Series

Key = tuple[str, str, tuple[tuple[str, str], ...]]


class Sums:
    """Series by name, kind and tags."""

    def __init__(self) -> None:
        self._series: dict[Key, Series] = {}

    def __len__(self) -> int:
        return len(self._series)

    def add(self, changes: Iterable[Series]) -> int:
        """Counters and histograms grow by a change, a gauge becomes it; how many there was no room for."""
        n_refused = 0
        for change in changes:
            key = change.name, change.kind, tuple(sorted(change.tags.items()))
            before = self._series.get(key)
            if before is None and len(self._series) >= MAX_SERIES:
                n_refused += 1
            elif before is None or change.kind == "gauge" or before.boundaries != change.boundaries:
                self._series[key] = change  # the first, or the first of its kind: it begins anew
            else:
                self._series[key] = Series(change.name, change.kind, change.description, change.tags, before.value + change.value,
                                           change.boundaries, [a + b for a, b in zip(before.counts, change.counts)])
        return n_refused

    def all(self) -> list[Series]:
        """By name and tags."""
        return [self._series[key] for key in sorted(self._series)]
