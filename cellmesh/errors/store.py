"""What the store refuses, in words: which table is full, what fills the memory, and what helps."""

from __future__ import annotations

import re
from collections.abc import Callable

from .. import exceptions
from ..session.current import forked_error, lost_error, process
from ..session.placement_labels import label_of
from ..text import in_bytes

# As `objstore/binding/value.c` says it.
_SIZES = re.compile(r"an object of (\d+) bytes does not fit: the object store holds (\d+) bytes")
_NUMBER = re.compile(r"(\d+) bytes\b")
# By what the store calls a table whose size is fixed.
FULL_TABLES = {
    "actors": "this session has as many actors as it can have, 4,096, dead ones to which there are handles included. "
    "kill() those whose work is done and drop their handles, or let one actor do the work of several",
    "resource shapes": "the tasks and actors that live now ask for as many different combinations of resources "
    "(num_cpus=...), environments (runtime_env=...), nodes and placement groups as there can be at a time, 512. "
    "Wait until some have ended, kill() actors that are not needed, or use fewer different amounts and "
    "environments",
    "bundles": "the placement groups of this session have as many bundles as there can be, 255. Remove groups that "
    "are not needed any more (remove_placement_group), or make them of fewer, larger bundles",
    "clients": "256 processes use this session, and no more can: shut down drivers that are not needed",
}


def store_error(code: str, detail: str, memory: Callable[[], str] = str) -> BaseException:
    """The exception for a refusal of the store. `memory`: says what fills it."""
    if code == "closed":
        session = process.session
        if session is not None and session.client.closed:  # nobody here has ended it
            return lost_error(session)
        return exceptions.SessionClosedError(
            f"{detail}; refs and handles of a session end with it. cellmesh.init() starts a new one"
        )
    if code == "forked":
        return forked_error()
    if code == "unplaced":
        return exceptions.TaskPlacementGroupRemoved(
            f"{label_of(int(detail))} has been removed, so nothing can run in it"
        )
    if code in ("full", "disk") and process.session is not None:
        detail = _full_memory(detail, memory)
    if code == "limit":
        detail = _full_table(detail)
    kinds = {
        "pending": exceptions.PendingCallsLimitExceeded,
        "full": exceptions.ObjectStoreFullError,
        "disk": exceptions.OutOfDiskError,
        "lost": exceptions.ObjectLostError,
        "limit": exceptions.StoreLimitError,
        "corrupt": exceptions.StoreCorruptedError,
    }
    return kinds.get(code, exceptions.CellmeshError)(detail)


def named(error: exceptions.ObjectStoreFullError, subject: str) -> exceptions.ObjectStoreFullError:
    """The same error, which says what it was that the store has no room for, in place of "an object"."""
    _, found, rest = str(error).partition(" does not fit")
    return type(error)(f"{subject}{found}{rest}") if found else error


def _full_memory(detail: str, memory: Callable[[], str]) -> str:
    sizes = _SIZES.search(detail)
    said = _NUMBER.sub(lambda number: in_bytes(int(number[1])), detail)
    if sizes is not None and int(sizes[1]) >= int(sizes[2]):  # then it helps nobody to know who holds what
        return (
            f"{said} It is larger than the whole store: start with more, cellmesh.shutdown() and "
            f"cellmesh.init(object_store_memory=...) with more than {in_bytes(int(sizes[1]))}."
        )
    return (
        f"{said} Drop references that are no longer needed (del, and Out[n] in a notebook), or start with a larger "
        f"object_store_memory.\n{memory()}"
    )


def _full_table(table: str) -> str:
    if table in FULL_TABLES or process.session is None:
        return FULL_TABLES.get(table, table)
    stats = process.session.client.stats()
    tasks = stats["n_tasks"] >= stats["max_tasks"]
    return (
        f"there is no room for another {'task' if tasks else 'object'}: there are {stats['n_tasks']:,} unfinished "
        f"tasks (at most {stats['max_tasks']:,}) and {stats['n_objects']:,} objects (at most "
        f"{stats['max_objects']:,}). Submit fewer at a time (wait() tells when some have ended), drop refs that are "
        f"not needed any more, or start the session with init({'max_tasks' if tasks else 'max_objects'}=...)"
    )
