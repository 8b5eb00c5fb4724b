"""Tasks for which the head has granted a lease on this very node: what `peer.tasks_out` is for other nodes, without a
peer in between.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ....objstore._core import PROGRESS_QUEUED
from ..peer.tasks_in import uses_its_lease

if TYPE_CHECKING:
    from ....objstore._core import Client


class LocalTasks:
    """Attributes
    ----------
    ended : Counter
        By lease: how many tasks count under the lease no more; for the shell.
    waiting : dict
        News, by lease: how many find no room.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._placed: dict[tuple[int, int], int] = {}  # (slot, number) of a task -> lease
        self._waiting: set[tuple[int, int]] = set()
        self._told: Counter[int] = Counter()
        self.ended: Counter[int] = Counter()
        self.waiting: dict[int, int] = {}

    def send_tasks(self, resource_class: int, most: int, lease: int) -> int:
        """Have up to `most` waiting tasks of a class begin here; returns how many there were."""
        tasks = self._client.place_here(resource_class, most, False)
        self._placed.update(dict.fromkeys(tasks, lease))
        return len(tasks)

    def look(self) -> set[tuple[int, int]]:
        """See what has ended; returns what waits for room."""
        tasks = list(self._placed)
        progress = list(zip(tasks, self._client.progress(tasks), strict=True))
        for task, how in progress:
            if not uses_its_lease(how):
                self.ended[self._placed.pop(task)] += 1
        return {task for task, how in progress if how == PROGRESS_QUEUED}

    def sweep(self) -> None:
        """Note what waits for longer than from one sweep to the next."""
        before, self._waiting = self._waiting, self.look()
        leases = Counter(self._placed[task] for task in before & self._waiting)
        self.waiting = {lease: leases[lease] for lease in {*leases, *self._told}}
        self._told = leases

    def take_back(self, lease: int, n: int) -> None:
        """Up to `n` of the tasks that wait here under a lease ask again where to begin."""
        for task in [task for task, of in self._placed.items() if of == lease]:
            if n and self._client.recall(*task):
                self.ended[self._placed.pop(task)] += 1
                n -= 1
