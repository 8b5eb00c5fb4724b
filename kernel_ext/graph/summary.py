"""What a graph says as a whole: how many tasks are in which state, its actors, workers, transfers and losses. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..panel_messages import FIRST_REMOTE_WORKER, UNKNOWN, ActorLabel, Counts, Kind, Loss, State, Transfer, WorkerLabel
from .remote import Journey
from .tables import CRASHED

if TYPE_CHECKING:
    from .model import Graph

_COUNTED = {
    int(State.WAITING): "waiting",
    int(State.QUEUED): "queued",
    int(State.RUNNING): "running",
    int(State.FINISHED): "finished",
    int(State.FAILED): "failed",
    int(State.CANCELLED): "cancelled",
    int(State.RETRYING): "queued",
}


def counts_of(graph: Graph) -> Counts:
    """Tasks by state, those without a row included."""
    total = dict.fromkeys(Counts.__struct_fields__, 0)
    for state, name in _COUNTED.items():
        total[name] += int(graph.state_counts[state])
    for name, count in graph.beyond.counts().items():
        total[name] += count
    return Counts(**total)


def counts_of_cell(graph: Graph, number: int) -> dict[str, dict[str, int]]:
    """The tasks of one cell by function, in the order in which these came, and by state: fields of `Counts`."""
    entries, n = graph.entries, graph.entries.n
    at = np.flatnonzero(entries.known[:n] & (entries.cell[:n] == number) & (entries.kind[:n] != Kind.OBJECT))
    pairs, first, numbers = np.unique(
        entries.function[at].astype(np.int64) << 8 | entries.state[at], return_index=True, return_counts=True
    )
    found: dict[str, dict[str, int]] = {}
    for i in np.argsort(first).tolist():
        function, state = divmod(int(pairs[i]), 256)
        states, name = found.setdefault(graph.functions[function], {}), _COUNTED[state]
        states[name] = states.get(name, 0) + int(numbers[i])
    return found


def actors_of(graph: Graph) -> dict[int, ActorLabel]:
    """Every actor by number. The class is the function of the creation task."""
    labels = {}
    for number, actor in enumerate(graph.actor_lives.by_number):
        entry = actor.entry
        cls = graph.functions[graph.entries.function[entry]] if entry >= 0 else UNKNOWN
        pid = int(graph.entries.pid[entry]) if entry >= 0 else 0
        crashed = actor.state == CRASHED
        name, group, rank = actor.identity
        labels[number] = ActorLabel(name, cls, "dead" if crashed else actor.state, pid, crashed, group, rank)
    return labels


def workers_of(graph: Graph, n_told: int = 0) -> dict[int, WorkerLabel]:
    """Every worker by its number: those of this machine by client index, remote ones from `FIRST_REMOTE_WORKER` on.

    The first `n_told` of the latter are left out: nothing changes in their labels, and they may be thousands.
    """
    labels = graph.worker_lives.labels(graph.entries, graph.seconds)
    labels.update(
        {
            FIRST_REMOTE_WORKER + at: WorkerLabel(pid, "remote", node=node)
            for at, (node, pid) in enumerate(graph.remote.workers[n_told:], n_told)
        }
    )
    return labels


def transfers_of(graph: Graph, first: int, most: int) -> tuple[list[tuple[int, Transfer]], int]:
    """What there is to say of journeys since the change of this number, and the number of the next one."""
    changed = graph.remote.changed[first : first + most]
    told = [(at, _transfer(graph, graph.remote.journeys[at])) for at in dict.fromkeys(changed)]
    return told, first + len(changed)


def _transfer(graph: Graph, journey: Journey) -> Transfer:
    began, ended = graph.seconds(np.array([journey.began, journey.ended], np.uint64)).tolist()
    return Transfer(
        graph.row_of(journey.creator),
        journey.node,
        journey.comes,
        journey.size,
        began,
        ended if journey.ended else None,
        journey.complete,
    )


def losses_of(graph: Graph, first: int, most: int) -> list[Loss]:
    """Attempts that were lost with their machine, from this one on."""
    lost = graph.remote.lost
    at = slice(first, min(int(lost["n_lost"][0]), first + most))
    if at.stop <= first:
        return []
    rows = graph.entries.row[lost["lost_entry"][at]].tolist()
    workers = graph.remote.workers_of(lost["lost_node"][at], lost["lost_pid"][at]).tolist()
    times = (graph.seconds(lost[name][at]).tolist() for name in ("lost_sent", "lost_began", "lost_at"))
    return [
        Loss(row, worker, sent, None if began != began else began, end)
        for row, worker, sent, began, end in zip(rows, workers, *times, strict=True)
    ]
