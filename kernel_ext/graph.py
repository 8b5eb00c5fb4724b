"""The graph model: event records in, rows with states and edges out. Pure: no clock, thread, socket or kernel.

    Graph.fold(records)       as often as there are events; done by `_fold` in C, without the GIL
    Graph.refresh(now_s)      before anybody looks; publishes rows and derives states; vectorised
    GraphView.next(...)       (graph_view.py) what one front end has not seen yet, under a budget

**Time** is kept in ticks of the ring's clock, whose rate is known better and better; seconds are made when somebody
looks. So what happened later stays later.

**Out of order.** A process may be seen starting a task before its submission is seen, and PARENT and DEPENDS follow
SUBMITTED. So there are two numbers: an *entry* exists from the first event that mentions a task; it becomes a *row*,
which front ends know, once it is described and `SETTLE_S` have passed, for a row's function, cell, parent and kind are
told once and never again. Parents are submitted before their children, and rows are numbered in the order of
submission. What an event changes is decided by its time, not by its arrival: any order of arrival ends in the same
graph.

**Loss.** The ring overwrites what is not read in time. An entry that runs but whose SUBMITTED never came is published
nevertheless after `PATIENCE_S`, with the function "?". Nothing else is invented: a task only known as somebody's
dependency gets no row, and edges to it are dropped. `reconcile` ends what a loss left running for ever.

**Bounds.** At most `n_rows_max` entries and four edges for each; tasks beyond that are counted by state, and have no
row.
"""
from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from ._fold import PUT_FUNCTION, Folder
from .columns import Columns, RowSet, reserve
from .elsewhere import FIRST_WORKER, Elsewhere, Journey, seen_times
from .events import ACTOR_STATES, EVENT_DTYPE, EventKind, Status
from .graph_parts import CRASHED, N_RECENT_PUTS, NEVER, PUT_NAMES, UNKNOWN, Actors, Aggregate, Functions, Workers, recent_puts
from .panel_messages import NO_WORKER, ActorLabel, CellLabel, Counts, Kind, Loss, State, Transfer, WorkerLabel

SETTLE_S = 0.005  # events that belong together are written within microseconds; a read may fall between them
PATIENCE_S = 1.0  # far longer than any disorder lasts
NUMBERS = 1 << 24  # task numbers are dense: so many from the first one on have a place in the table of entries
OBJECT_BYTES = 100_000  # objects made by put that are larger have a row even if nothing depends on them

_COUNTED = {int(State.WAITING): "waiting", int(State.READY): "ready", int(State.RUNNING): "running",
            int(State.FINISHED): "finished", int(State.FAILED): "failed", int(State.CANCELLED): "cancelled",
            int(State.RETRYING): "ready"}
_ONE = np.int32(1)  # of the column's own type, else `ufunc.at` is thirty times slower


class Directory(Protocol):
    """What events do not say, asked once for each function and cell, and when there are new actors."""

    def function(self, slot: int, generation: int) -> tuple[str, str] | None:
        """(what, name) of a function object: what is "function", "actor" or "method"; None if it is gone."""

    def cell(self, number: int) -> tuple[str, str]:
        """(label, id) of the cell run that has this number."""

    def actor_names(self) -> dict[int, str]:
        """The names of the actors that have one, by their index in the segment."""


class Graph:
    """Tasks, actors, objects and workers of one session.

    Parameters
    ----------
    directory : Directory
    ticks0, seconds_per_tick : int, float
        The ring's clock, see `set_clock`.
    n_rows_max : int
        Bound on entries, and so on rows.

    Attributes
    ----------
    entries : Columns
        One per task or object seen; `order` maps rows to entries, ``entries.row`` the other way.
    n_rows, n_dropped : int
    newest : int
        Time of the latest event folded, in ticks.
    """

    def __init__(self, directory: Directory, *, ticks0: int = 0, seconds_per_tick: float = 1e-9,
                 n_rows_max: int = 1_000_000) -> None:
        self._directory = directory
        self.set_clock(ticks0, seconds_per_tick)
        self.n_rows_max = n_rows_max
        self.n_dropped = 0
        self.entries = Columns(
            n_rows_max,
            seq=(np.uint64, 0), seen=(np.uint64, 0), submitted=(np.uint64, NEVER), known=(bool, False),
            started=(np.uint64, NEVER), called=(np.uint64, NEVER), retried=(np.uint64, NEVER), finished=(np.uint64, NEVER),
            size=(np.float64, np.nan),
            function=(np.int32, 0), cell=(np.uint32, 0), actor_index=(np.uint32, 0), actor=(np.uint32, 0),
            parent=(np.int32, -1), pid=(np.uint32, 0),
            worker=(np.uint8, NO_WORKER), status=(np.uint8, 0), kind=(np.uint8, Kind.TASK),
            state=(np.uint8, State.WAITING), counted=(np.uint8, 255), gone=(bool, False), vanished=(bool, False),
            open_dependencies=(np.int32, 0), queued=(bool, True), dirty=(bool, False), row=(np.int32, -1),
            changed=(np.int32, 0), node=(np.uint32, 0), pid_there=(np.uint32, 0),
            ran=(np.uint64, NEVER), began=(np.uint64, NEVER), ended=(np.uint64, NEVER))
        self._queued = RowSet(self.entries.queued)  # entries that are no rows yet
        self._dirty = RowSet(self.entries.dirty)  # entries whose state may be another than it was
        self._rows = Columns(n_rows_max, entry=(np.int32, 0))
        self.edges = Columns(4 * n_rows_max, source=(np.uint32, 0), target=(np.uint32, 0), known_with=(np.int32, 0))
        # Edges between entries: those of which not both are rows yet, and those whose source has not finished.
        self._loose, self._open = (Columns(4 * n_rows_max, source=(np.int32, 0), target=(np.int32, 0)) for _ in "ab")
        self._functions = Functions(directory.function)
        self.cells: dict[int, CellLabel] = {}
        self._actors = Actors()
        self._workers = Workers()
        self._counts = np.zeros(256, np.int64)
        self._recent_puts = recent_puts()
        self._beyond = Aggregate()
        self.elsewhere = Elsewhere()
        self._folder = Folder(
            OBJECT_BYTES, **self.entries.arrays,
            loose_source=self._loose.source, loose_target=self._loose.target,
            open_source=self._open.source, open_target=self._open.target,
            n_entries=self.entries.count, n_loose=self._loose.count, n_open=self._open.count,
            queued_low=self._queued.low, dirty_low=self._dirty.low, entry_of=reserve(NUMBERS, np.int32),
            beyond=self._beyond.totals, counts=self._counts, **self._recent_puts, **self._workers.columns,
            **self.elsewhere.lost)

    # --- time

    def set_clock(self, ticks0: int, seconds_per_tick: float) -> None:
        """A record's time in seconds since the session began is ``(t - ticks0) * seconds_per_tick``."""
        self._ticks0, self._seconds_per_tick = np.uint64(ticks0), seconds_per_tick

    def seconds(self, ticks: np.ndarray) -> np.ndarray:
        """Ticks as seconds since the session began; NaN for what has not happened."""
        seconds = (ticks - self._ticks0).view(np.int64) * self._seconds_per_tick
        return np.where(ticks == NEVER, np.nan, seconds)

    def called(self, entries: np.ndarray) -> np.ndarray:
        """When the user's code began, of entries whose arguments took long in their latest attempt; NaN of others."""
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
        n = memoryview(records).nbytes // EVENT_DTYPE.itemsize
        done = 0
        self.entries.prepare(2 * n)  # a record speaks of two tasks at most
        while (done := self._folder.fold(records, done)) < n:
            done += self._fold_one(np.frombuffer(records, EVENT_DTYPE, 1, done * EVENT_DTYPE.itemsize))

    def _fold_one(self, record: np.ndarray) -> bool:
        """What C leaves to us: whether the record is done with, or C can go on with it now."""
        (time, number, a, b, c, d, kind, client), = record.tolist()
        match kind:
            case EventKind.ACTOR_CREATED:
                entry = self._folder.entry(number, time)
                actor = self._actors.created(a, time, entry, self._directory.actor_names().get(a, ""))
                if entry >= 0:
                    self.entries.kind[entry] = Kind.ACTOR_CREATION
                    self.entries.actor[entry] = actor + 1
                return True
            case EventKind.ACTOR_STATE:
                self._actors.changed(a, time, ACTOR_STATES[min(b, 3)] if not c else CRASHED)
                return True
            case EventKind.SUBMITTED:
                self._folder.learn(a << 16 | d, self._functions.ask(a, d))
            case EventKind.TRANSFER:
                self.elsewhere.departed(time, number, a, b | d << 32, c)
                return True
            case EventKind.TRANSFERRED:
                self.elsewhere.arrived(time, a, c, b == 1)
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
        self._actors.end()
        self._workers.end(max(self._ticks(at_s), self.newest))
        self.elsewhere.end(max(self._ticks(at_s), self.newest))

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
        return self._rows.n

    @property
    def order(self) -> np.ndarray:
        """The entry of each row."""
        return self._rows.entry[:self._rows.n]

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
        return self.entries.changed[:self._folder.derive()].copy()

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
            entries.vanished[queue[old & objects]] = True  # who knows when it was put, but it was
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
        at = self._rows.extend(len(rows))
        self._rows.entry[at] = rows
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
            entries.actor[of_index] = 1 + self._actors.numbers_at(index - 1, entries.submitted[of_index])
        entries.kind[called] = Kind.ACTOR_CALL

    def _close_edges(self) -> np.ndarray:
        """Take away dependencies that have finished; returns tasks that have become ready by it, some twice."""
        open_edges, entries = self._open, self.entries
        n = open_edges.n
        if not n:
            return np.zeros(0, np.intp)
        source = open_edges.source[:n]
        # An object whose creator is only known by number is as old as the session's forgotten past, and there.
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
        pairs = np.sort(to_row[connected].astype(np.uint64) << np.uint64(32) | from_row[connected].astype(np.uint64),
                        kind="stable")
        pairs = pairs[np.concatenate(([True], pairs[1:] != pairs[:-1]))][:max(0, 4 * self.n_rows_max - self.edges.n)]
        to_row, from_row = (pairs >> np.uint64(32)).astype(np.int32), pairs.astype(np.uint32).astype(np.int32)
        known_with = np.maximum(np.maximum(from_row, to_row), n_rows_before - 1)
        order = np.argsort(known_with, kind="stable")
        at = self.edges.extend(len(order))
        self.edges.source[at] = from_row[order]
        self.edges.target[at] = to_row[order]
        self.edges.known_with[at] = known_with[order]

    # --- summaries

    def counts(self) -> Counts:
        """Tasks by state, those without a row included."""
        total = dict.fromkeys(Counts.__struct_fields__, 0)
        for state, name in _COUNTED.items():
            total[name] += int(self._counts[state])
        for name, count in self._beyond.counts().items():
            total[name] += count
        return Counts(**total)

    def counts_of_cell(self, number: int) -> dict[str, dict[str, int]]:
        """The tasks of one cell by function, in the order in which these came, and by state: fields of `Counts`."""
        entries, n = self.entries, self.entries.n
        at = np.flatnonzero(entries.known[:n] & (entries.cell[:n] == number) & (entries.kind[:n] != Kind.OBJECT))
        pairs, first, counts = np.unique(entries.function[at].astype(np.int64) << 8 | entries.state[at],
                                         return_index=True, return_counts=True)
        found: dict[str, dict[str, int]] = {}
        for i in np.argsort(first).tolist():
            function, state = divmod(int(pairs[i]), 256)
            states, name = found.setdefault(self.functions[function], {}), _COUNTED[state]
            states[name] = states.get(name, 0) + int(counts[i])
        return found

    @property
    def n_tasks(self) -> int:
        """Tasks with a row, and those beyond the bound."""
        return int(self._counts[:State.RETRYING + 1].sum()) + self._beyond.submitted

    @property
    def n_aggregated(self) -> int:
        """Tasks that are only counted."""
        return self._beyond.submitted

    def actors(self) -> dict[int, ActorLabel]:
        """Every actor by number. The class is the function of the creation task."""
        labels = {}
        for number, actor in enumerate(self._actors.by_number):
            entry = actor.entry
            cls = self.functions[self.entries.function[entry]] if entry >= 0 else UNKNOWN
            pid = int(self.entries.pid[entry]) if entry >= 0 else 0
            crashed = actor.state == CRASHED
            labels[number] = ActorLabel(actor.name, cls, "dead" if crashed else actor.state, pid, crashed)
        return labels

    def workers(self, n_told: int = 0) -> dict[int, WorkerLabel]:
        """Every worker by its number: those of this machine by client index, those elsewhere from `FIRST_WORKER` on, but for
        the first `n_told` of these: nothing changes in their labels, and they may be thousands."""
        labels = self._workers.labels(self.entries, self.seconds)
        labels.update({FIRST_WORKER + at: WorkerLabel(pid, "elsewhere", node=node)
                       for at, (node, pid) in enumerate(self.elsewhere.workers[n_told:], n_told)})
        return labels

    def there(self, entries: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Of entries that ran on other machines: their workers' numbers; when they were sent, began there, and ended there."""
        columns = self.entries
        started, ran = columns.started[entries], columns.ran[entries]
        began, ended = seen_times(started, ran, columns.began[entries], columns.ended[entries])
        pids = np.where(ran >= started, columns.pid_there[entries], 0)
        return self.elsewhere.workers_of(columns.node[entries], pids), self.seconds(started), self.seconds(began), self.seconds(ended)

    def transfers(self, first: int, most: int) -> tuple[list[tuple[int, Transfer]], int]:
        """What there is to say of journeys since the change of this number, and the number of the next one."""
        changed = self.elsewhere.changed[first:first + most]
        return [(at, self._transfer(self.elsewhere.journeys[at])) for at in dict.fromkeys(changed)], first + len(changed)

    def _transfer(self, journey: Journey) -> Transfer:
        began, ended = self.seconds(np.array([journey.began, journey.ended], np.uint64)).tolist()
        return Transfer(self.row_of(journey.creator), journey.node, journey.comes, journey.size, began, ended if journey.ended else None,
                        journey.complete)

    def losses(self, first: int, most: int) -> list[Loss]:
        """Attempts that were lost with their machine, from this one on."""
        lost = self.elsewhere.lost
        at = slice(first, min(int(lost["n_lost"][0]), first + most))
        if at.stop <= first:
            return []
        rows = self.entries.row[lost["lost_entry"][at]].tolist()
        workers = self.elsewhere.workers_of(lost["lost_node"][at], lost["lost_pid"][at]).tolist()
        times = (self.seconds(lost[name][at]).tolist() for name in ("lost_sent", "lost_began", "lost_at"))
        return [Loss(row, worker, sent, None if began != began else began, end)
                for row, worker, sent, began, end in zip(rows, workers, *times, strict=True)]

    def row_of(self, number: int) -> int:
        """The row of a task or put number, -1 if it has none (yet)."""
        entry = self._folder.find(number)
        return int(self.entries.row[entry]) if entry >= 0 else -1

    def state(self, row: int) -> State:
        """The state of a row."""
        return State(self.entries.state[self._rows.entry[row]])

    def describe(self, row: int) -> dict[str, Any]:
        """One row in words; the times that do not exist are None.

        Raises
        ------
        IndexError
            When there is no such row.
        """
        if not 0 <= row < self.n_rows:
            raise IndexError(f"the graph has no row {row}")
        entries, at = self.entries, int(self._rows.entry[row])
        parent = int(entries.parent[at])
        cell = int(entries.cell[at])
        worker = int(entries.worker[at])
        sources = self.edges.source[:self.edges.n][self.edges.target[:self.edges.n] == row]
        targets = self.edges.target[:self.edges.n][self.edges.source[:self.edges.n] == row]
        away = self._describe_away(at) if entries.node[at] else {"node": 0}
        return {
            "row": row, "seq": int(entries.seq[at]), "function": self.functions[entries.function[at]],
            "kind": Kind(entries.kind[at]).name.lower(), "state": State(entries.state[at]).name.lower(), "cell": cell,
            "actor": int(entries.actor[at]) - 1 if entries.actor[at] else None,
            "worker": worker if worker != NO_WORKER else None,
            "pid": int(self._workers.pid[worker]) if worker != NO_WORKER and not away["node"] else None,
            **{name: _or_none(self.seconds(getattr(entries, name)[at:at + 1])[0])
               for name in ("submitted", "started", "finished")}, "called": _or_none(self.called(self.order[row:row + 1])[0]),
            "size": _or_none(entries.size[at]), "freed": bool(entries.gone[at]),
            "parent": int(entries.row[parent]) if parent >= 0 and entries.row[parent] >= 0 else None,
            "depends_on": sources.tolist()[:100], "needed_by": targets.tolist()[:100], **away}

    def _describe_away(self, at: int) -> dict[str, Any]:
        """What is different of a task on another machine; its process there is none of this machine's."""
        workers, *times = self.there(np.array([at]))
        node, pid = self.elsewhere.workers[int(workers[0]) - FIRST_WORKER] if workers[0] >= FIRST_WORKER else (0, 0)
        return {"node": node, "pid_there": pid, **{name: _or_none(time[0]) for name, time in zip(("sent", "started", "ended"), times, strict=True)}}


def _distinct(values: np.ndarray) -> set[int]:
    """The distinct values of an array that has long runs."""
    return set(values[np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1])))].tolist())


def _or_none(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
