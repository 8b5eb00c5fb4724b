"""`ray.util.queue`."""

from __future__ import annotations

from typing import Any

from ....util import queue as _ours
from ....util.queue import Empty, Full

__all__ = ["Empty", "Full", "Queue"]


class Queue(_ours.Queue):
    """`cellmesh.util.Queue`; unless it is forced, its end waits for what it has been sent."""

    actor: Any  # a handle, and None once the queue has ended, as Ray's programs expect

    def shutdown(self, force: bool = False, grace_period_s: float = 5) -> None:
        """End the queue's actor; `actor` is None then."""
        if self.actor is not None:
            super().shutdown(force)
        self.actor = None
