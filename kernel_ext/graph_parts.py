"""Tables beside the graph's rows: functions, recent puts, actors, workers, and the count of what has no row. Pure."""
from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from .columns import Columns
from .panel_messages import Kind, State, WorkerLabel

NEVER = np.uint64(0)  # the time of what has not happened
_RUNNING, _OF_ACTORS = int(State.RUNNING), (int(Kind.ACTOR_CREATION), int(Kind.ACTOR_CALL))
UNKNOWN = "?"  # the name of what nobody knows the name of


class Functions:
    """Functions by number; the few distinct ones are looked up by binary search.

    Parameters
    ----------
    ask : callable
        ``ask(slot, generation)`` gives (what, name) of a function object, or None.

    Attributes
    ----------
    names : list of str
        By number. All functions of a name have one number: a cell that is run again makes a new object, not a new
        thing to look at.
    """

    def __init__(self, ask: Callable[[int, int], tuple[str, str] | None]) -> None:
        self._ask = ask
        self.names: list[str] = [UNKNOWN]
        self._numbers: dict[tuple[str, str], int] = {("", UNKNOWN): 0}
        self._keys = np.zeros(0, np.uint64)  # slot and generation, ascending
        self._of_key = np.zeros(0, np.int32)

    def of(self, submitted: np.ndarray) -> np.ndarray:
        """Function numbers of SUBMITTED records."""
        keys = submitted["a"].astype(np.uint64) << np.uint64(16) | submitted["d"]
        at = np.searchsorted(self._keys, keys)
        found = at < len(self._keys)
        found[found] = self._keys[at[found]] == keys[found]
        if not found.all():
            for key in np.unique(keys[~found]).tolist():
                answer = self._ask(key >> 16, key & 0xffff)
                place = int(np.searchsorted(self._keys, np.uint64(key)))
                self._keys = np.insert(self._keys, place, np.uint64(key))
                self._of_key = np.insert(self._of_key, place, self.number(*answer) if answer else 0)
            at = np.searchsorted(self._keys, keys)
        return self._of_key[at]

    def number(self, what: str, name: str) -> int:
        """The number of a name."""
        number = self._numbers.setdefault((what, name), len(self.names))
        if number == len(self.names):
            self.names.append(name)
        return number


@dataclass
class Aggregate:
    """What is known of tasks that have no entry: how many of each event there were."""

    submitted: int = 0
    started: int = 0
    finished: np.ndarray = field(default_factory=lambda: np.zeros(4, np.int64))

    def counts(self) -> dict[str, int]:
        ok, failed, cancelled, crashed = self.finished.tolist()
        running = max(0, self.started - ok - failed - crashed)
        ready = max(0, self.submitted - running - ok - failed - cancelled - crashed)
        return {"ready": ready, "running": running, "finished": ok, "failed": failed + crashed, "cancelled": cancelled}


class RecentPuts:
    """The last objects made by put, by number: most are small and nothing depends on them, so they get no entry."""

    _SIZE = 1 << 16

    def __init__(self) -> None:
        self._number = np.zeros(self._SIZE, np.uint64)
        self._time = np.zeros(self._SIZE, np.uint64)
        self._cell = np.zeros(self._SIZE, np.uint32)
        self._bytes = np.zeros(self._SIZE, np.uint32)

    def remember(self, part: np.ndarray, times: np.ndarray) -> None:
        at = part["seq"] & np.uint64(self._SIZE - 1)
        self._number[at], self._time[at], self._cell[at], self._bytes[at] = part["seq"], times, part["b"], part["c"]

    def recall(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(which of the numbers are remembered, times, cells, sizes)."""
        at = numbers & np.uint64(self._SIZE - 1)
        return self._number[at] == numbers, self._time[at], self._cell[at], self._bytes[at]


CRASHED = "crashed"  # dead, and nobody asked for it


@dataclass
class Actor:
    """One actor. `index` is its slot in the segment, which another actor may have had before."""

    index: int
    since: int  # ticks
    entry: int
    name: str
    state: str = "pending"


class Actors:
    """Actors by number, and which of those that shared a slot is meant at a time. Few, so plain Python."""

    def __init__(self) -> None:
        self.by_number: list[Actor] = []
        self._of_index: dict[int, list[tuple[int, int]]] = {}  # (since, number), ascending
        self._states: dict[int, list[tuple[int, str]]] = {}  # (time, state), ascending; the latest ones

    def created(self, index: int, time: int, entry: int, name: str) -> int:
        """An actor began to live in this slot; returns its number."""
        # A call that was published before its actor's creation was seen has made a stand-in without a time.
        lives = self._of_index.setdefault(index, [])
        if lives and lives[0][0] == 0 and len(lives) == 1:
            number = lives.pop()[1]
            self.by_number[number] = Actor(index, time, entry, name)
        else:
            number = len(self.by_number)
            self.by_number.append(Actor(index, time, entry, name))
        bisect.insort(lives, (time, number))
        self._apply(index)
        return number

    def changed(self, index: int, time: int, state: str) -> None:
        states = self._states.setdefault(index, [])
        bisect.insort(states, (time, state))
        del states[:-64]
        self._apply(index)

    def numbers_at(self, index: int, times: np.ndarray) -> np.ndarray:
        """The numbers of the actors that had this slot at these times."""
        lives = self._of_index.setdefault(index, [])
        if not lives:
            lives.append((0, len(self.by_number)))
            self.by_number.append(Actor(index, 0, -1, ""))
            self._apply(index)
        at = np.searchsorted(np.array([since for since, _ in lives], np.uint64), times, side="right") - 1
        return np.array([number for _, number in lives], np.uint32)[np.maximum(at, 0)]

    def end(self) -> None:
        for actor in self.by_number:
            actor.state = CRASHED if actor.state == CRASHED else "dead"

    def _apply(self, index: int) -> None:
        """Each life of a slot has the last state before the next life begins; who is dead stays dead."""
        states = self._states.get(index, [])
        lives = self._of_index.get(index)
        if not lives:
            return
        for (since, number), end in zip(lives, [*(since for since, _ in lives[1:]), 2**64], strict=True):
            own = [state for time, state in states if since <= time < end]
            if own:
                self.by_number[number].state = next((end for end in ("dead", CRASHED) if end in own), own[-1])


class Workers:
    """What each client slot (at most 255) does, from the events that name it."""

    def __init__(self) -> None:
        self.pid = np.zeros(256, np.uint32)
        self._since = np.zeros(256, np.uint64)  # the latest event that says who the worker is
        self._entry = np.full(256, -1, np.int64)  # what it started last
        self._busy = np.zeros(256, np.uint64)
        self._died = np.zeros(256, np.uint64)
        self._blocked = np.zeros(256, np.uint64)
        self._unblocked = np.zeros(256, np.uint64)

    def fold_busy(self, workers: np.ndarray, pids: np.ndarray, times: np.ndarray, entries: np.ndarray) -> None:
        """`times` ascend, so a worker's last record is its latest; the others need no look."""
        last = np.full(256, -1, np.intp)
        last[workers] = np.arange(len(workers))
        at = np.flatnonzero(last >= 0)
        last = last[at]
        new = times[last] >= self._busy[at]
        at, last = at[new], last[new]
        self._busy[at] = times[last]
        self._entry[at] = entries[last]
        self._identify(at, pids[last], times[last])

    def fold_started(self, part: np.ndarray, times: np.ndarray) -> None:
        at = part["a"] & np.uint32(255)
        self._identify(at, part["b"], times)

    def _identify(self, at: np.ndarray, pids: np.ndarray, times: np.ndarray) -> None:
        new = times >= self._since[at]
        self._since[at[new]] = times[new]
        self.pid[at[new]] = pids[new]

    def fold_died(self, part: np.ndarray, times: np.ndarray) -> None:
        np.maximum.at(self._died, part["a"] & np.uint32(255), times)

    def fold_blocked(self, part: np.ndarray, times: np.ndarray) -> None:
        np.maximum.at(self._blocked, part["client"], times)

    def fold_unblocked(self, part: np.ndarray, times: np.ndarray) -> None:
        np.maximum.at(self._unblocked, part["client"], times)

    def end(self, time: int) -> None:
        self._died[:] = time

    def labels(self, entries: Columns) -> dict[int, WorkerLabel]:
        found = {}
        known = np.flatnonzero(self._since > NEVER)
        columns = (self.pid, self._entry, self._since, self._busy, self._died, self._blocked, self._unblocked)
        facts = zip(*(column[known].tolist() for column in columns), strict=True)
        for index, (pid, entry, since, busy, died, blocked, unblocked) in zip(known.tolist(), facts, strict=True):
            if died >= since:
                state = "dead"
            elif blocked > max(unblocked, busy):
                state = "blocked"
            elif entry >= 0 and entries.worker[entry] == index and entries.state[entry] == _RUNNING:
                state = "busy"
            else:
                state = "actor" if entry >= 0 and entries.kind[entry] in _OF_ACTORS else "idle"
            found[index] = WorkerLabel(pid, state)
        return found
