"""A front end's model of the graph, as the panel keeps it; checks that messages are as the protocol promises."""

from __future__ import annotations

from collections import Counter
from typing import Any, get_args

from cellmesh.kernel_ext.panel_messages import Arrays, GraphMessage, Kind, Snapshot, State, WorkerState

from cellmesh.observe.states import ACTORS, NODES

# What each kind of label may say of a state; the panel refuses a message with another word.
STATES = {"actors": ACTORS, "workers": get_args(get_args(WorkerState)[0]), "nodes": NODES}


class Replica:
    """Rows, updates and edges, applied in the order of the messages."""

    def __init__(self) -> None:
        self.n = -1
        self.rows: list[tuple[Any, ...]] = []
        self.states: dict[int, tuple[Any, ...]] = {}
        self.called: dict[int, float] = {}
        self.edges: set[tuple[int, int]] = set()
        self.labels: dict[str, dict[int, Any]] = {
            "functions": {},
            "cells": {},
            "actors": {},
            "workers": {},
            "nodes": {},
        }
        self.samples: list[Any] = []
        self.collectives: dict[int, Any] = {}
        self.remote: dict[int, tuple[float, float]] = {}
        self.header: GraphMessage | None = None

    def apply(self, header: GraphMessage, arrays: Arrays) -> None:
        if isinstance(header, Snapshot):
            self.__init__()
        assert header.n == self.n + 1
        self.n, self.header = header.n, header
        for name, known in self.labels.items():
            known.update(dict(getattr(header, name)))
            assert all(label.state in STATES[name] for _, label in getattr(header, name) if name in STATES)
        self.samples += header.samples
        self.collectives.update(header.collectives)
        columns = arrays.new_u32.reshape(5, header.new).T.tolist()
        for row, submitted in zip(columns, arrays.new_submitted.tolist(), strict=True):
            function, cell, actor, parent, kind = row
            assert function in self.labels["functions"] and cell in self.labels["cells"] and parent <= len(self.rows)
            assert not actor or actor - 1 in self.labels["actors"]
            born = State.FINISHED if kind == Kind.OBJECT else State.WAITING
            self.states[len(self.rows)] = (born, 255, None, None, None)
            self.called.pop(len(self.rows), None)
            self.rows.append((function, cell, actor, parent, kind, submitted))
        assert len(set(arrays.update_row.tolist())) == header.updates
        for row, state, worker, *numbers in zip(*(array.tolist() for array in arrays[2:8]), strict=True):
            assert row < len(self.rows)
            self.called.pop(row, None)
            self.states[row] = (state, worker, *(None if number != number else number for number in numbers))
            self.remote.pop(row, None)
        self.remote.update(
            zip(
                arrays.remote_row.tolist(),
                zip(*arrays.remote_times.reshape(2, header.remote).tolist(), strict=True),
                strict=True,
            )
        )
        for row, at in arrays.calls.reshape(-1, 2).tolist():
            assert row in arrays.update_row, "what is told of a call belongs to an update"
            self.called[int(row)] = at
        for source, target in arrays.edges.reshape(-1, 2).tolist():
            assert max(source, target) < len(self.rows)
            self.edges.add((source, target))

    def content(self) -> tuple[Any, ...]:
        assert self.header is not None
        return self.rows, self.states, self.called, self.edges, self.labels, self.header.counts

    def states_of(self, function: str) -> Counter[str]:
        """How many rows of a function are in which state."""
        numbers = {number for number, name in self.labels["functions"].items() if name == function}
        return Counter(
            State(self.states[row][0]).name.lower() for row, columns in enumerate(self.rows) if columns[0] in numbers
        )
