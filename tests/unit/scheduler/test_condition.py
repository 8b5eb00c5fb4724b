"""Waiting for each other, and threads, while the main thread is interrupted at any instruction."""

from __future__ import annotations

import operator
import signal
import threading
import time
from _thread import allocate_lock
from collections.abc import Callable
from itertools import pairwise

import pytest
from cellmesh.scheduler.sync import condition as condition_module
from cellmesh.scheduler.sync.condition import Condition
from cellmesh.scheduler.sync.threads import Later, ServiceThread
from support.interrupts import interrupted_everywhere
from support.waiting import wait_until


@pytest.fixture(autouse=True)
def _no_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is not woken stays asleep, so that a lost wake-up shows."""
    monkeypatch.setattr(condition_module, "LOOK_S", 60.0)


def in_a_thread(run: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def test_the_instants_are_found_at_which_a_lock_made_in_python_breaks() -> None:
    class Guard:
        def __init__(self) -> None:
            self.lock = allocate_lock()

        def __enter__(self) -> None:
            self.lock.acquire()

        def __exit__(self, *unused: object) -> None:
            self.lock.release()

    guard, broken = Guard(), set()

    def use() -> None:
        with guard:
            sum((1, 2))

    for number in interrupted_everywhere(use):
        if guard.lock.locked():
            broken.add(number)
            guard.lock.release()
    assert broken, "then no test here could fail"

    lock = allocate_lock()

    def use_lock() -> None:
        with lock:
            sum((1, 2))

    assert not any(lock.locked() for _ in interrupted_everywhere(use_lock)), "one made by C does not"


def test_it_wakes_all_who_wait_and_only_when_it_is_so() -> None:
    condition = Condition()
    so: set[int] = set()
    woken: list[int] = []
    threads = [in_a_thread(lambda i=i: woken.append(i * condition.wait_for(lambda: i in so))) for i in (1, 2, 3)]
    wait_until(lambda: len(condition._waiting) == 3)
    condition.notify_all()
    so.update((1, 3))
    condition.notify_all()
    wait_until(lambda: sorted(woken) == [1, 3])
    so.add(2)
    condition.notify_all()
    for thread in threads:
        thread.join(10)
    assert sorted(woken) == [1, 2, 3] and not condition._waiting


def test_the_time_is_up() -> None:
    condition = Condition()
    assert not condition.wait_for(lambda: False, 0.001) and not condition.wait_for(lambda: False, -1.0)
    assert condition.wait_for(lambda: True, 0.0) and not condition._waiting


def test_a_lost_wake_up_costs_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(condition_module, "LOOK_S", 0.001)
    looks: list[int] = []
    assert Condition().wait_for(lambda: looks.append(1) or len(looks) > 3, 10)


def test_who_waits_long_looks_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(condition_module, "LOOK_S", 0.001)
    monkeypatch.setattr(condition_module, "LOOK_MAX_S", 0.02)
    looks: list[float] = []
    assert Condition().wait_for(lambda: looks.append(time.monotonic()) or len(looks) > 8, 10)
    pauses = [after - before for before, after in pairwise(looks)]
    least = [0.001, 0.002, 0.004, 0.008, 0.016, 0.02, 0.02, 0.02]
    assert all(map(operator.ge, pauses, least)), pauses


def test_notifying_and_waiting_interrupted_anywhere() -> None:
    condition = Condition()
    so: list[bool] = []

    def notify_and_wait() -> None:
        condition.notify_all()
        condition.wait_for(lambda: False, 0.0001)
        condition.wait_for(lambda: True)

    for number in interrupted_everywhere(notify_and_wait):
        assert not condition._waiting, number
        waits = in_a_thread(lambda: condition.wait_for(lambda: so))
        wait_until(lambda: condition._waiting)
        so.append(True)
        condition.notify_all()
        waits.join(10)
        assert not waits.is_alive(), number
        notifies = in_a_thread(lambda: (so.clear(), condition.notify_all()))
        assert condition.wait_for(lambda: not so, 10), number
        notifies.join()


def test_notifying_interrupted_while_somebody_waits() -> None:
    """Some of those who wait may not be woken then; the next time they are."""
    condition = Condition()
    so: list[bool] = []
    threads = [in_a_thread(lambda: condition.wait_for(lambda: so)) for _ in range(3)]
    wait_until(lambda: len(condition._waiting) == 3)
    for _ in interrupted_everywhere(condition.notify_all):
        assert len(condition._waiting) == 3
    so.append(True)
    condition.notify_all()
    for thread in threads:
        thread.join(10)
    assert not condition._waiting


def test_a_thread_whose_start_is_interrupted_anywhere_runs_once() -> None:
    runs: list[threading.Thread] = []
    made: list[ServiceThread] = []

    def begin() -> None:
        made.append(ServiceThread(lambda: runs.append(threading.current_thread()), "cellmesh-test"))
        made[-1].start()

    for number in interrupted_everywhere(begin):
        for thread in made:  # or it was not made yet
            thread.start()
            wait_until(lambda: runs)
            thread.join()
            assert runs == [thread] and not thread.is_alive() and thread.daemon, number
        made.clear()
        runs.clear()


def test_threads_of_ours_leave_sigint_to_the_main_thread() -> None:
    masks: list[set[int]] = []
    thread = ServiceThread(lambda: masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, ())), "cellmesh-test")
    thread.join()  # nothing to wait for
    thread.start()
    thread.join()
    assert signal.SIGINT in masks[0] and signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_thread_that_cannot_be_started_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="can't start"):
        ServiceThread(print, "cellmesh-test").start()


def test_later() -> None:
    called: list[str] = []
    soon = Later(0.0, lambda: called.append("soon"), "cellmesh-test")
    never = Later(30.0, lambda: called.append("never"), "cellmesh-test")
    never.cancel()
    for later in (soon, never):
        later.start()
        later.join()
    assert called == ["soon"]


def test_cancelling_interrupted_anywhere() -> None:
    later = Later(30.0, lambda: None, "cellmesh-test")
    later.start()
    for _ in interrupted_everywhere(later.cancel):
        later._is_cancelled = False
    later.cancel()
    later.join(10)
    assert not later.is_alive()
