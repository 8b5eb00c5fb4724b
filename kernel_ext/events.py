"""The records of the event ring, as the segment's core writes them (`objstore/core/event.h`). Pure."""
from __future__ import annotations

from enum import IntEnum

import numpy as np

EVENT_DTYPE = np.dtype([("t", "<u8"), ("seq", "<u8"), ("a", "<u4"), ("b", "<u4"), ("c", "<u4"), ("d", "<u2"),
                        ("kind", "u1"), ("client", "u1")])


class EventKind(IntEnum):
    """What happened, and what the fields `a` to `d` then are; `seq` is the task's number unless said otherwise."""

    SUBMITTED = 1  # a function slot, d its generation, b origin, c actor + 1 or 0
    PARENT = 2  # a | b << 32: the task that submitted this one
    DEPENDS = 3  # a | b << 32: creator (task or put number) of an object it depends on
    STARTED = 4  # a attempt, b pid, client the worker; elsewhere: b 0, c the last 32 bits of the node's number
    FINISHED = 5  # a result slot, b status, c size
    RETRIED = 6  # a attempt; elsewhere: c the node, d 1 if it is lost
    PUT = 7  # seq put number, a slot, b origin, c size
    FREED = 8  # seq creator, a slot
    ACTOR_CREATED = 9  # seq creation task, a actor
    ACTOR_STATE = 10  # a actor, b state, c when dead: how its process ended, 0 if on purpose
    WORKER_STARTED = 11  # a client, b pid
    WORKER_DIED = 12  # a client, b code
    BLOCKED = 13  # the client waits in get or wait
    UNBLOCKED = 14
    RAN = 15  # elsewhere: a pid there, b it began and c it ended there so long ago, in 2**d ticks; c 2**32 - 1: it has not
    TRANSFER = 16  # seq creator of the object, a node, b | d << 32 bytes, c number << 1 | 1 if they come here; client the node's
    TRANSFERRED = 17  # likewise; b 1: they have arrived, 0: they will not
    CALLED = 18  # a attempt: the user's code begins, after its arguments had taken long


class Status(IntEnum):
    """How a task ended: field `b` of FINISHED."""

    OK = 0
    ERROR = 1
    CANCELLED = 2
    CRASHED = 3


ACTOR_STATES = ("pending", "alive", "restarting", "dead")
