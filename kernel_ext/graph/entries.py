"""The tables of the graph model, column by column. Pure.

Times are in ticks of the ring's clock; `tables.NEVER` stands for what has not happened. `_fold` (in C) finds columns
by these names.
"""

from __future__ import annotations

import numpy as np

from ..panel_messages import NO_WORKER, Kind, State
from .columns import Columns
from .tables import NEVER


class Entries(Columns):
    """One row for each task or object that an event has mentioned."""

    seq: np.ndarray  # number of the task, or of the object made by put
    seen: np.ndarray  # time of the earliest event that mentions it
    submitted: np.ndarray  # time
    known: np.ndarray  # it has been described: SUBMITTED or PUT was read
    started: np.ndarray  # time at which the latest attempt began
    called: np.ndarray  # time at which the user's code began
    retried: np.ndarray  # time at which an attempt was lost
    finished: np.ndarray  # time
    size: np.ndarray  # of the result, in bytes
    function: np.ndarray  # number of the function
    cell: np.ndarray  # number of the run of a cell
    actor_index: np.ndarray  # slot of the called actor + 1, 0 for none
    actor: np.ndarray  # number of the actor + 1, 0 for none
    parent: np.ndarray  # entry of the task that submitted it
    pid: np.ndarray  # of the worker
    worker: np.ndarray  # client index
    status: np.ndarray  # see `events.Status`
    kind: np.ndarray  # see `panel_messages.Kind`
    state: np.ndarray  # see `observe.states.State`
    counted: np.ndarray  # state in which it is counted
    gone: np.ndarray  # the value has been freed
    vanished: np.ndarray  # it ended, or was put, and the event was lost
    open_dependencies: np.ndarray  # how many are not finished
    queued: np.ndarray  # it is no row yet
    dirty: np.ndarray  # its state may have changed
    row: np.ndarray  # its row, -1 for none
    changed: np.ndarray  # scratch: rows of the last `derive`
    node: np.ndarray  # machine to which it was sent
    pid_there: np.ndarray  # of the worker there
    ran: np.ndarray  # time at which RAN was read
    began: np.ndarray  # time at which it began there
    ended: np.ndarray  # time at which it ended there

    def __init__(self, limit: int) -> None:
        super().__init__(
            limit,
            seq=(np.uint64, 0),
            seen=(np.uint64, 0),
            submitted=(np.uint64, NEVER),
            known=(bool, False),
            started=(np.uint64, NEVER),
            called=(np.uint64, NEVER),
            retried=(np.uint64, NEVER),
            finished=(np.uint64, NEVER),
            size=(np.float64, np.nan),
            function=(np.int32, 0),
            cell=(np.uint32, 0),
            actor_index=(np.uint32, 0),
            actor=(np.uint32, 0),
            parent=(np.int32, -1),
            pid=(np.uint32, 0),
            worker=(np.uint8, NO_WORKER),
            status=(np.uint8, 0),
            kind=(np.uint8, Kind.TASK),
            state=(np.uint8, State.WAITING),
            counted=(np.uint8, 255),
            gone=(bool, False),
            vanished=(bool, False),
            open_dependencies=(np.int32, 0),
            queued=(bool, True),
            dirty=(bool, False),
            row=(np.int32, -1),
            changed=(np.int32, 0),
            node=(np.uint32, 0),
            pid_there=(np.uint32, 0),
            ran=(np.uint64, NEVER),
            began=(np.uint64, NEVER),
            ended=(np.uint64, NEVER),
        )


class Rows(Columns):
    """What front ends know: rows, in the order of submission."""

    entry: np.ndarray  # of each row

    def __init__(self, limit: int) -> None:
        super().__init__(limit, entry=(np.int32, 0))


class Edges(Columns):
    """Dependencies between rows, in the order in which they can be told."""

    source: np.ndarray
    target: np.ndarray
    known_with: np.ndarray  # the row with which the edge can be told

    def __init__(self, limit: int) -> None:
        super().__init__(limit, source=(np.uint32, 0), target=(np.uint32, 0), known_with=(np.int32, 0))


class EntryEdges(Columns):
    """Dependencies between entries."""

    source: np.ndarray
    target: np.ndarray

    def __init__(self, limit: int) -> None:
        super().__init__(limit, source=(np.int32, 0), target=(np.int32, 0))
