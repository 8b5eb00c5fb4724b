"""In the place of an actor's process: calls run in it until a test has them end."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from typing import Any

from cellmesh.engines.interface import Outcome, Over


class Slow:
    """See above. `running`: by their data."""

    def __init__(self, ended: Callable[[int], None]) -> None:
        self._ended = ended
        self.running: dict[bytes, Over] = {}

    def run(self, data: bytes, blobs: Sequence[Any], over: Over) -> None:
        """One begins."""
        self.running[data] = over

    def hear(self, message: bytes) -> None:
        """A call ends, as it is told so."""
        self.running.pop(message)(Outcome(message))

    def end(self, force: bool) -> None:
        """It ends."""
        self._ended(-signal.SIGKILL if force else 0)
        for over in self.running.values():
            over(None)
