"""The graph model: event records in, rows with states and edges out. Pure: no clock, thread, socket or kernel.

    Graph.fold(records)       as often as there are events; vectorised, nothing in it runs once per event. Records are
                              picked with `take`, which copies them whole: indexing copies field by field
    Graph.refresh(now_s)      before anybody looks; publishes rows and derives states
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

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from .columns import Columns, NumberTable, RowSet
from .events import ACTOR_STATES, NUMBER_MASK, PUT_BIT, EventKind, Status
from .graph_parts import CRASHED, NEVER, UNKNOWN, Actors, Aggregate, Functions, RecentPuts, Workers
from .panel_messages import NO_WORKER, ActorLabel, CellLabel, Counts, Kind, State, WorkerLabel

SETTLE_S = 0.005  # events that belong together are written within microseconds; a read may fall between them
PATIENCE_S = 1.0  # far longer than any disorder lasts
OBJECT_BYTES = 100_000  # objects made by put that are larger have a row even if nothing depends on them

_COUNTED = {int(State.WAITING): "waiting", int(State.READY): "ready", int(State.RUNNING): "running",
            int(State.FINISHED): "finished", int(State.FAILED): "failed", int(State.CANCELLED): "cancelled",
            int(State.RETRYING): "ready"}
_ONE = np.int32(1)  # of the column's own type, else `ufunc.at` is thirty times slower
_END_STATE = np.array([State.FINISHED, State.FAILED, State.CANCELLED, State.FAILED], np.uint8)  # by Status


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
    n_rows, n_events, n_dropped : int
    newest : int
        Time of the latest event folded, in ticks.
    """

    def __init__(self, directory: Directory, *, ticks0: int = 0, seconds_per_tick: float = 1e-9,
                 n_rows_max: int = 1_000_000) -> None:
        self._directory = directory
        self.set_clock(ticks0, seconds_per_tick)
        self.n_rows_max = n_rows_max
        self.n_events = self.n_dropped = 0
        self.newest = 0
        self.entries = Columns(
            n_rows_max,
            seq=(np.uint64, 0), seen=(np.uint64, 0), submitted=(np.uint64, NEVER), known=(bool, False),
            started=(np.uint64, NEVER), retried=(np.uint64, NEVER), finished=(np.uint64, NEVER),
            size=(np.float64, np.nan),
            function=(np.int32, 0), cell=(np.uint32, 0), actor_index=(np.uint32, 0), actor=(np.uint32, 0),
            parent=(np.int32, -1), pid=(np.uint32, 0),
            worker=(np.uint8, NO_WORKER), status=(np.uint8, 0), kind=(np.uint8, Kind.TASK),
            state=(np.uint8, State.WAITING), counted=(np.uint8, 255), gone=(bool, False), vanished=(bool, False),
            open_dependencies=(np.int32, 0), queued=(bool, True), row=(np.int32, -1))
        self._dirty = RowSet(n_rows_max)  # entries whose state may be another than it was
        self._numbers = NumberTable()
        self._rows = Columns(n_rows_max, entry=(np.int32, 0))
        self.edges = Columns(4 * n_rows_max, source=(np.uint32, 0), target=(np.uint32, 0), known_with=(np.int32, 0))
        self._queue: list[np.ndarray] = []  # entries that are no rows yet
        self._loose: list[tuple[np.ndarray, np.ndarray]] = []  # edges between entries, not both of which are rows yet
        self._open: list[tuple[np.ndarray, np.ndarray]] = []  # edges whose source has not finished
        self._puts = RecentPuts()
        self._functions = Functions(directory.function)
        self.cells: dict[int, CellLabel] = {}
        self._actors = Actors()
        self._workers = Workers()
        self._counts = np.zeros(256, np.int64)
        self._beyond = Aggregate()
        self._folds: dict[EventKind, Callable[[np.ndarray, np.ndarray], None]] = {
            EventKind.PUT: self._fold_put, EventKind.SUBMITTED: self._fold_submitted,
            EventKind.PARENT: self._fold_parent,
            EventKind.DEPENDS: self._fold_depends, EventKind.STARTED: self._fold_started,
            EventKind.RETRIED: self._fold_retried, EventKind.FINISHED: self._fold_finished,
            EventKind.FREED: self._fold_freed, EventKind.ACTOR_CREATED: self._fold_actor_created,
            EventKind.ACTOR_STATE: self._fold_actor_state, EventKind.WORKER_STARTED: self._workers.fold_started,
            EventKind.WORKER_DIED: self._workers.fold_died, EventKind.BLOCKED: self._workers.fold_blocked,
            EventKind.UNBLOCKED: self._workers.fold_unblocked}

    # --- time

    def set_clock(self, ticks0: int, seconds_per_tick: float) -> None:
        """A record's time in seconds since the session began is ``(t - ticks0) * seconds_per_tick``."""
        self._ticks0, self._seconds_per_tick = np.uint64(ticks0), seconds_per_tick

    def seconds(self, ticks: np.ndarray) -> np.ndarray:
        """Ticks as seconds since the session began; NaN for what has not happened."""
        seconds = (ticks - self._ticks0).view(np.int64) * self._seconds_per_tick
        return np.where(ticks == NEVER, np.nan, seconds)

    def _ticks(self, seconds: float) -> int:
        return int(self._ticks0) + int(seconds / self._seconds_per_tick)

    # --- events in

    def fold(self, records: np.ndarray, n_lost: int = 0) -> None:
        """Take in a batch of records (structured, `events.EVENT_DTYPE`), and the number of those lost before it."""
        self.n_dropped += n_lost
        if not len(records):
            return
        self.n_events += len(records)
        times = np.ascontiguousarray(records["t"])
        if (times[1:] < times[:-1]).any():
            order = np.argsort(times, kind="stable")
            records, times = records.take(order), times.take(order)
        self.newest = max(self.newest, int(times[-1]))
        kinds = np.ascontiguousarray(records["kind"])
        present = np.bincount(kinds, minlength=256)
        for kind, fold in self._folds.items():
            if present[kind] == len(records):
                fold(records, times)
            elif present[kind]:
                index = np.flatnonzero(kinds == kind)
                fold(records.take(index), times.take(index))

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

    def _unended(self) -> np.ndarray:
        entries, n = self.entries, self.entries.n
        ended = (entries.state[:n] >= State.FINISHED) & (entries.state[:n] != State.RETRYING)
        return np.flatnonzero(entries.known[:n] & ~ended)

    def _find(self, numbers: np.ndarray, times: np.ndarray) -> np.ndarray:
        """The entries of these task or put numbers; new ones where there are none, -1 when there is no room."""
        plain = numbers & NUMBER_MASK
        found = self._numbers.find(plain)
        if found.min() >= 0 or self.entries.n >= self.n_rows_max:
            return found
        missing = self._numbers.missing(plain, found)[:self.n_rows_max - self.entries.n]
        if len(missing):
            new = self.entries.extend(len(missing))
            self._numbers.assign(missing, new)
            found = new if len(new) == len(plain) else self._numbers.find(plain)
            at = np.flatnonzero(found >= new[0])
            self.entries.seq[found[at]] = numbers[at]
            self.entries.seen[found[at[::-1]]] = times[at[::-1]]  # backwards, so that the first time stays
            objects = at[numbers[at] >= PUT_BIT]
            if len(objects):
                self.entries.kind[found[objects]] = Kind.OBJECT
            self._queue.append(new)
        return found

    def _tracked(self, part: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Records whose task has an entry: (entries, records, times); and the records of the others."""
        at = self._find(part["seq"], times)
        if at.min() >= 0:
            return at, part, times, part[:0]
        inside = np.flatnonzero(at >= 0)
        return at[inside], part.take(inside), times[inside], part.take(np.flatnonzero(at < 0))

    def _described(self, at: np.ndarray) -> None:
        """These entries are now known; those that had been given up are queued again."""
        entries = self.entries
        entries.known[at] = True
        self._dirty.add(at)
        late = at[~entries.queued[at] & (entries.row[at] < 0)]
        if len(late):
            entries.queued[late] = True
            self._queue.append(late)

    def _fold_submitted(self, part: np.ndarray, times: np.ndarray) -> None:
        at, part, times, beyond = self._tracked(part, times)
        self._beyond.submitted += len(beyond)
        entries = self.entries
        entries.submitted[at] = times
        entries.function[at] = self._functions.of(part)
        entries.cell[at] = part["b"]
        entries.actor_index[at] = part["c"]
        self._described(at)

    def _fold_put(self, part: np.ndarray, times: np.ndarray) -> None:
        self._puts.remember(part, times)
        # A small object gets an entry only when something depends on it.
        wanted = part["c"] > OBJECT_BYTES
        if not wanted.all():
            wanted |= self._numbers.find(part["seq"] & NUMBER_MASK) >= 0
            part, times = part.take(np.flatnonzero(wanted)), times[wanted]
        if len(part):
            at, part, times, _ = self._tracked(part, times)
            self._describe_objects(at, times, part["b"], part["c"])

    def _describe_objects(self, at: np.ndarray, times: np.ndarray, cells: np.ndarray, sizes: np.ndarray) -> None:
        entries = self.entries
        entries.submitted[at] = entries.started[at] = entries.finished[at] = times
        entries.cell[at] = cells
        entries.size[at] = sizes
        entries.function[at] = self._functions.number("", "put")
        self._described(at)

    def _fold_parent(self, part: np.ndarray, times: np.ndarray) -> None:
        at, part, times, _ = self._tracked(part, times)
        if len(at):
            self.entries.parent[at] = self._find(_number_in(part), times)

    def _fold_depends(self, part: np.ndarray, times: np.ndarray) -> None:
        target, part, times, _ = self._tracked(part, times)
        if not len(target):
            return
        creators = _number_in(part)
        self._recall_puts(creators)
        source = self._find(creators, times)
        inside = source >= 0
        if not inside.all():
            source, target, creators = source[inside], target[inside], creators[inside]
        self._loose.append((source, target))
        tasks = creators < PUT_BIT
        if tasks.any():
            source, target = source[tasks], target[tasks]
            np.add.at(self.entries.open_dependencies, target, _ONE)
            self._dirty.add(target)
            self._open.append((source, target))

    def _recall_puts(self, creators: np.ndarray) -> None:
        """Objects made by put get their entries when something depends on them, from what was said of them then."""
        numbers = creators[creators >= PUT_BIT]
        if not len(numbers):
            return
        numbers = numbers[self._numbers.find(numbers & NUMBER_MASK) < 0]
        known, times, cells, sizes = self._puts.recall(numbers)
        if known.any():
            at = self._find(numbers[known], times[known])
            inside = at >= 0
            self._describe_objects(at[inside], times[known][inside], cells[known][inside], sizes[known][inside])

    def _fold_started(self, part: np.ndarray, times: np.ndarray) -> None:
        at, part, times, beyond = self._tracked(part, times)
        self._beyond.started += len(beyond)
        workers, pids = part["client"], part["b"]
        self._workers.fold_busy(workers, pids, times, at)
        entries = self.entries
        late = times < entries.started[at]
        if late.any():
            at, times, workers, pids = at[~late], times[~late], workers[~late], pids[~late]
        entries.started[at] = times
        entries.worker[at] = workers
        entries.pid[at] = pids
        self._dirty.add(at)

    def _fold_retried(self, part: np.ndarray, times: np.ndarray) -> None:
        at, part, times, beyond = self._tracked(part, times)
        self._beyond.started -= len(beyond)
        self.entries.retried[at] = np.maximum(times, self.entries.retried[at])
        self._dirty.add(at)

    def _fold_finished(self, part: np.ndarray, times: np.ndarray) -> None:
        at, part, times, beyond = self._tracked(part, times)
        if len(beyond):
            self._beyond.finished += np.bincount(np.minimum(beyond["b"], Status.CRASHED), minlength=4)
        entries = self.entries
        late = times < entries.finished[at]
        if late.any():
            at, part, times = at[~late], part.take(np.flatnonzero(~late)), times[~late]
        entries.finished[at] = times
        entries.status[at] = np.minimum(part["b"], Status.CRASHED)
        entries.size[at] = part["c"]
        self._dirty.add(at)

    def _fold_freed(self, part: np.ndarray, times: np.ndarray) -> None:
        at = self._numbers.find(part["seq"] & NUMBER_MASK)
        self.entries.gone[at[at >= 0]] = True

    def _fold_actor_created(self, part: np.ndarray, times: np.ndarray) -> None:
        at = self._find(part["seq"], times)
        names = self._directory.actor_names()
        for entry, actor, time in zip(at.tolist(), part["a"].tolist(), times.tolist(), strict=True):
            number = self._actors.created(actor, time, entry, names.get(actor, ""))
            if entry >= 0:
                self.entries.kind[entry] = Kind.ACTOR_CREATION
                self.entries.actor[entry] = number + 1

    def _fold_actor_state(self, part: np.ndarray, times: np.ndarray) -> None:
        facts = zip(part["a"].tolist(), part["b"].tolist(), part["c"].tolist(), times.tolist(), strict=True)
        for actor, state, how, time in facts:
            self._actors.changed(actor, time, ACTOR_STATES[min(state, 3)] if not how else CRASHED)

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
        entries = self.entries
        before = self.n_rows
        self._publish(max(self._ticks(now_s), self.newest))
        dirty = self._dirty.below(entries.n)
        self._derive(dirty)
        freed = self._close_edges()
        if len(freed):
            self._derive(freed)
            self._dirty.add(freed)
            dirty = self._dirty.below(entries.n)
        self._dirty.discard(dirty)
        self._count(dirty)
        self._connect(before)
        rows = entries.row[dirty]
        return rows[rows >= 0]

    def is_settled(self) -> bool:
        """Whether nothing waits for a later `refresh` to become a row."""
        return not self._queue

    def _before(self, now: int, span_s: float) -> np.uint64:
        return np.uint64(max(0, now - int(span_s / self._seconds_per_tick)))

    def _publish(self, now: int) -> None:
        """Number the entries that can be shown, in the order of their submission."""
        if not self._queue:
            return
        entries = self.entries
        queue = np.concatenate(self._queue)
        known = entries.known[queue]
        shown = known & (entries.submitted[queue] <= self._before(now, SETTLE_S))
        if not known.all():
            old = ~known & (entries.seen[queue] <= self._before(now, PATIENCE_S))
            objects = entries.kind[queue] == Kind.OBJECT
            entries.vanished[queue[old & objects]] = True  # who knows when it was put, but it was
            acted = entries.started[queue] | entries.finished[queue] | entries.retried[queue] > NEVER
            shown |= old & (acted | objects)
            entries.queued[queue[old & ~shown]] = False
        rows = queue[shown]
        waiting = queue[entries.queued[queue] & ~shown]
        self._queue = [waiting] if len(waiting) else []
        if not len(rows):
            return
        times = np.where(entries.known[rows], entries.submitted[rows], entries.seen[rows])
        if (times[1:] < times[:-1]).any():
            rows = rows[np.argsort(times, kind="stable")]
        entries.queued[rows] = False
        self._dirty.add(rows)
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

    def _derive(self, at: np.ndarray) -> None:
        """States from times: the latest of start, retry and end decides."""
        entries = self.entries
        started, retried, finished = entries.started[at], entries.retried[at], entries.finished[at]
        state = np.where(entries.open_dependencies[at] > 0, np.uint8(State.WAITING), np.uint8(State.READY))
        state[started > NEVER] = State.RUNNING
        state[retried > started] = State.RETRYING
        ended = (finished > NEVER) & (finished >= started) & (finished >= retried)
        state[ended] = _END_STATE[entries.status[at[ended]]]
        state[entries.vanished[at] & ~ended] = State.FINISHED
        entries.state[at] = state

    def _close_edges(self) -> np.ndarray:
        """Take away dependencies that have finished; returns tasks that have become ready by it, some twice."""
        if not self._open:
            return np.zeros(0, np.int64)
        entries = self.entries
        source = np.concatenate([s for s, _ in self._open])
        target = np.concatenate([t for _, t in self._open])
        # An object whose creator is only known by number is as old as the session's forgotten past, and there.
        closed = (entries.state[source] >= State.FINISHED) & (entries.state[source] != State.RETRYING)
        closed |= ~entries.queued[source] & (entries.row[source] < 0)
        self._open = [] if closed.all() else [(source[~closed], target[~closed])]
        freed = target[closed]
        np.subtract.at(entries.open_dependencies, freed, _ONE)
        return freed[entries.open_dependencies[freed] == 0]

    def _count(self, at: np.ndarray) -> None:
        entries = self.entries
        at = at[(entries.row[at] >= 0) & (entries.kind[at] != Kind.OBJECT)]
        self._counts -= np.bincount(entries.counted[at], minlength=256)
        entries.counted[at] = entries.state[at]
        self._counts += np.bincount(entries.counted[at], minlength=256)

    def _connect(self, n_rows_before: int) -> None:
        """Publish edges both ends of which are rows; `known_with`, ascending, is the row with which one can be told."""
        if not self._loose:
            return
        entries = self.entries
        source = np.concatenate([s for s, _ in self._loose])
        target = np.concatenate([t for _, t in self._loose])
        from_row, to_row = entries.row[source], entries.row[target]
        connected = (from_row >= 0) & (to_row >= 0)
        given_up = (from_row < 0) & ~entries.queued[source] | (to_row < 0) & ~entries.queued[target]
        loose = ~connected & ~given_up
        self._loose = [(source[loose], target[loose])] if loose.any() else []
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

    def workers(self) -> dict[int, WorkerLabel]:
        """Every worker by client index."""
        return self._workers.labels(self.entries)

    def row_of(self, number: int) -> int:
        """The row of a task or put number, -1 if it has none (yet)."""
        entry = self._numbers.find(np.array([number & int(NUMBER_MASK)], np.uint64))[0] if self.entries.n else -1
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
        return {
            "row": row, "seq": int(entries.seq[at]), "function": self.functions[entries.function[at]],
            "kind": Kind(entries.kind[at]).name.lower(), "state": State(entries.state[at]).name.lower(), "cell": cell,
            "actor": int(entries.actor[at]) - 1 if entries.actor[at] else None,
            "worker": worker if worker != NO_WORKER else None,
            "pid": int(self._workers.pid[worker]) if worker != NO_WORKER else None,
            **{name: _or_none(self.seconds(getattr(entries, name)[at:at + 1])[0])
               for name in ("submitted", "started", "finished")},
            "size": _or_none(entries.size[at]), "freed": bool(entries.gone[at]),
            "parent": int(entries.row[parent]) if parent >= 0 and entries.row[parent] >= 0 else None,
            "depends_on": sources.tolist()[:100], "needed_by": targets.tolist()[:100]}


def _number_in(part: np.ndarray) -> np.ndarray:
    """The 64-bit number in the fields a and b."""
    return part["a"].astype(np.uint64) | part["b"].astype(np.uint64) << np.uint64(32)


def _distinct(values: np.ndarray) -> set[int]:
    """The distinct values of an array that has long runs."""
    return set(values[np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1])))].tolist())


def _or_none(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
