"""`ray.util.queue`."""
from __future__ import annotations

from ....util import queue as _ours
from ....util.queue import Empty, Full

__all__ = ["Empty", "Full", "Queue"]


class Queue(_ours.Queue):
    """`cellmesh.util.Queue`; unless it is forced, its end waits for what it has been sent."""

    def shutdown(self, force: bool = False, grace_period_s: float = 5) -> None:
        """End the queue's actor."""
        super().shutdown(force)
