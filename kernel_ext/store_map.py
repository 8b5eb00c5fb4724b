"""What holds the memory of a session's store, and who holds that."""
from __future__ import annotations

from typing import TYPE_CHECKING

from .. import attached
from ..history import PUT_BIT
from ..holders import Places, holders
from ..state import largest_objects
from .panel_messages import MemoryReply, ObjectFacts

if TYPE_CHECKING:
    from .recorder import Recorder

N_OBJECTS = 200  # more boxes than that are specks


def store_map(recorder: Recorder) -> MemoryReply:
    """The largest values with their holders: processes, and variables of the notebook. Looks once; takes milliseconds."""
    client = recorder.session.client
    stats = client.stats()
    found = largest_objects(client, N_OBJECTS)
    variables = holders(Places(found))
    processes = {row["index"]: row for row in attached.rows(client)}
    names = {task["seq"]: task["name"] for task in client.tasks()}
    with recorder.lock:
        graph = recorder.graph
        rows = [graph.row_of(each["creator"]) for each in found]
        makers = [graph.describe(row)["function"] if row >= 0 else names.get(each["creator"], "")
                  for row, each in zip(rows, found, strict=True)]
    objects = [ObjectFacts(row, each["size"], each["place"], each["state"],
                           maker or ("put" if each["creator"] & PUT_BIT else ""),
                           [attached.in_words(processes[i]) if i in processes else "a process that has ended"
                            for i in each["holders"]],
                           variables.get(each["id"], []), each["pins"])
               for row, maker, each in zip(rows, makers, found, strict=True)]
    return MemoryReply(objects, stats["n_objects"], stats["used_bytes"], stats["capacity_bytes"], stats["peak_bytes"],
                       stats["disk_bytes"], stats["n_on_disk"])
