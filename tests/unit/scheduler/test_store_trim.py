"""What is given back after a peak, and when; what is fetched ahead."""

from __future__ import annotations

import os
import random

import pytest
from cellmesh.objstore import _core
from cellmesh.scheduler.local_scheduler.store_trim import KEEP_BYTES, QUIET_S, IdleMemory
from support.plain_hooks import PlainHooks

GIB = 1 << 30


def test_a_peak_is_given_back_once_it_is_over() -> None:
    memory = IdleMemory(capacity=8 * GIB)
    assert memory.keep == KEEP_BYTES
    assert memory.look(0.0, 3 * GIB, 3 * GIB) == 0 and memory.deadline == QUIET_S
    assert memory.look(1.0, 3 * GIB, 0) == 0, "not before the quiet time is over"
    assert memory.look(QUIET_S, 3 * GIB, 0) == 3 * GIB - KEEP_BYTES
    assert memory.deadline is None, "from now on the segment says when"


def test_what_a_loop_uses_again_and_again_stays() -> None:
    memory = IdleMemory(capacity=8 * GIB)
    now = 0.0
    memory.look(now, 2 * GIB, 0)
    for _ in range(5):
        now = memory.deadline
        assert memory.look(now, 2 * GIB, 2 * GIB) == 0 and memory.deadline == now + QUIET_S
    assert memory.look(memory.deadline, 2 * GIB, GIB) == GIB
    assert memory.deadline is not None, "more than the least is idle still"


def test_a_small_store_keeps_less_and_a_little_is_nobodys_concern() -> None:
    memory = IdleMemory(capacity=GIB)
    assert memory.keep == GIB // 8
    assert memory.look(0.0, GIB // 8, 0) == 0 and memory.deadline is None


def test_no_more_is_fetched_ahead_than_is_kept_or_than_memory_has_room_for() -> None:
    memory = IdleMemory(capacity=8 * GIB)
    assert memory.ahead(free=16 * GIB) == KEEP_BYTES
    assert memory.ahead(free=KEEP_BYTES) == KEEP_BYTES // 4
    assert memory.ahead(free=0) == memory.ahead(free=-GIB) == 0


@pytest.mark.parametrize("seed", range(6))
def test_who_asks_to_be_woken_and_who_wakes_mean_the_same(seed: int) -> None:
    """However free memory is strewn among values in use, the looks come to an end."""
    rng = random.Random(seed)
    fd = _core.create_segment(GIB // 2, n_objects=1 << 14, n_tasks=64)
    scheduler, driver = (_core.Client(fd, role, PlainHooks) for role in (_core.ROLE_SCHEDULER, _core.ROLE_DRIVER))
    memory = IdleMemory(scheduler.stats()["capacity_bytes"])
    large = []
    small = []
    for _i in range(24):
        large.append(driver.put(bytes(rng.choice((4, 16)) << 20)))
        small += [driver.put(bytes(rng.choice((300, 3000, 200_000)))) for _ in range(60)]
    del large[:], small[::2]
    driver.flush()
    now, looks = 0.0, 0
    scheduler.notice_idle(memory.keep)
    while memory.deadline is not None or scheduler.next_demand(0):
        now, looks = memory.deadline or now, looks + 1
        assert looks < 20
        if surplus := memory.look(now, *scheduler.idle_memory()):
            scheduler.give_back(surplus)
        if memory.deadline is None:
            scheduler.notice_idle(memory.keep)
    assert scheduler.idle_memory()[0] <= memory.keep * 9 // 8
    del small[:]
    for client in (driver, scheduler):
        client.client_died(client.index, 0)
        client.close()
    os.close(fd)
