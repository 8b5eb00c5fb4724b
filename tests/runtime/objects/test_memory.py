"""Memory that runs out: a task is ended before anything else is, and the error says who used what; and what is let go
of in time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest
from cellmesh.scheduler.local_scheduler import oom
from cellmesh.scheduler.system.memory import usages
from support.flags import Counter
from support.waiting import wait_until

import cellmesh
from cellmesh.session.current import current

pytestmark = pytest.mark.timeout(60)
ROOM, HOG = 400 << 20, 4 << 30  # it is ended long before; what others give back meanwhile must not save it


@pytest.fixture
def short_of_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A session that may use ROOM bytes more than are in use now."""
    share = min((u.used + ROOM) / u.total for u in usages())
    monkeypatch.setenv(oom.VARIABLE, f"{share:.9f}")
    cellmesh.init(num_cpus=2, object_store_memory=64 << 20)
    yield cellmesh
    cellmesh.shutdown()


@cellmesh.remote
def hog(counter: Counter, fails: int):
    """Takes too much the first times."""
    if counter.add() <= fails:
        taken = []
        for _ in range(HOG >> 24):
            taken.append(bytearray(os.urandom(1) * (1 << 24)))
        while True:
            time.sleep(1)
    return "done"


def test_a_task_that_takes_too_much_fails_and_says_who_used_what(short_of_memory: ModuleType, counter: Counter) -> None:
    cm = short_of_memory
    with pytest.raises(cm.exceptions.OutOfMemoryError, match="memory ran out") as raised:
        cm.get(hog.options(max_retries=0).remote(counter, 99), timeout=50)
    (note,) = raised.value.__notes__
    assert "were in use" in note and "B  pid" in note
    assert cm.get(hog.remote(counter, 0)) == "done"


def test_it_is_retried_apart_from_other_retries(short_of_memory: ModuleType, counter: Counter) -> None:
    assert short_of_memory.get(hog.options(max_retries=1).remote(counter, 2), timeout=50) == "done"
    assert wait_until(lambda: counter.value) == 3


def test_what_functions_that_are_gone_have_captured_goes_with_them() -> None:
    with cellmesh.init(num_cpus=2, object_store_memory=256 << 20, offload_limit=0):
        for i in range(30):
            ref = cellmesh.put(np.full(20 << 20, i, np.uint8))

            @cellmesh.remote
            def first() -> int:
                return int(cellmesh.get(ref)[0])  # noqa: F821  (deleted once it has run)

            assert cellmesh.get(first.remote(), timeout=30) == i
            del ref, first


def test_they_go_once_their_worker_has_nothing_to_do() -> None:
    with cellmesh.init(num_cpus=1, object_store_memory=256 << 20):
        ref = cellmesh.put(np.ones(20 << 20, np.uint8))

        @cellmesh.remote
        def first() -> int:
            return int(cellmesh.get(ref)[0])  # noqa: F821  (deleted once it has run)

        @cellmesh.remote
        def other() -> None:
            return None

        cellmesh.get(other.remote(), timeout=30)
        assert cellmesh.get(first.remote(), timeout=30) == 1
        client = current().client
        assert client.stats()["used_bytes"] > 20 << 20
        del ref, first
        client.flush()
        cellmesh.get(other.remote(), timeout=30)
        wait_until(lambda: client.stats()["used_bytes"] < 1 << 20, 20, "the worker lets go of the function")
