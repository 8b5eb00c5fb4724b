"""Sums of what the programs of a session count and measure. Each process adds up until it sends its changes; the local
scheduler keeps the sums for good.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..ipc.messages import MAX_MESSAGE_BYTES, MAX_SERIES, Series

MAX_BYTES = MAX_MESSAGE_BYTES - 1024  # of all series: one message holds them
NUMBER_BYTES, TEXT_BYTES = 9, 5  # at most: a number; what stands before a text
Key = tuple[str, str, tuple[tuple[str, str], ...]]


class Sums:
    """Series by name, kind and tags."""

    def __init__(self) -> None:
        self._series: dict[Key, Series] = {}
        self._n_bytes = 0

    def __len__(self) -> int:
        return len(self._series)

    def add(self, changes: Iterable[Series]) -> int:
        """Add changes to counters and histograms, and set gauges; the number of changes that there was no room for."""
        n_refused = 0
        for change in changes:
            key = change.name, change.kind, tuple(sorted(change.tags.items()))
            before = self._series.get(key)
            n_more = _n_bytes(change) - (0 if before is None else _n_bytes(before))
            if (before is None and len(self._series) >= MAX_SERIES) or (
                n_more > 0 and self._n_bytes + n_more > MAX_BYTES
            ):
                n_refused += 1
                continue
            self._n_bytes += n_more
            if before is None or change.kind == "gauge" or before.boundaries != change.boundaries:
                self._series[key] = change  # the first, or the first with these boundaries
            else:
                self._series[key] = Series(
                    change.name,
                    change.kind,
                    change.description,
                    change.tags,
                    before.value + change.value,
                    change.boundaries,
                    [a + b for a, b in zip(before.counts, change.counts, strict=False)],
                )
        return n_refused

    def all(self) -> list[Series]:
        """By name and tags."""
        return [self._series[key] for key in sorted(self._series)]


def _n_bytes(series: Series) -> int:
    """At most, in a message."""
    texts = series.name, series.kind, series.description, *series.tags, *series.tags.values()
    # The names of fields take less than a number and a text each.
    n_numbers = 1 + 2 * len(Series.__struct_fields__) + len(series.boundaries) + len(series.counts)
    return n_numbers * NUMBER_BYTES + sum(
        TEXT_BYTES + (len(text) if text.isascii() else 4 * len(text)) for text in texts
    )
