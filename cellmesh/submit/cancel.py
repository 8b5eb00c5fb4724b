"""Cancels the task of a ref, and the tasks that it has started."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ..session.current import current_or_none

if TYPE_CHECKING:
    from ..refs import ObjectRef


def cancel_task(ref: ObjectRef, *, force: bool = False, recursive: bool = True) -> bool:
    """Cancel the task of a ref; whether there was anything to cancel, which calls of actors never are by `force`."""
    client, below, outcomes = ref.client, deque([ref]), []
    while below:  # no recursion: tasks may be nested deeper than Python's frames
        task = below.popleft()
        kills = force and client.info(task)["actor"] < 0
        cancelled = client.cancel(task, kills)
        if kills and (of := current_or_none()) is not None:
            of.note_killed(cancelled.pid)
        outcomes.append(cancelled.outcome)
        if recursive and cancelled.outcome in ("running", "actor"):
            below += client.children(cancelled.task)
    return outcomes[0] not in ("finished", "put")
