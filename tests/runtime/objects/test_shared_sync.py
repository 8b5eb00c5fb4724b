"""Barriers, counters and conditions between processes: what they promise, and what becomes of them when one dies."""

from __future__ import annotations

import _thread
import copy
import gc
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from support.flags import Flag
from support.waiting import wait_until

import cellmesh
from cellmesh.exceptions import BrokenSyncError, MemberDiedError, TaskCancelledError, WorkerCrashedError
from cellmesh.session.current import current
from cellmesh.util.shared_sync import Barrier, Condition, Counter

pytestmark = pytest.mark.timeout(60)
AT_ONCE_S = 20  # a second is promised, and unnoticed they wait for 30; the machine may be busy


@pytest.fixture
def cm() -> Iterator[ModuleType]:
    cellmesh.init(num_cpus=4, object_store_memory=64 << 20)
    yield cellmesh
    assert current().client.check() == []
    cellmesh.shutdown()


@cellmesh.remote
class Member:
    """A process that joins."""

    def __init__(self, what: Any) -> None:
        self.what = what

    def pid(self) -> int:
        return os.getpid()

    def wait(self, timeout: float | None = None) -> Any:
        return self.what.wait(timeout)

    def arrive(self) -> None:
        self.what.arrive()

    def hold(self, flag: Flag) -> None:
        with self.what:
            flag.set()
            time.sleep(1000)

    def wait_inside(self, timeout: float | None = None) -> bool:
        with self.what:
            return self.what.wait(timeout)

    def kill(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def waits(barrier: Barrier, n: int) -> None:
    wait_until(lambda: barrier.n_waiting == n)


# ---------------------------------------------------------------- barriers
def test_nobody_goes_on_before_all_have_come(cm: ModuleType) -> None:
    barrier, rows = Barrier(3), cm.shared_array((3, 200), int)

    @cm.remote
    def rank(i: int) -> bool:
        right = True
        for step in range(200):
            rows[i, step] = 1
            barrier.wait(20)
            right = right and rows[:, step].sum() == 3
        return right

    assert cm.get([rank.remote(i) for i in range(3)]) == [True] * 3
    assert barrier.n_waiting == 0 and not barrier.broken


def test_threads_of_a_process_are_members_too(cm: ModuleType) -> None:
    barrier, came = Barrier(4), Counter()

    def come() -> None:
        came.add()
        barrier.wait()
        assert came.get() == 4

    threads = [threading.Thread(target=come) for _ in range(3)]
    for thread in threads:
        thread.start()
    waits(barrier, 3)
    come()
    for thread in threads:
        thread.join()


def test_time_that_is_up_takes_the_arrival_back(cm: ModuleType) -> None:
    barrier = Barrier(2)
    for timeout in (0, 0.01):
        with pytest.raises(TimeoutError, match="Barrier"):
            barrier.wait(timeout)
    assert barrier.n_waiting == 0
    member = Member.remote(barrier)
    ref = member.wait.remote()
    waits(barrier, 1)
    barrier.wait(20)
    assert cm.get(ref) is None
    assert Barrier(1).wait() is None


def test_who_arrives_does_not_wait_and_is_counted(cm: ModuleType) -> None:
    barrier, told = Barrier(2), cm.shared_array(1, int)

    @cm.remote
    def tell() -> int:
        for step in range(200):
            told[0] = step
            barrier.arrive()  # it has come...
            back.wait(20)  # ...and waits for something else
        return int(told[0])

    back = Barrier(2)
    ref = tell.remote()
    for step in range(200):
        barrier.wait(20)
        assert told[0] == step
        back.arrive()
    assert cm.get(ref) == 199 and barrier.n_waiting == 0
    barrier.arrive()
    assert barrier.n_waiting == 1
    barrier.wait(0)


def test_who_has_arrived_is_a_member_whose_death_breaks_it(cm: ModuleType) -> None:
    barrier = Barrier(2)
    member = Member.remote(barrier)
    pid = cm.get(member.pid.remote())
    cm.get(member.arrive.remote())
    barrier.wait(20)
    cm.kill(member)
    with pytest.raises(MemberDiedError, match=f"process {pid} joined it"):
        barrier.wait(30)
    with pytest.raises(MemberDiedError, match=f"process {pid} joined it"):
        barrier.arrive()


def test_a_member_that_dies_while_it_waits_is_noticed_at_once(cm: ModuleType) -> None:
    barrier = Barrier(4)
    dies, waiting = Member.remote(barrier), Member.remote(barrier)
    pid = cm.get(dies.pid.remote())
    refs = [dies.wait.remote(), waiting.wait.remote()]
    waits(barrier, 2)
    began = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(MemberDiedError, match=f"process {pid} joined it and has died") as caught:
        barrier.wait(30)
    assert time.monotonic() - began < AT_ONCE_S and caught.value.pid == pid
    with pytest.raises(MemberDiedError, match=str(pid)):
        cm.get(refs[1], timeout=AT_ONCE_S)
    for _ in range(2):  # and later
        with pytest.raises(MemberDiedError, match=str(pid)):
            barrier.wait(0)
    assert barrier.broken


def test_a_member_that_dies_elsewhere_is_noticed_too(cm: ModuleType) -> None:
    barrier = Barrier(2)
    member = Member.remote(barrier)
    ref = member.wait.remote()
    barrier.wait(20)
    cm.get(ref)
    cm.kill(member)
    with pytest.raises(MemberDiedError):
        barrier.wait(30)


def test_a_task_that_crashes_breaks_it_and_one_that_ends_does_not(cm: ModuleType) -> None:
    barrier = Barrier(2)

    @cm.remote(max_retries=0, max_calls=1)
    def meet(dies: bool = False) -> None:
        barrier.wait(20)
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)

    pids = {row["pid"] for row in current().client.clients()}
    for _ in range(3):  # the worker of each ends with it
        cm.get([meet.remote(), meet.remote()])
    wait_until(lambda: not pids & {row["pid"] for row in current().client.clients() if row["role"] == "worker"})
    assert not barrier.broken
    refs = [meet.remote(True), meet.remote()]
    with pytest.raises(WorkerCrashedError):
        cm.get(refs[0])
    wait_until(lambda: barrier.broken)


def test_abort_and_reset(cm: ModuleType) -> None:
    barrier = Barrier(2)
    member = Member.remote(barrier)
    ref = member.wait.remote()
    waits(barrier, 1)
    barrier.abort()
    with pytest.raises(BrokenSyncError, match=f"process {os.getpid()} has aborted"):
        cm.get(ref, timeout=AT_ONCE_S)
    barrier.reset()
    ref = member.wait.remote()
    waits(barrier, 1)
    barrier.reset()
    with pytest.raises(BrokenSyncError, match="was reset"):
        cm.get(ref, timeout=AT_ONCE_S)
    ref = member.wait.remote()
    barrier.wait(20)
    assert cm.get(ref) is None and not barrier.broken


def test_an_error_keeps_nothing(cm: ModuleType) -> None:
    """Neither what its callers have nor the barrier itself, without a collection of cycles."""
    barrier = Barrier(2)
    member = Member.remote(barrier)
    ref = member.wait.remote()
    barrier.wait(20)
    cm.get(ref)
    cm.kill(member)

    def meet() -> None:
        array = cm.shared_array(10)
        with pytest.raises(MemberDiedError):
            barrier.wait(30)
        del array

    def try_to() -> None:
        array = cm.shared_array(10)
        try:
            barrier.wait(30)
        except MemberDiedError:
            array[0] = 1

    meet()
    gc.collect()
    gc.disable()
    try:
        try_to()
        assert current().client.stats()["n_shared"] == 1
    finally:
        gc.enable()


# ---------------------------------------------------------------- counters
def test_no_addition_is_lost(cm: ModuleType) -> None:
    counter = Counter(5)

    @cm.remote
    def add(n: int) -> None:
        for _ in range(n):
            counter.add()
        counter.add(-n // 2)

    cm.get([add.remote(5000) for _ in range(4)])
    assert counter.get() == 5 + 4 * 2500
    assert counter.set(-3) == 10_005 and counter.get() == -3 and counter.add(2) == -1


def test_a_counter_has_64_bits(cm: ModuleType) -> None:
    counter = Counter(2**63 - 2)
    assert counter.add() == 2**63 - 1
    with pytest.raises(OverflowError, match="stays there"):
        counter.add()
    assert counter.get() == 2**63 - 1
    for wrong in (2**63, -(2**63) - 1):
        with pytest.raises(OverflowError):
            counter.set(wrong)
    with pytest.raises(TypeError):
        counter.add("1")


# ---------------------------------------------------------------- conditions
def test_one_at_a_time(cm: ModuleType) -> None:
    condition, value = Condition(), cm.shared_array(2, int)

    @cm.remote
    def add(n: int) -> None:
        for _ in range(n):
            with condition:
                value[0] += 1
                value[1] = value[0] * 2

    cm.get([add.remote(2000) for _ in range(4)])
    assert value.tolist() == [8000, 16000]


def test_a_queue_of_one(cm: ModuleType) -> None:
    condition, box = Condition(), cm.shared_array(2, int)  # full, value

    @cm.remote
    def give(n: int) -> None:
        for i in range(n):
            with condition:
                assert condition.wait_for(lambda: not box[0], 20)
                box[:] = 1, i
                condition.notify_all()

    @cm.remote
    def take(n: int) -> list[int]:
        taken = []
        for _ in range(n):
            with condition:
                assert condition.wait_for(lambda: box[0], 20)
                taken.append(int(box[1]))
                box[0] = 0
                condition.notify_all()
        return taken

    refs = [take.remote(300), give.remote(300)]
    assert cm.get(refs)[0] == list(range(300))


def test_notify_wakes_as_many_as_it_says(cm: ModuleType) -> None:
    condition, woken, asleep = Condition(), Counter(), Counter()

    def sleep() -> None:
        with condition:
            asleep.add()
            if condition.wait(30):
                woken.add()

    threads = [threading.Thread(target=sleep) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: asleep.get() == 4)
    for n, expected in ((0, 0), (1, 1), (2, 3), (5, 4)):
        with condition:  # all sleep by now, as each has unlocked it
            condition.notify(n)
        wait_until(lambda expected=expected: woken.get() == expected)
    for thread in threads:
        thread.join()
    assert woken.get() == 4
    with condition:
        assert condition.wait(0.01) is False, "nobody's notification is left"


def test_an_owner_that_dies_is_noticed(cm: ModuleType, flag: Callable[[str], Flag]) -> None:
    condition = Condition()
    owner, waiting = Member.remote(condition), Member.remote(condition)
    pid = cm.get(owner.pid.remote())
    ref = waiting.wait_inside.remote()
    owner.hold.remote(flag("held"))
    flag("held").wait()
    assert condition.acquire(timeout=0) is False and condition.acquire(timeout=0.01) is False
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(MemberDiedError, match=f"process {pid} had it locked and has died") as caught, condition:
        pass
    assert caught.value.pid == pid and condition.broken
    with pytest.raises(MemberDiedError, match=str(pid)):
        cm.get(ref, timeout=AT_ONCE_S)
    condition.reset()
    with condition:
        condition.notify()
    assert not condition.broken


def test_a_waiter_that_dies_harms_nobody(cm: ModuleType) -> None:
    condition = Condition()
    dies, waiting = Member.remote(condition), Member.remote(condition)
    pid = cm.get(dies.pid.remote())
    dies.wait_inside.remote()
    ref = waiting.wait_inside.remote(20)
    os.kill(pid, signal.SIGKILL)

    def notified() -> bool:
        with condition:
            condition.notify()
        return bool(cm.wait([ref], timeout=0.05)[0])

    wait_until(notified)
    assert cm.get(ref) is True and not condition.broken


def test_what_a_thread_may_not_do(cm: ModuleType) -> None:
    condition = Condition()
    for call in (condition.release, condition.wait, condition.notify):
        with pytest.raises(RuntimeError, match="has not locked"):
            call()
    with condition:
        with pytest.raises(RuntimeError, match="already"):
            condition.acquire()
        refused: list[str] = []

        def release() -> None:
            try:
                condition.release()
            except RuntimeError as error:
                refused.append(str(error))

        thread = threading.Thread(target=release)
        thread.start()
        thread.join()
        assert len(refused) == 1 and "has not locked" in refused[0]
        with pytest.raises(ValueError, match="at least 0"):
            condition.notify(-1)
        condition.reset()  # leaves alone what works
        with pytest.raises(ValueError, match="timeout"):
            condition.wait(-1)
    assert condition.acquire() and condition.release() is None


# ---------------------------------------------------------------- how they travel, and interrupts
def test_they_travel_as_arrays_do(cm: ModuleType) -> None:
    counter = Counter(1)

    @cm.remote
    def add(given: Any) -> Any:
        given["x"][0].add()
        counter.add()
        return given["x"][0]

    back = cm.get(add.remote({"x": [counter]}))
    assert back == counter and back.get() == 3 and hash(back) == hash(counter) and back != Counter(3)
    assert cm.get(cm.put(counter)).add() == 4 and copy.deepcopy([counter])[0] == counter
    assert pickle.loads(pickle.dumps(counter)) == counter  # as any ref
    assert "Counter, 4" in repr(counter) and "0 waiting" in repr(Barrier(2)) and repr(Condition()) == "<Condition>"


def test_they_are_given_back(cm: ModuleType) -> None:
    them = [Barrier(2), Counter(), Condition()]
    assert current().client.stats()["n_shared"] == 3
    del them
    assert current().client.stats()["n_shared"] == 0


@pytest.mark.parametrize("what", ["barrier", "condition", "lock"])
def test_ctrl_c_ends_a_wait(cm: ModuleType, what: str) -> None:
    barrier, condition = Barrier(2), Condition()
    timer = threading.Timer(0.3, _thread.interrupt_main)  # begun where an interrupt is expected, however late it is
    if what == "lock":
        holder = threading.Thread(target=condition.acquire)
        holder.start()
        holder.join()
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            condition.acquire()
    elif what == "barrier":
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            barrier.wait()
        assert barrier.n_waiting == 0
    else:
        with condition:
            with pytest.raises(KeyboardInterrupt):
                timer.start()
                condition.wait()
            condition.notify()  # it is locked again
    timer.join()


def test_a_cancelled_task_leaves(cm: ModuleType) -> None:
    barrier = Barrier(2)

    @cm.remote
    def come() -> None:
        barrier.wait()

    ref = come.remote()
    waits(barrier, 1)
    cm.cancel(ref)
    with pytest.raises(TaskCancelledError):
        cm.get(ref)
    waits(barrier, 0)


@pytest.mark.parametrize(
    ("n", "error"), [(0, ValueError), (-1, ValueError), (65_536, ValueError), (1.5, TypeError), ("2", TypeError)]
)
def test_bad_input(cm: ModuleType, n: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="Barrier"):
        Barrier(n)
    with pytest.raises(ValueError, match="timeout"):
        Barrier(2).wait(-1)
