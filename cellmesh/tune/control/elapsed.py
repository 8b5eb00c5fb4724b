"""How long an experiment has run."""

from __future__ import annotations

from ..records import AnyRecord, Opened


class Elapsed:
    """The seconds in which an experiment was run, by all its controllers: each from its first record to its last one,
    as nobody knows when one has died.
    """

    def __init__(self) -> None:
        self.seconds: float = 0.0
        self._last: float | None = None

    def add(self, record: AnyRecord) -> None:
        """The next record of its journal."""
        if self._last is not None and not isinstance(record, Opened):
            self.seconds += max(0.0, record.at - self._last)
        self._last = record.at
