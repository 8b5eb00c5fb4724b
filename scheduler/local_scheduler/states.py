"""The life of a worker process as the local scheduler sees it.

    STARTING --attached--> READY --retired--> LEAVING
        |                    |                   |
        +-------exited-------+------exited-------+--> (forgotten)

What a worker does (idle, busy, blocked, serving an actor) is not here: that lies in the segment, where it happens.
"""

from __future__ import annotations

from enum import Enum


class WorkerState(Enum):
    """States of a worker; every worker that is not forgotten is in `Pool.workers`."""

    STARTING = "starting"  # forked; has not said yet which client slot it has; counts against concurrent starts
    READY = "ready"  # takes tasks; its index is in `Pool.pid_of`
    LEAVING = "leaving"  # asked to leave while idle: ends by itself, which is no death; still in `Pool.pid_of`


TRANSITIONS: dict[tuple[WorkerState, str], WorkerState | None] = {
    (WorkerState.STARTING, "attached"): WorkerState.READY,
    (WorkerState.READY, "retired"): WorkerState.LEAVING,
    (WorkerState.STARTING, "exited"): None,
    (WorkerState.READY, "exited"): None,
    (WorkerState.LEAVING, "exited"): None,
}


class ForbiddenTransition(Exception):
    """Our bug: an event that the table does not have for that state. The state is untouched."""


def next_state(state: WorkerState, event: str) -> WorkerState | None:
    """The state after `event`, None when the worker is to be forgotten.

    Raises
    ------
    ForbiddenTransition
        If the table has no such transition.
    """
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise ForbiddenTransition(f"a {state.value} worker cannot be {event}") from None
