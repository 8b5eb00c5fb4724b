"""What the event ring tells about tasks, folded into one record each; for listings, the timeline and error messages.

The ring holds the last 100,000 or so events; of older tasks nothing is known here any more.
"""
from __future__ import annotations

import struct
from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from .function_names import name_of

if TYPE_CHECKING:
    from .objstore._core import Client

RECORD = struct.Struct("<QQIIIHBB")  # as EVENT_DTYPE: t, seq, a, b, c, d, kind, client
KIND_AT = 30
SUBMITTED, PARENT, DEPENDS, STARTED, FINISHED, RETRIED, WORKER_STARTED, RAN, CALLED = 1, 2, 3, 4, 5, 6, 11, 15, 18
RUNS_ON = 2**32 - 1
ENDS = {0: "finished", 1: "failed", 2: "cancelled", 3: "crashed"}
PUT_BIT = 1 << 63
BATCH = 1 << 16  # records fetched at a time


@dataclass(slots=True)
class TaskHistory:
    """One task, as far as the ring goes back. Times are in Unix seconds.

    Of one that was sent to another machine `node` is the last 32 bits of that one's number, and `pid` is a process there; `started_at` when
    it began there, as far as that is known, else when it was sent, and `ended_at` when it ended there.
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


def records(client: Client) -> Iterator[tuple[int, ...]]:
    """As `RECORD` says, one after the other: all of them at once would be 100,000 tuples."""
    return chain.from_iterable(map(RECORD.iter_unpack, _batches(client)))


def read_history(client: Client) -> list[TaskHistory]:
    """The tasks of the ring, in the order of their numbers."""
    tasks: dict[int, TaskHistory] = {}
    names: dict[tuple[int, int], str] = {}
    ticks_0, ns_0, ns_per_tick = client.clock()

    def unix(t: int) -> float:
        return (ns_0 + (t - ticks_0) * ns_per_tick) / 1e9

    for t, seq, a, b, c, d, kind, worker in records(client):
        if kind not in (SUBMITTED, PARENT, DEPENDS, STARTED, FINISHED, RETRIED, RAN, CALLED):
            continue
        task = tasks.get(seq) or tasks.setdefault(seq, TaskHistory(seq))
        if kind == SUBMITTED:
            if (a, d) not in names:
                names[a, d] = _function_name(client, a, d)
            task.name, task.origin, task.actor, task.submitted_at = names[a, d], b, c - 1, unix(t)
        elif kind == PARENT:
            task.parent = a | b << 32
        elif kind == DEPENDS:
            task.depends_on.append(a | b << 32)
        elif kind == STARTED:
            task.state, task.attempt, task.worker, task.pid, task.started_at = "running", a, worker, b, unix(t)
            task.node, task.sent_at, task.ended_at = c, unix(t) if c else None, None
        elif kind == RAN:
            task.pid, task.started_at = a, unix(t - (b << d))
            task.ended_at = None if c == RUNS_ON else unix(t - (c << d))
        elif kind == CALLED:
            task.called_at = unix(t)
        elif kind == RETRIED:
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
                record = RECORD.unpack_from(data, at - 8)
                if record[6] == SUBMITTED:
                    return _function_name(client, record[2], record[5]), record[3]
            at = data.find(wanted, at + 1)
    return "", 0


def names_of(client: Client, numbers: Set[int]) -> dict[int, str]:
    """The display names of tasks, of those that the ring still knows, by their numbers."""
    functions = {}
    for data in _batches(client):
        kinds, words = data[KIND_AT::RECORD.size], memoryview(data).cast("Q")
        at = kinds.find(SUBMITTED)
        while at >= 0:  # a tuple for each of 100,000 records would cost the cell that asks a tenth of a second
            if (seq := words[4 * at + 1]) in numbers:
                record = RECORD.unpack_from(data, at * RECORD.size)
                functions[seq] = record[2], record[5]
            at = kinds.find(SUBMITTED, at + 1)
    names = {function: _function_name(client, *function) for function in set(functions.values())}
    return {number: names[function] for number, function in functions.items()}


def _function_name(client: Client, slot: int, generation: int) -> str:
    found = name_of(client, slot, generation)
    return found[1] if found is not None else "?"
