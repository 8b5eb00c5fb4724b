"""What holds the memory of a session's store: the largest values, and the holders of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...objstore._core import PUT_BIT
from ...observe import processes
from ...observe.holders import Places, holders
from ...observe.objects import largest_objects
from ..graph.row import describe
from ..panel_messages import MemoryReply, ObjectFacts

if TYPE_CHECKING:
    from ..graph.recorder import Recorder

N_OBJECTS = 200  # more boxes than that are specks


def store_map(recorder: Recorder) -> MemoryReply:
    """The largest values with their holders: processes, and variables of the notebook.

    Looks once, which takes milliseconds.
    """
    client = recorder.session.client
    stats = client.stats()
    found = largest_objects(client, N_OBJECTS)
    variables = holders(Places(found))
    rows_of_processes = {row["index"]: row for row in processes.rows(client)}
    names = {task["seq"]: task["name"] for task in client.tasks()}
    with recorder.lock:
        graph = recorder.graph
        rows = [graph.row_of(each["creator"]) for each in found]
        makers = [
            describe(graph, row)["function"] if row >= 0 else names.get(each["creator"], "")
            for row, each in zip(rows, found, strict=True)
        ]
    objects = [
        ObjectFacts(
            row,
            each["size"],
            each["place"],
            each["state"],
            maker or ("put" if each["creator"] & PUT_BIT else ""),
            [
                processes.in_words(rows_of_processes[i]) if i in rows_of_processes else "a process that has ended"
                for i in each["holders"]
            ],
            variables.get(each["id"], []),
            each["pins"],
        )
        for row, maker, each in zip(rows, makers, found, strict=True)
    ]
    return MemoryReply(
        objects,
        stats["n_objects"],
        stats["used_bytes"],
        stats["capacity_bytes"],
        stats["peak_bytes"],
        stats["offloaded_bytes"],
        stats["n_offloaded"],
    )
