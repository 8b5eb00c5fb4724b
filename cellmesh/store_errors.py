"""What the store refuses, in words: which table is full, what fills the memory, and what helps."""
from __future__ import annotations

from . import exceptions
from . import session as sessions

N_HOLDERS_NAMED = 5  # of a full store
# By what the store calls a table whose size is fixed.
FULL_TABLES = {
    "actors": "this session has as many actors as it can have, 4,096, dead ones to which there are handles included. kill() those "
              "whose work is done and drop their handles, or let one actor do the work of several",
    "resource shapes": "the tasks and actors that live now ask for as many different combinations of resources (num_cpus=...), environments "
                       "(runtime_env=...), nodes and placement groups as there can be at a time, 512. Wait until some have ended, kill() "
                       "actors that are not needed, or use fewer different amounts and environments",
    "bundles": "the placement groups of this session have as many bundles as there can be, 255. Remove groups that are not "
               "needed any more (remove_placement_group), or make them of fewer, larger bundles",
    "clients": "256 processes use this session, and no more can: shut down drivers that are not needed",
}


def store_error(code: str, detail: str) -> BaseException:
    """The exception for a refusal of the store."""
    if code == "closed":
        session = sessions.process.session
        if session is not None and session.client.closed:  # nobody here has ended it
            return sessions.lost_error(session)
        return exceptions.SessionClosedError(f"{detail}; refs and handles of a session end with it. cellmesh.init() "
                                             "starts a new one")
    if code == "forked":
        return sessions.forked_error()
    if code == "unplaced":
        from .placement import label_of
        return exceptions.TaskPlacementGroupRemoved(f"{label_of(int(detail))} has been removed, so nothing can run in it")
    if code in ("full", "disk") and sessions.process.session is not None:
        from .state import memory
        detail = (f"{detail} Drop references that are no longer needed (del, and Out[n] in a notebook), or start with a larger "
                  f"object_store_memory.\n{memory(N_HOLDERS_NAMED, 'memory')}")
    if code == "limit":
        detail = _full_table(detail)
    kinds = {"pending": exceptions.PendingCallsLimitExceeded, "full": exceptions.ObjectStoreFullError,
             "disk": exceptions.OutOfDiskError, "lost": exceptions.ObjectLostError,
             "limit": exceptions.StoreLimitError, "corrupt": exceptions.StoreCorruptedError}
    return kinds.get(code, exceptions.CellmeshError)(detail)


def _full_table(table: str) -> str:
    if table in FULL_TABLES or sessions.process.session is None:
        return FULL_TABLES.get(table, table)
    stats = sessions.process.session.client.stats()
    tasks = stats["n_tasks"] >= stats["max_tasks"]
    return (f"there is no room for another {'task' if tasks else 'object'}: there are {stats['n_tasks']:,} unfinished tasks (at most "
            f"{stats['max_tasks']:,}) and {stats['n_objects']:,} objects (at most {stats['max_objects']:,}). Submit fewer at a time "
            "(wait() tells when some have ended), drop refs that are not needed any more, or start the session with "
            f"init({'max_tasks' if tasks else 'max_objects'}=...)")
