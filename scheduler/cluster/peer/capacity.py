"""What this node's own segment refuses for want of room. That ends what needs the room, never the agent; other refusals
(the session has ended, its memory has been overwritten) do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ....objstore._core import StoreError

_TABLES = {
    "clients": "more than 256 processes and machines in one session",
    "resource shapes": "more different amounts of resources than it can tell apart",
}


def is_full(error: StoreError) -> bool:
    """Whether a table, the memory or the disk is full; the error's code is from objstore/binding/client.c."""
    return error.code in ("full", "disk", "limit")


def why_full(error: StoreError) -> str:
    """That, for people."""
    if error.code != "limit":
        return f"this session has no memory left for what comes from it: {error}"
    return f"this session has no room for {_TABLES.get(str(error), error)}; see max_objects and max_tasks of init"
