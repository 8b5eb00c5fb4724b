"""Tasks that the head has given a place on this very node: what `sent` is for other nodes, with nothing in between."""
from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from .accepted import WAITS_FOR_ROOM, uses_its_place

if TYPE_CHECKING:
    from ...objstore import _core


class Here:
    """Attributes
    ----------
    ended : Counter
        By lease: tasks that take a place no more; for whoever counts them.
    waiting : dict
        News, by lease: how many find no room.
    """

    def __init__(self, client: _core.Client) -> None:
        self._client = client
        self._placed: dict[tuple[int, int], int] = {}    # (slot, number) of a task -> lease
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
            if not uses_its_place(how):
                self.ended[self._placed.pop(task)] += 1
        return {task for task, how in progress if how == WAITS_FOR_ROOM}

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
