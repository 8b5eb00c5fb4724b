"""The graph model: event records in, rows with states and edges out. Pure: no clock, thread, socket or kernel.

    Graph.fold(records)       whenever there are events; `_fold` does it in C, without the GIL
    Graph.refresh(now_s)      before a look at the graph; publishes rows and derives states; vectorised
    GraphView.next(...)       (view.py) what one front end has not seen yet, under a budget of bytes

`summary` and `row` say in words what is in a graph.

**Time** is in ticks of the ring's clock. The clock's rate becomes known better and better, so ticks become seconds only
when a front end looks, and the order of events never changes.

**Out of order.** A task's start may be read before its submission, and PARENT and DEPENDS follow SUBMITTED. So there
are two numbers. An *entry* exists from the first event that mentions a task. It becomes a *row*, which front ends know,
when it is described and `SETTLE_S` have passed; a row's function, cell, parent and kind are told once and never again.
Parents are submitted before their children, and rows are numbered in the order of submission. The time of an event
decides what it changes, not its arrival: every order of arrival gives the same graph.

**Loss.** The ring overwrites what is not read in time. If an entry runs and its SUBMITTED never came, it is published
after `PATIENCE_S` with the function "?". Nothing else is invented: a task that is known only as a dependency gets no
row, and edges to it are dropped. `reconcile` ends tasks that a loss has left running for ever.

**Bounds.** There are at most `n_rows_max` entries, and four edges for each. Tasks beyond that are counted by state and
have no row.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ...observe.states import ACTORS
from ..panel_messages import PUT_NAMES, CellLabel, Kind, State
from ._fold import PUT_FUNCTION, Folder
from .collectives import Collectives
from .columns import RowSet
from .entries import Edges, Entries, EntryEdges, Rows
from .events import EVENT_DTYPE, EventKind, Status
from .pages import reserve
from .remote import RemoteNodes
from .tables import (
    CRASHED,
    N_RECENT_PUTS,
    NEVER,
    Actors,
    Aggregate,
    Functions,
    Identity,
    Workers,
    recent_puts,
)

SETTLE_S = 0.005  # events that belong together are written within microseconds; a read may fall between them
PATIENCE_S = 1.0  # far longer than any disorder lasts
CLOCK_STEP_S = 1e-4  # the present may be told wrong by so much: nobody sees it, where a task of 20 us is told right
NUMBERS = 1 << 24  # task numbers are dense: so many from the first one on have a place in the table of entries
OBJECT_BYTES = 100_000  # objects made by put that are larger have a row even if nothing depends on them

_ONE = np.int32(1)  # of the column's own type, else `ufunc.at` is thirty times slower


class Directory(Protocol):
    """What events do not say, asked once for each function, cell and actor."""

    def function(self, slot: int, generation: int) -> tuple[str, str] | None:
        """(what, name) of a function object: what is "function", "actor" or "method"; None if it is gone."""
        ...

    def cell(self, number: int) -> tuple[str, str]:
        """(label, id) of the cell run that has this number."""
        ...

    def actor(self, index: int) -> Identity:
        """What the actor with this index in the segment is called."""
        ...


class Graph:
    """Tasks, actors, objects and workers of one session.

    Parameters
    ----------
    directory : Directory
    ticks0, seconds_per_tick : int, float
        The ring's clock: a record's time in seconds since the session began is ``(t - ticks0) * seconds_per_tick``. See
        `correct_clock`.
    n_rows_max : int
        Bound on entries, and so on rows.

    Attributes
    ----------
    entries : Entries
        One per task or object seen; `order` maps rows to entries, ``entries.row`` the other way.
    n_rows, n_dropped : int
    newest : int
        Time of the latest event folded, in ticks.
    """

    def __init__(
        self, directory: Directory, *, ticks0: int = 0, seconds_per_tick: float = 1e-9, n_rows_max: int = 1_000_000
    ) -> None:
        self._directory = directory
        self._ticks0, self._seconds_per_tick = np.uint64(ticks0), seconds_per_tick
        self.n_rows_max = n_rows_max
        self.n_dropped = 0
        self.entries = Entries(n_rows_max)
        self._queued = RowSet(self.entries.queued)  # entries that are no rows yet
        self._dirty = RowSet(self.entries.dirty)  # entries whose state may be another than it was
        self.rows = Rows(n_rows_max)
        self.edges = Edges(4 * n_rows_max)
        # Edges between entries: those of which not both are rows yet, and those whose source has not finished.
        self._loose, self._open = EntryEdges(4 * n_rows_max), EntryEdges(4 * n_rows_max)
        self._functions = Functions(directory.function)
        self.cells: dict[int, CellLabel] = {}
        self.actor_lives, self.collectives = Actors(), Collectives()
        self.worker_lives = Workers()
        self.state_counts = np.zeros(256, np.int64)
        self._recent_puts = recent_puts()
        self.beyond = Aggregate()
        self.remote = RemoteNodes()
        self._folder = Folder(
            OBJECT_BYTES,
            **self.entries.arrays,
            loose_source=self._loose.source,
            loose_target=self._loose.target,
            open_source=self._open.source,
            open_target=self._open.target,
            n_entries=self.entries.count,
            n_loose=self._loose.count,
            n_open=self._open.count,
            queued_low=self._queued.low,
            dirty_low=self._dirty.low,
            entry_of=reserve(NUMBERS, np.int32),
            beyond=self.beyond.totals,
            counts=self.state_counts,
            **self._recent_puts,
            **self.worker_lives.columns,
            **self.remote.lost,
        )

    # --- time

    def correct_clock(self, seconds_per_tick: float, now_s: float) -> None:
        """The rate is known better. The old one stays while it tells the present time, `now_s`, within `CLOCK_STEP_S`:
        front ends are told a task's submission and its end one after the other, by one rate almost always.
        """
        if abs(seconds_per_tick / self._seconds_per_tick - 1) * now_s > CLOCK_STEP_S:
            self._seconds_per_tick = seconds_per_tick

    def seconds(self, ticks: np.ndarray) -> np.ndarray:
        """Ticks as seconds since the session began; NaN for what has not happened."""
        seconds = (ticks - self._ticks0).view(np.int64) * self._seconds_per_tick
        return np.where(ticks == NEVER, np.nan, seconds)

    def called(self, entries: np.ndarray) -> np.ndarray:
        """When the user's code began, for entries whose arguments took long in their latest attempt; NaN for others."""
        called = self.entries.called[entries]
        return np.where(called >= self.entries.started[entries], self.seconds(called), np.nan)

    def _ticks(self, seconds: float) -> int:
        return int(self._ticks0) + int(seconds / self._seconds_per_tick)

    # --- events in

    @property
    def newest(self) -> int:
        """Time of the latest event folded, in ticks."""
        return self._folder.newest

    def fold(self, records: bytes | np.ndarray, n_lost: int = 0) -> None:
        """Take in a batch of records (`events.EVENT_DTYPE`), and the number of those lost before it."""
        self.n_dropped += n_lost
        n = len(np.frombuffer(records, EVENT_DTYPE))
        done = 0
        self.entries.prepare(2 * n)  # a record speaks of two tasks at most
        while (done := self._folder.fold(records, done)) < n:
            done += self._fold_one(np.frombuffer(records, EVENT_DTYPE, 1, done * EVENT_DTYPE.itemsize))

    def _fold_one(self, record: np.ndarray) -> bool:
        """Handle a record that C leaves to Python; whether it is done with, or C can go on with it now."""
        ((time, number, a, b, c, d, kind, _),) = record.tolist()
        match kind:
            case EventKind.ACTOR_CREATED:
                entry = self._folder.entry(number, time)
                actor = self.actor_lives.created(a, time, entry, self._directory.actor(a))
                if entry >= 0:
                    self.entries.kind[entry] = Kind.ACTOR_CREATION
                    self.entries.actor[entry] = actor + 1
                return True
            case EventKind.ACTOR_STATE:
                self.actor_lives.changed(a, time, ACTORS[min(b, len(ACTORS) - 1)] if not c else CRASHED)
                return True
            case EventKind.SUBMITTED:
                self._folder.learn(a << 16 | d, self._functions.ask(a, d))
            case EventKind.TRANSFER:
                self.remote.departed(time, number, a, b | d << 32, c)
                return True
            case EventKind.TRANSFERRED:
                self.remote.arrived(time, a, c, b == 1)
                return True
            case _:  # an object, or that something depends on it
                at = (a | b << 32) & (N_RECENT_PUTS - 1)
                why = d if kind == EventKind.PUT else int(self._recent_puts["put_why"][at])
                name = PUT_NAMES[min(why, len(PUT_NAMES) - 1)]
                self._folder.learn(PUT_FUNCTION | why, self._functions.number("", name))
        return False

    def reconcile(self, unfinished: np.ndarray, at_s: float) -> None:
        """After a loss: tasks submitted before `at_s` that are not among the `unfinished` numbers have finished."""
        candidates = self._unended()
        candidates = candidates[self.entries.submitted[candidates] < self._ticks(at_s)]
        ended = candidates[~np.isin(self.entries.seq[candidates], unfinished)]
        self.entries.vanished[ended] = True
        self._dirty.add(ended)

    def end(self, at_s: float) -> None:
        """The session is over, and with it what had not finished; actors and workers are dead."""
        at = self._unended()
        self.entries.finished[at] = max(self._ticks(at_s), self.newest)
        self.entries.status[at] = Status.CANCELLED
        self._dirty.add(at)
        self.actor_lives.end()
        self.worker_lives.end(max(self._ticks(at_s), self.newest))
        self.remote.end(max(self._ticks(at_s), self.newest))

    def _unended(self) -> np.ndarray:
        entries, n = self.entries, self.entries.n
        ended = (entries.state[:n] >= State.FINISHED) & (entries.state[:n] != State.RETRYING)
        return np.flatnonzero(entries.known[:n] & ~ended)

    # --- derived

    @property
    def functions(self) -> list[str]:
        """Names by function number."""
        return self._functions.names

    @property
    def n_rows(self) -> int:
        return self.rows.n

    @property
    def order(self) -> np.ndarray:
        """The entry of each row."""
        return self.rows.entry[: self.rows.n]

    def refresh(self, now_s: float) -> np.ndarray:
        """Publish what is described, derive states; returns the rows that have changed since the last refresh."""
        before = self.n_rows
        self._publish(max(self._ticks(now_s), self.newest))
        changed = self._derive()
        freed = self._close_edges()
        if len(freed):
            self._dirty.add(freed)
            changed = np.concatenate((changed, self._derive()))
        self._connect(before)
        return changed

    def _derive(self) -> np.ndarray:
        """Have states and counts say what is known; returns the rows that may have changed by it."""
        return self.entries.changed[: self._folder.derive()].copy()

    def is_settled(self) -> bool:
        """Whether nothing waits for a later `refresh` to become a row."""
        return not len(self._queued.below(self.entries.n))

    def _before(self, now: int, span_s: float) -> np.uint64:
        return np.uint64(max(0, now - int(span_s / self._seconds_per_tick)))

    def _publish(self, now: int) -> None:
        """Number the entries that can be shown, in the order of their submission."""
        entries = self.entries
        queue = self._queued.below(entries.n)
        if not len(queue):
            return
        known = entries.known[queue]
        shown = known & (entries.submitted[queue] <= self._before(now, SETTLE_S))
        if not known.all():
            old = ~known & (entries.seen[queue] <= self._before(now, PATIENCE_S))
            objects = entries.kind[queue] == Kind.OBJECT
            entries.vanished[queue[old & objects]] = True  # it was put at a time that is not known
            acted = entries.started[queue] | entries.finished[queue] | entries.retried[queue] > NEVER
            shown |= old & (acted | objects)
            self._queued.discard(queue[old & ~shown])
        rows = queue[shown]
        if not len(rows):
            return
        self._queued.discard(rows)
        self._dirty.add(rows)
        times = np.where(entries.known[rows], entries.submitted[rows], entries.seen[rows])
        if (times[1:] < times[:-1]).any():
            rows = rows[np.argsort(times, kind="stable")]
        at = self.rows.extend(len(rows))
        self.rows.entry[at] = rows
        entries.row[rows] = at
        self._name_actors(rows)
        for number in _distinct(entries.cell[rows]):
            if number not in self.cells:
                self.cells[number] = CellLabel(*self._directory.cell(number))

    def _name_actors(self, rows: np.ndarray) -> None:
        """Actor slots are used again; which actor a call was for follows from its time."""
        entries = self.entries
        called = rows[(entries.actor_index[rows] > 0) & (entries.kind[rows] == Kind.TASK)]
        if not len(called):
            return
        for index in np.unique(entries.actor_index[called]).tolist():
            of_index = called[entries.actor_index[called] == index]
            entries.actor[of_index] = 1 + self.actor_lives.numbers_at(index - 1, entries.submitted[of_index])
        entries.kind[called] = Kind.ACTOR_CALL

    def _close_edges(self) -> np.ndarray:
        """Take away dependencies that have finished; returns tasks that have become ready by it, some twice."""
        open_edges, entries = self._open, self.entries
        n = open_edges.n
        if not n:
            return np.zeros(0, np.intp)
        source = open_edges.source[:n]
        # An object whose creator is known only by number is finished, and as old as the session's forgotten past.
        closed = (entries.state[source] >= State.FINISHED) & (entries.state[source] != State.RETRYING)
        closed |= ~entries.queued[source] & (entries.row[source] < 0)
        freed = open_edges.target[:n][closed]
        open_edges.keep(~closed)
        np.subtract.at(entries.open_dependencies, freed, _ONE)
        return freed[entries.open_dependencies[freed] == 0]

    def _connect(self, n_rows_before: int) -> None:
        """Publish edges both ends of which are rows; `known_with`, ascending, is the row with which one can be told."""
        n, entries = self._loose.n, self.entries
        if not n:
            return
        source, target = self._loose.source[:n], self._loose.target[:n]
        from_row, to_row = entries.row[source], entries.row[target]
        connected = (from_row >= 0) & (to_row >= 0)
        given_up = (from_row < 0) & ~entries.queued[source] | (to_row < 0) & ~entries.queued[target]
        self._loose.keep(~connected & ~given_up)
        if not connected.any():
            return
        # Nearly sorted already, as tasks are numbered in the order of submission: a stable sort costs next to nothing.
        pairs = np.sort(
            to_row[connected].astype(np.uint64) << np.uint64(32) | from_row[connected].astype(np.uint64), kind="stable"
        )
        pairs = pairs[np.concatenate(([True], pairs[1:] != pairs[:-1]))][: max(0, 4 * self.n_rows_max - self.edges.n)]
        to_row, from_row = (pairs >> np.uint64(32)).astype(np.int32), pairs.astype(np.uint32).astype(np.int32)
        known_with = np.maximum(np.maximum(from_row, to_row), n_rows_before - 1)
        order = np.argsort(known_with, kind="stable")
        at = self.edges.extend(len(order))
        self.edges.source[at] = from_row[order]
        self.edges.target[at] = to_row[order]
        self.edges.known_with[at] = known_with[order]

    # --- summaries

    @property
    def n_tasks(self) -> int:
        """Tasks with a row, and those beyond the bound."""
        return int(self.state_counts[: State.RETRYING + 1].sum()) + self.beyond.submitted

    @property
    def n_aggregated(self) -> int:
        """Tasks that are only counted."""
        return self.beyond.submitted

    def row_of(self, number: int) -> int:
        """The row of a task or put number, -1 if it has none (yet)."""
        entry = self._folder.find(number)
        return int(self.entries.row[entry]) if entry >= 0 else -1

    def state(self, row: int) -> State:
        """The state of a row."""
        return State(self.entries.state[self.rows.entry[row]])


def _distinct(values: np.ndarray) -> set[int]:
    """The distinct values of an array that has long runs."""
    return set(values[np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1])))].tolist())
