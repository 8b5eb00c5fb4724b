"""The tables beside the graph's rows: functions, recent puts, actors, workers, tasks that are only counted. Pure."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..panel_messages import UNKNOWN, Kind, State, WorkerLabel

if TYPE_CHECKING:
    from .entries import Entries

NEVER = np.uint64(0)  # the time of what has not happened
_RUNNING, _OF_ACTORS = int(State.RUNNING), (int(Kind.ACTOR_CREATION), int(Kind.ACTOR_CALL))


class Functions:
    """Functions by number.

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

    def ask(self, slot: int, generation: int) -> int:
        """The number of a function object, 0 if it is gone."""
        answer = self._ask(slot, generation)
        return self.number(*answer) if answer else 0

    def number(self, what: str, name: str) -> int:
        """The number of a name."""
        number = self._numbers.setdefault((what, name), len(self.names))
        if number == len(self.names):
            self.names.append(name)
        return number


class Aggregate:
    """What is known of tasks that have no entry: how many of each event there were.

    Attributes
    ----------
    totals : array of 6 int64
        Submitted, started, and finished by `Status`.
    """

    def __init__(self) -> None:
        self.totals = np.zeros(6, np.int64)

    @property
    def submitted(self) -> int:
        return int(self.totals[0])

    def counts(self) -> dict[str, int]:
        submitted, started, ok, failed, cancelled, crashed = self.totals.tolist()
        running = max(0, started - ok - failed - crashed)
        queued = max(0, submitted - running - ok - failed - cancelled - crashed)
        return {
            "queued": queued,
            "running": running,
            "finished": ok,
            "failed": failed + crashed,
            "cancelled": cancelled,
        }


N_RECENT_PUTS = 1 << 16


def recent_puts() -> dict[str, np.ndarray]:
    """Room for the last objects made by put: most are small and nothing depends on them, so they get no entry."""
    return {
        "put_number": np.zeros(N_RECENT_PUTS, np.uint64),
        "put_time": np.zeros(N_RECENT_PUTS, np.uint64),
        "put_cell": np.zeros(N_RECENT_PUTS, np.uint32),
        "put_size": np.zeros(N_RECENT_PUTS, np.uint32),
        "put_why": np.zeros(N_RECENT_PUTS, np.uint16),
    }


CRASHED = "crashed"  # dead, and not on purpose


class Identity(NamedTuple):
    """What an actor is called; of a group's member also the group and its rank there."""

    name: str = ""
    group: str = ""
    rank: int = -1


@dataclass(slots=True)
class Actor:
    """One actor. `index` is its slot in the segment, which another actor may have had before."""

    index: int
    since: int  # ticks
    entry: int
    identity: Identity
    state: str = "pending"


class Actors:
    """Actors by number, and which of those that shared a slot had it at a time. They are few: this is plain Python."""

    def __init__(self) -> None:
        self.by_number: list[Actor] = []
        self._of_index: dict[int, list[tuple[int, int]]] = {}  # (since, number), ascending
        self._states: dict[int, list[tuple[int, str]]] = {}  # (time, state), ascending; the latest ones

    def created(self, index: int, time: int, entry: int, identity: Identity) -> int:
        """An actor began to live in this slot; returns its number."""
        # A call that was published before its actor's creation was seen has made a stand-in without a time.
        lives = self._of_index.setdefault(index, [])
        if lives and lives[0][0] == 0 and len(lives) == 1:
            number = lives.pop()[1]
            self.by_number[number] = Actor(index, time, entry, identity)
        else:
            number = len(self.by_number)
            self.by_number.append(Actor(index, time, entry, identity))
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
            self.by_number.append(Actor(index, 0, -1, Identity()))
            self._apply(index)
        at = np.searchsorted(np.array([since for since, _ in lives], np.uint64), times, side="right") - 1
        return np.array([number for _, number in lives], np.uint32)[np.maximum(at, 0)]

    def end(self) -> None:
        for actor in self.by_number:
            actor.state = CRASHED if actor.state == CRASHED else "dead"

    def _apply(self, index: int) -> None:
        """Each life of a slot has the last state before the next life begins; a dead actor stays dead."""
        states, lives = self._states.get(index), self._of_index.get(index)
        if not states or not lives:
            return
        # Lives that were over before the earliest state that is known stay as they are: there may be thousands.
        lives = lives[max(0, bisect.bisect_right(lives, states[0][0], key=lambda life: life[0]) - 1) :]
        for (since, number), end in zip(lives, [*(since for since, _ in lives[1:]), 2**64], strict=True):
            own = [state for time, state in states if since <= time < end]
            if own:
                self.by_number[number].state = next((end for end in ("dead", CRASHED) if end in own), own[-1])


class Workers:
    """What each client slot (at most 255) does, from the events that name it.

    Attributes
    ----------
    columns : dict of arrays
        What the events said, as `_fold` keeps it: who the worker is (`pid`, by an event of `since`), what it started
        last (`entry`, -1 when that has none) and when it did (`busy`), died, began and ceased to be blocked.
    """

    def __init__(self) -> None:
        times = ("worker_since", "worker_busy", "worker_died", "worker_blocked", "worker_unblocked")
        self.columns = {
            "worker_pid": np.zeros(256, np.uint32),
            "worker_entry": np.full(256, -1, np.int64),
            **{name: np.zeros(256, np.uint64) for name in times},
        }
        self.pid, self._entry, self._since, self._busy, self._died, self._blocked, self._unblocked = (
            self.columns.values()
        )

    def end(self, time: int) -> None:
        self._died[:] = time

    def by_pid(self) -> dict[int, tuple[int, bool]]:
        """The latest worker of each process, and whether it lives."""
        known = np.flatnonzero(self._since > NEVER)
        lives = (self._died < self._since)[known].tolist()
        return dict(zip(self.pid[known].tolist(), zip(known.tolist(), lives, strict=True), strict=True))

    def labels(self, entries: Entries, seconds: Callable[[np.ndarray], np.ndarray]) -> dict[int, WorkerLabel]:
        found = {}
        known = np.flatnonzero(self._since > NEVER)
        # To the hundredth: the clock's rate becomes better known, and a label that changes is sent again.
        begun, over = (seconds(times[known]).round(2).tolist() for times in (self._since, self._died))
        columns = (self.pid, self._entry, self._since, self._busy, self._died, self._blocked, self._unblocked)
        facts = zip(*(column[known].tolist() for column in columns), strict=True)
        for at, (index, (pid, entry, since, busy, died, blocked, unblocked)) in enumerate(
            zip(known.tolist(), facts, strict=True)
        ):
            ended = None
            if died >= since:
                state, ended = "dead", over[at]
            elif blocked > max(unblocked, busy):
                state = "blocked"
            elif entry >= 0 and entries.worker[entry] == index and entries.state[entry] == _RUNNING:
                state = "busy"
            else:
                state = "actor" if entry >= 0 and entries.kind[entry] in _OF_ACTORS else "idle"
            found[index] = WorkerLabel(pid, state, begun[at], ended)
        return found
