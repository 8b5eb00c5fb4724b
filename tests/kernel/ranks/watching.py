"""Looks at a kernel as a panel does: what it is told of ranks and their collectives."""

from __future__ import annotations

from typing import Any, Self

from cellmesh.kernel_ext.panel_messages import Collective, decode
from support.kernels import Kernel
from support.panel_replica import Replica


class Watching:
    """A panel that is open.

    Parameters
    ----------
    kernel : Kernel
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel, self._replica, self._n_read = kernel, Replica(), len(kernel.comm("watching"))

    def __enter__(self) -> Self:
        assert self._kernel.ask(op="open", comm_id="watching")["status"] == "ok"
        return self

    def __exit__(self, *about: Any) -> None:
        self._kernel.ask(op="close", comm_id="watching")

    def collectives(self) -> dict[int, list[Collective]]:
        """What is known by now, by rank, of ranks that are there."""
        messages = self._kernel.comm("watching")
        for message in messages[self._n_read :]:
            self._replica.apply(*decode(message["content"]["data"], message["buffers"]))
        self._n_read = len(messages)
        ranks = {actor.pid: actor.rank for actor in self._replica.labels["actors"].values() if actor.group}
        found: dict[int, list[Collective]] = {}
        for span in self._replica.collectives.values():
            rank = ranks.get(self._replica.labels["workers"][span.worker].pid)
            if rank is not None:
                found.setdefault(rank, []).append(span)
        return found
