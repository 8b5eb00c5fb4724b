"""What the event ring tells about tasks, folded into one record each; for listings, the timeline and error messages.

The ring holds the last 524,288 events; older tasks are unknown here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from ..objstore._core import (
    EVENT_CALLED,
    EVENT_CANCELLED,
    EVENT_CRASHED,
    EVENT_DEPENDS,
    EVENT_ERROR,
    EVENT_FINISHED,
    EVENT_FORMAT,
    EVENT_OK,
    EVENT_PARENT,
    EVENT_RAN,
    EVENT_RETRIED,
    EVENT_RUNS_ON,
    EVENT_STARTED,
    EVENT_SUBMITTED,
)
from .function_names import name_of
from .states import UNKNOWN

if TYPE_CHECKING:
    from ..objstore._core import Client

RECORD = struct.Struct(EVENT_FORMAT)
KIND_AT = struct.calcsize(EVENT_FORMAT[:-2])  # kind and client are the last two bytes
ENDS = {
    EVENT_OK: "finished",
    EVENT_ERROR: "failed",
    EVENT_CANCELLED: "cancelled",
    EVENT_CRASHED: "crashed",
}
OF_TASKS = frozenset(
    (
        EVENT_SUBMITTED,
        EVENT_PARENT,
        EVENT_DEPENDS,
        EVENT_STARTED,
        EVENT_FINISHED,
        EVENT_RETRIED,
        EVENT_RAN,
        EVENT_CALLED,
    )
)
BATCH = 1 << 16  # records fetched at a time


@dataclass(slots=True)
class TaskHistory:
    """One task, as far as the ring goes back. Times are in Unix seconds.

    Of one that was sent to another machine `node` is the last 32 bits of that one's number, and `pid` is a process
    there; `started_at` when it began there, as far as that is known, else when it was sent, and `ended_at` when it
    ended there.
    """

    seq: int
    name: str = ""
    origin: int = 0
    actor: int = -1
    parent: int = 0
    depends_on: list[int] = field(default_factory=list)
    state: str = "pending"
    attempt: int = 0
    worker: int = -1
    pid: int = 0
    size: int = 0
    submitted_at: float | None = None
    started_at: float | None = None
    called_at: float | None = None  # when the user's code began, if loading it or its arguments took long
    finished_at: float | None = None
    node: int = 0
    sent_at: float | None = None
    ended_at: float | None = None

    @property
    def seconds(self) -> float | None:
        """How long it ran."""
        end = self.ended_at or self.finished_at
        return end - self.started_at if end and self.started_at else None


def _batches(client: Client) -> Iterator[bytes]:
    """All that the ring still holds, the oldest first."""
    cursor = 0
    while True:
        data, cursor, _ = client.events(cursor, BATCH)
        if not data:
            return
        yield data


class Event(NamedTuple):
    """One record of the event ring; what `a` to `d` mean, `core/memory/event.h` says by kind."""

    t: int
    seq: int
    a: int
    b: int
    c: int
    d: int
    kind: int
    client: int


def _tuples(client: Client) -> Iterator[tuple[int, ...]]:
    """The fields of each record, one after the other: all of them at once would be 500,000 tuples."""
    return chain.from_iterable(map(RECORD.iter_unpack, _batches(client)))


def records(client: Client) -> Iterator[Event]:
    """The records that the ring still holds, the oldest first."""
    return map(Event._make, _tuples(client))


def read_history(client: Client) -> list[TaskHistory]:
    """The tasks of the ring, in the order of their numbers."""
    tasks: dict[int, TaskHistory] = {}
    names: dict[tuple[int, int], str] = {}
    clock = client.clock()

    def unix(t: int) -> float:
        return (clock.unix_ns + (t - clock.ticks) * clock.ns_per_tick) / 1e9

    for t, seq, a, b, c, d, kind, worker in _tuples(client):
        if kind not in OF_TASKS:
            continue
        task = tasks.get(seq) or tasks.setdefault(seq, TaskHistory(seq))
        if kind == EVENT_SUBMITTED:
            if (a, d) not in names:
                names[a, d] = _function_name(client, a, d)
            task.name, task.origin, task.actor, task.submitted_at = names[a, d], b, c - 1, unix(t)
        elif kind == EVENT_PARENT:
            task.parent = a | b << 32
        elif kind == EVENT_DEPENDS:
            task.depends_on.append(a | b << 32)
        elif kind == EVENT_STARTED:
            task.state, task.attempt, task.worker, task.pid, task.started_at = "running", a, worker, b, unix(t)
            task.node, task.sent_at, task.ended_at = c, unix(t) if c else None, None
        elif kind == EVENT_RAN:
            task.pid, task.started_at = a, unix(t - (b << d))
            task.ended_at = None if c == EVENT_RUNS_ON else unix(t - (c << d))
        elif kind == EVENT_CALLED:
            task.called_at = unix(t)
        elif kind == EVENT_RETRIED:
            task.state, task.attempt, task.started_at, task.called_at = "pending", a, None, None
        else:
            task.state, task.size, task.finished_at = ENDS.get(b, "finished"), c, unix(t)
    return [tasks[seq] for seq in sorted(tasks)]


def name_of_task(client: Client, seq: int) -> str:
    """The display name of a task, "" if the ring does not know it any more."""
    return submission_of(client, seq)[0]


def submission_of(client: Client, seq: int) -> tuple[str, int]:
    """The display name of a task and its origin, ("", 0) if the ring does not know it any more."""
    if client.closed:
        return "", 0
    wanted = struct.pack("<Q", seq)
    for data in _batches(client):
        at = data.find(wanted)
        while at >= 0:
            if at % RECORD.size == 8:
                event = Event._make(RECORD.unpack_from(data, at - 8))
                if event.kind == EVENT_SUBMITTED:
                    return _function_name(client, event.a, event.d), event.b
            at = data.find(wanted, at + 1)
    return "", 0


def names_of(client: Client, numbers: Set[int]) -> dict[int, str]:
    """The display names of tasks, of those that the ring still knows, by their numbers."""
    functions = {event.seq: (event.a, event.d) for event in _events_of(client, EVENT_SUBMITTED, numbers)}
    names = {function: _function_name(client, *function) for function in set(functions.values())}
    return {number: names[function] for number, function in functions.items()}


def submitters_of(client: Client, numbers: Set[int]) -> dict[int, tuple[int, int]]:
    """The clients that have submitted tasks, each with the task in which it did, 0 for none; of those that the ring
    still knows, by their numbers.
    """
    parents = {event.seq: event.a | event.b << 32 for event in _events_of(client, EVENT_PARENT, numbers)}
    return {
        event.seq: (event.client, parents.get(event.seq, 0)) for event in _events_of(client, EVENT_SUBMITTED, numbers)
    }


def _events_of(client: Client, kind: int, numbers: Set[int]) -> Iterator[Event]:
    """The records of a kind about these tasks."""
    for data in _batches(client):
        kinds, words = data[KIND_AT :: RECORD.size], memoryview(data).cast("Q")
        at = kinds.find(kind)
        while at >= 0:  # a tuple for each of 100,000 records would cost the cell that asks a tenth of a second
            if words[4 * at + 1] in numbers:
                yield Event._make(RECORD.unpack_from(data, at * RECORD.size))
            at = kinds.find(kind, at + 1)


def _function_name(client: Client, slot: int, generation: int) -> str:
    _, name = name_of(client, slot, generation) or ("", UNKNOWN)
    return name
