"""What one front end has not seen of a graph: a snapshot, then deltas, each within a budget of bytes. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...session.unfetched_errors import N_KNOWN
from ..panel_messages import (
    BYTES_PER_CALL,
    BYTES_PER_EDGE,
    BYTES_PER_NEW,
    BYTES_PER_REMOTE,
    BYTES_PER_UPDATE,
    ActorLabel,
    Arrays,
    Delta,
    GraphMessage,
    Kind,
    NodeLabel,
    Resources,
    Snapshot,
    State,
    Store,
    WorkerLabel,
)
from .columns import RowSet
from .model import Graph
from .pages import reserve
from .row import there
from .samples import Samples
from .summary import actors_of, counts_of, losses_of, transfers_of, workers_of
from .tables import NEVER

if TYPE_CHECKING:
    from ...session.unfetched_errors import KnownErrors

N_AT_ONCE = 2000  # transfers, losses and collectives in one message, which are JSON
ALL_BYTES = 2**62  # no limit
_NO_RESOURCES, _NO_STORE, _NO_SAMPLES = Resources(), Store(), Samples()
N_ERRORS_AT_ONCE = 200  # likewise, but these are texts

# The arrays of `Arrays` from `update_row` to `update_size`.
UpdateColumns = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


class GraphView:
    """A front end's place in a graph.

    Rows go out in order, each with its present state; a row that changes again before its update was sent is sent once,
    with what it then is. So a slow front end falls behind in time, not in truth, and nothing queues up for it.

    Parameters
    ----------
    graph : Graph
    session : str
        Goes into each message.
    """

    def __init__(self, graph: Graph, session: str = "") -> None:
        self._graph = graph
        self._session = session
        self.restart()

    def restart(self) -> None:
        """Begin again: the next message is a snapshot."""
        self._n = 0
        self._n_rows = self._n_edges = self._n_functions = 0
        self._pending = RowSet(reserve(self._graph.n_rows_max, np.bool_))
        self._turn = 0  # updates are taken from this row on, round and round, so that none starves
        self._cells_told: set[int] = set()
        self._actors_told: dict[int, ActorLabel] = {}
        self._workers_told: dict[int, WorkerLabel] = {}
        self._nodes_told: dict[int, NodeLabel] = {}
        self._n_samples = self._n_losses = self._n_journeys = self._n_remote_workers = self._n_errors = 0
        self._n_collectives = 0
        self._untold_errors: dict[int, str] = {}  # by task: the row may come later
        self._facts_told: tuple[object, ...] = ()

    def mark(self, rows: np.ndarray) -> None:
        """These rows have changed (what `Graph.refresh` returned)."""
        self._pending.add(rows)

    def next(
        self,
        now_s: float,
        budget_bytes: int = ALL_BYTES,
        resources: Resources = _NO_RESOURCES,
        store: Store = _NO_STORE,
        samples: Samples = _NO_SAMPLES,
        n_lines: int = 0,
        errors: KnownErrors | None = None,
    ) -> tuple[GraphMessage, Arrays] | None:
        """The next message, or None when the front end knows everything.

        Parameters
        ----------
        now_s : float
            Seconds since the session began.
        budget_bytes : int
            Bound on the arrays together. New rows get two fifths of it first, since updates and edges need them: in a
            steady stream a row takes as much as its one update and one or two edges.
        resources, store : Resources, Store
            As of now; a change in them alone is worth a message.
        samples : Samples
            Of the machines.
        n_lines : int
            How many lines tasks have printed.
        errors : KnownErrors, optional
            What tasks have failed with.
        """
        graph = self._graph
        first = self._n_rows
        n_new = min(graph.n_rows - first, max(1, budget_bytes * 2 // 5 // BYTES_PER_NEW))
        self._n_rows += n_new
        new = graph.order[first : self._n_rows]
        as_born = self._is_as_born(new)
        self._pending.discard(first + np.flatnonzero(as_born))
        self._pending.add(first + np.flatnonzero(~as_born))
        left = budget_bytes - n_new * BYTES_PER_NEW

        # A number of the column's own type: otherwise the whole column is converted.
        edges_end = int(np.searchsorted(graph.edges.known_with[: graph.edges.n], np.int32(self._n_rows)))
        n_edges = min(edges_end - self._n_edges, max(1, left // 4 // BYTES_PER_EDGE))
        left -= n_edges * BYTES_PER_EDGE
        changed, n_changed = self._take(left)
        calls = self._calls(changed)

        told, n_more_errors = self._errors(errors, N_ERRORS_AT_ONCE if budget_bytes < ALL_BYTES else ALL_BYTES)
        behind = (
            graph.n_rows
            - self._n_rows
            + n_changed
            - len(changed)
            + graph.edges.n
            - self._n_edges
            - n_edges
            + n_more_errors
        )
        counts = counts_of(graph)
        cells = [(number, label) for number, label in graph.cells.items() if number not in self._cells_told]
        actors = [(k, label) for k, label in actors_of(graph).items() if self._actors_told.get(k) != label]
        updates, remote = self._update_columns(
            changed
        )  # before the workers, some of which these may be the first to name
        losses = losses_of(graph, self._n_losses, N_AT_ONCE)
        workers = [
            (k, label)
            for k, label in workers_of(graph, self._n_remote_workers).items()
            if self._workers_told.get(k) != label
        ]
        nodes = [(k, label) for k, label in samples.nodes.items() if self._nodes_told.get(k) != label]
        functions = list(enumerate(graph.functions))[self._n_functions :]
        transfers, n_journeys = transfers_of(graph, self._n_journeys, N_AT_ONCE)
        most = N_AT_ONCE if budget_bytes < ALL_BYTES else ALL_BYTES
        collectives, n_collectives = graph.collectives.since(self._n_collectives, most)
        facts = (counts, resources, store, graph.n_dropped, graph.n_tasks, behind, samples.count, n_lines)
        if (
            self._n
            and facts == self._facts_told
            and not (
                n_new
                or len(changed)
                or n_edges
                or cells
                or actors
                or workers
                or nodes
                or functions
                or transfers
                or losses
                or collectives
                or told
            )
        ):
            return None
        message = (Delta if self._n else Snapshot)(
            n=self._n,
            session=self._session,
            now=now_s,
            tasks=graph.n_tasks,
            aggregated=graph.n_aggregated,
            dropped=graph.n_dropped,
            behind=behind,
            functions=functions,
            cells=cells,
            actors=actors,
            workers=workers,
            nodes=nodes,
            samples=samples.since(self._n_samples),
            transfers=transfers,
            losses=losses,
            collectives=collectives,
            lines=n_lines,
            errors=told,
            counts=counts,
            resources=resources,
            store=store,
            new=n_new,
            updates=len(changed),
            edges=n_edges,
            remote=len(remote[0]),
            calls=len(calls) // 2,
        )
        born, submitted = self._new_columns(new)
        arrays = Arrays(born, submitted, *updates, self._edge_pairs(n_edges), *remote, calls)
        self._n += 1
        self._n_functions += len(functions)
        self._cells_told.update(number for number, _ in cells)
        self._actors_told.update(actors)
        self._workers_told.update(workers)
        self._n_remote_workers = len(graph.remote.workers)
        self._nodes_told.update(nodes)
        self._n_samples, self._n_journeys = samples.count, n_journeys
        self._n_losses += len(losses)
        self._n_collectives = n_collectives
        self._facts_told = facts
        return message, arrays

    def _errors(self, known: KnownErrors | None, most: int) -> tuple[list[tuple[int, str]], int]:
        """Errors of rows that the front end knows, or will know with this message, and how many more there are."""
        if known is not None:
            new, self._n_errors = known.since(self._n_errors)
            self._untold_errors.update(new)
            for task in list(self._untold_errors)[:-N_KNOWN]:  # tasks beyond the rows that a graph keeps
                del self._untold_errors[task]
        found = [(row, task) for task in self._untold_errors if 0 <= (row := self._graph.row_of(task)) < self._n_rows]
        told = [(row, self._untold_errors.pop(task)) for row, task in found[:most]]
        return told, len(found) - len(told)

    def _is_as_born(self, entries: np.ndarray) -> np.ndarray:
        columns = self._graph.entries
        plain = (columns.state[entries] == State.WAITING) & (columns.started[entries] == NEVER)
        return plain & (columns.kind[entries] != Kind.OBJECT)

    def _take(self, budget_bytes: int) -> tuple[np.ndarray, int]:
        """As many rows to update as the budget has room for, and how many there were."""
        waiting = self._pending.below(self._n_rows)
        chosen = waiting
        if len(waiting) * (BYTES_PER_UPDATE + BYTES_PER_CALL + BYTES_PER_REMOTE) > max(0, budget_bytes):
            start = int(np.searchsorted(waiting, self._turn))
            chosen = np.concatenate((waiting[start:], waiting[:start]))[: 1 + max(0, budget_bytes) // BYTES_PER_UPDATE]
            entries = self._graph.order[chosen]
            is_called, is_remote = ~np.isnan(self._graph.called(entries)), self._graph.entries.node[entries] > 0
            needed = np.cumsum(BYTES_PER_UPDATE + BYTES_PER_CALL * is_called + BYTES_PER_REMOTE * is_remote)
            chosen = chosen[: max(1, int(np.searchsorted(needed, budget_bytes, side="right")))]
            self._turn = int(chosen[-1]) + 1
        self._pending.discard(chosen)
        return chosen, len(waiting)

    def _new_columns(self, entries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        columns = self._graph.entries
        parents = columns.parent[entries]
        # A parent that became a row only after its child (its own submission was lost) is not known yet.
        known = (parents >= 0) & (columns.row[parents] < columns.row[entries])
        parent_rows = np.where(known, columns.row[parents] + 1, 0)
        block = np.empty((5, len(entries)), np.uint32)
        for at, values in enumerate(
            (
                columns.function[entries],
                columns.cell[entries],
                columns.actor[entries],
                parent_rows,
                columns.kind[entries],
            )
        ):
            block[at] = values
        return block.reshape(-1), self._graph.seconds(columns.submitted[entries])

    def _update_columns(self, rows: np.ndarray) -> tuple[UpdateColumns, tuple[np.ndarray, np.ndarray]]:
        columns = self._graph.entries
        entries = self._graph.order[rows]
        worker, started = columns.worker[entries].astype(np.uint16), self._graph.seconds(columns.started[entries])
        remote = np.flatnonzero(columns.node[entries])
        times = np.zeros(0)
        if len(remote):
            worker[remote], sent, started[remote], ended = there(self._graph, entries[remote])
            times = np.concatenate((sent, ended))
        updates = (
            rows.astype(np.uint32),
            columns.state[entries],
            worker,
            started,
            self._graph.seconds(columns.finished[entries]),
            columns.size[entries],
        )
        return updates, (rows[remote].astype(np.uint32), times)

    def _calls(self, rows: np.ndarray) -> np.ndarray:
        called = self._graph.called(self._graph.order[rows])
        known = np.flatnonzero(~np.isnan(called))
        return np.column_stack((rows[known], called[known])).reshape(-1)

    def _edge_pairs(self, count: int) -> np.ndarray:
        begin, self._n_edges = self._n_edges, self._n_edges + count
        edges = self._graph.edges
        pairs = np.empty((count, 2), np.uint32)
        pairs[:, 0] = edges.source[begin : self._n_edges]
        pairs[:, 1] = edges.target[begin : self._n_edges]
        return pairs.reshape(-1)
