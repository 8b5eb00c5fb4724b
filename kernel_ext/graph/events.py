"""The records of the event ring. `objstore/core/memory/event.h` says what the fields `a` to `d` are, by kind. Pure."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from ...objstore import _core

EVENT_DTYPE = np.dtype(_core.EVENT_DTYPE)


class EventKind(IntEnum):
    """What happened. `seq` of a record is the task's number, of PUT and FREED the object's creator."""

    SUBMITTED = _core.EVENT_SUBMITTED
    PARENT = _core.EVENT_PARENT
    DEPENDS = _core.EVENT_DEPENDS
    STARTED = _core.EVENT_STARTED
    FINISHED = _core.EVENT_FINISHED
    RETRIED = _core.EVENT_RETRIED
    PUT = _core.EVENT_PUT
    FREED = _core.EVENT_FREED
    ACTOR_CREATED = _core.EVENT_ACTOR_CREATED
    ACTOR_STATE = _core.EVENT_ACTOR_STATE
    WORKER_STARTED = _core.EVENT_WORKER_STARTED
    WORKER_DIED = _core.EVENT_WORKER_DIED
    BLOCKED = _core.EVENT_BLOCKED
    UNBLOCKED = _core.EVENT_UNBLOCKED
    RAN = _core.EVENT_RAN
    TRANSFER = _core.EVENT_TRANSFER
    TRANSFERRED = _core.EVENT_TRANSFERRED
    CALLED = _core.EVENT_CALLED


class Status(IntEnum):
    """How a task ended: field `b` of FINISHED."""

    OK = _core.EVENT_OK
    ERROR = _core.EVENT_ERROR
    CANCELLED = _core.EVENT_CANCELLED
    CRASHED = _core.EVENT_CRASHED
