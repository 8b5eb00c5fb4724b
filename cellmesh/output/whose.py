"""Whose task has printed: where several drivers have a session, each shows what its own tasks print, and theirs.

A line belongs to the driver that has submitted its task, or the task in which that was submitted, and so on; what an
actor prints, to whoever has called. All drivers show what no other that is there still has submitted: what is printed
beside calls, by tasks whose driver has gone, and by those that the event ring has forgotten.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

from ..exceptions import SessionError, StoreCorruptedError
from ..observe.history import submitters_of
from ..scheduler.ipc.messages import NodeEvent, WorkerOutput

if TYPE_CHECKING:
    from ..objstore._core import Client

P = TypeVar("P", WorkerOutput, NodeEvent, WorkerOutput | NodeEvent)

N_KEPT = 4096
UNKNOWN = -1


class OwnOutput:
    """Leaves out what tasks of other drivers print.

    Parameters
    ----------
    client : Client
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._drivers: OrderedDict[int, int] = OrderedDict()  # by task, the client that stands at the root

    def of(self, pieces: list[P]) -> list[P]:
        """Those of the pieces of output that this driver shows."""
        try:
            others = {
                row["index"] for row in self._client.clients() if row["role"] == "driver" and row["pid"] != os.getpid()
            }
            if not others:
                return pieces
            self._look_for({piece.task for piece in pieces if isinstance(piece, WorkerOutput)})
        except (SessionError, StoreCorruptedError):  # it has been lost
            return pieces
        return [
            piece
            for piece in pieces
            if not (isinstance(piece, WorkerOutput) and self._drivers.get(piece.task, UNKNOWN) in others)
        ]

    def _look_for(self, tasks: Iterable[int]) -> None:
        above = {task: task for task in tasks if task and task not in self._drivers}
        while above:
            known = submitters_of(self._client, set(above.values()))
            higher = {}
            for task, number in above.items():
                client, parent = known.get(number, (UNKNOWN, 0))
                if parent:
                    higher[task] = parent
                else:
                    self._drivers[task] = client
            above = higher
        while len(self._drivers) > N_KEPT:
            self._drivers.popitem(last=False)
