"""The other machines of a session: their numbers, the processes there that run its tasks, transfers, losses. Pure.

Events name a machine by the last 32 bits of its number, and a process by its pid there, which may be a pid of this
machine too. So machines get small numbers here (0 is this machine), and remote processes get numbers that no client
slot has.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..panel_messages import FIRST_REMOTE_WORKER, NO_WORKER
from .tables import NEVER

N_WORKERS_MAX = (1 << 16) - FIRST_REMOTE_WORKER
N_LOST_MAX = 1 << 14  # attempts that a lost machine took along
N_TRANSFERS_MAX = 1 << 14


@dataclass
class Journey:
    """An object's bytes on their way between this machine and `node`.

    Times are in ticks; `ended` is 0 while they travel.
    """

    creator: int
    node: int
    comes: bool
    size: int
    began: int
    ended: int = 0
    complete: bool = False


def lost_columns() -> dict[str, np.ndarray]:
    """Room for attempts that were lost with a machine, for `_fold`."""
    return {
        "lost_entry": np.zeros(N_LOST_MAX, np.int32),
        "lost_node": np.zeros(N_LOST_MAX, np.uint32),
        "lost_pid": np.zeros(N_LOST_MAX, np.uint32),
        **{name: np.zeros(N_LOST_MAX, np.uint64) for name in ("lost_sent", "lost_began", "lost_at")},
        "n_lost": np.zeros(1, np.int64),
    }


class RemoteNodes:
    """Machines, processes and journeys.

    Attributes
    ----------
    workers : list of (node, pid)
        By number less `FIRST_REMOTE_WORKER`. Pid 0 is for what has been sent there and has not begun, as far as is
        known.
    journeys : list of Journey
    changed : list of int
        The numbers of journeys, as often as there was news of them.
    """

    def __init__(self) -> None:
        self._nodes: dict[int, int] = {}
        self._workers: dict[int, int] = {}
        self.workers: list[tuple[int, int]] = []
        self.journeys: list[Journey] = []
        self.changed: list[int] = []
        self._open: dict[tuple[int, int], int] = {}
        self.lost = lost_columns()

    def node(self, number: int) -> int:
        """The small number of a machine."""
        return self._nodes.setdefault(number & 0xFFFFFFFF, len(self._nodes) + 1)

    @property
    def n_nodes(self) -> int:
        """Other machines that have been heard of."""
        return len(self._nodes)

    def workers_of(self, nodes: np.ndarray, pids: np.ndarray) -> np.ndarray:
        """The numbers of processes on other machines."""
        keys, at = np.unique(nodes.astype(np.uint64) << np.uint64(32) | pids, return_inverse=True)
        return np.array([self._worker(key) for key in keys.tolist()], np.uint16)[at]

    def _worker(self, key: int) -> int:
        number = self._workers.get(key)
        if number is None:
            if len(self.workers) >= N_WORKERS_MAX:
                return NO_WORKER
            number = self._workers[key] = FIRST_REMOTE_WORKER + len(self.workers)
            self.workers.append((self.node(key >> 32), key & 0xFFFFFFFF))
        return number

    # --- journeys

    def departed(self, time: int, creator: int, node: int, size: int, number: int) -> None:
        """An object's bytes have begun to travel; `number` as in the event."""
        if len(self.journeys) < N_TRANSFERS_MAX:
            self._open[node, number] = len(self.journeys)
            self.changed.append(len(self.journeys))
            self.journeys.append(Journey(creator, self.node(node), bool(number & 1), size, time))

    def arrived(self, time: int, node: int, number: int, complete: bool) -> None:
        """They have arrived, or never will."""
        at = self._open.pop((node, number), None)
        if at is not None:
            self.journeys[at].ended, self.journeys[at].complete = time, complete
            self.changed.append(at)

    def end(self, time: int) -> None:
        """The session is over."""
        for node, number in list(self._open):
            self.arrived(time, node, number, False)


def seen_times(
    started: np.ndarray, ran: np.ndarray, began: np.ndarray, ended: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """When remote tasks began and ended there, in ticks; when they were sent, where the beginning is not known."""
    known = ran >= started
    return np.where(known, np.maximum(began, started), started), np.where(known, ended, NEVER)
