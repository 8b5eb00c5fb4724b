"""How a trial shares CPUs with the controller that it waits for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def as_batch_work() -> Iterator[None]:
    """Within the block this thread takes no CPU from another one when it is woken (SCHED_BATCH); it has its share of
    the CPUs as before (decision 159).
    """
    try:
        is_ordinary = os.sched_getscheduler(0) == os.SCHED_OTHER  # else somebody has decided otherwise
        if is_ordinary:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    except OSError:  # a sandbox that has no such call, or refuses it: then it is as it was
        is_ordinary = False
    try:
        yield
    finally:
        if is_ordinary:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
