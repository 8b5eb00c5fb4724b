"""`task_group()`: no task outlives its block, and the first failure ends the others."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from types import ModuleType

import pytest
from support.flags import Counter, Flag
from support.waiting import wait_until

import cellmesh
from cellmesh.session.current import running
from cellmesh.session.notifier import MOST_CALLERS

pytestmark = [pytest.mark.timeout(120), pytest.mark.session("shared")]


@cellmesh.remote
def double(x):
    return 2 * x


@cellmesh.remote
def fail(flag=None, error=KeyError):
    if flag is not None:
        flag.wait()
    raise error("k")


@cellmesh.remote
def hold(started, released=None):
    started.set()
    if released is None:
        Flag(started.path.with_name("never")).wait(60)
    else:
        released.wait(60)
    return 1


@cellmesh.remote
def count(n):
    yield from range(n)


@cellmesh.remote
class Adder:
    def add(self, x):
        return x + 1

    def fail(self):
        raise ValueError("v")


def state_of(ref) -> str:
    return ref.client.info(ref)["state"]


def test_leaving_the_block_waits_for_all(cm: ModuleType, flag: Callable[[str], Flag]) -> None:
    with cm.task_group() as g:
        held = g.submit(hold, flag("started"), flag("released"))
        rest = [g.submit(double, i) for i in range(20)]
        adder = Adder.remote()
        added = g.submit(adder.add, 1)
        own = g.add(double.options(num_cpus=2).remote(4))
        several = g.submit(double.options(num_returns=2, name="two"), [1])
        stream = g.submit(count, 3)
        flag("started").wait()
        assert "open: " in repr(g)
        threading.Timer(0.05, flag("released").set).start()
    assert all(ref.client.ready(ref) for ref in (held, *rest, added, own, *several, stream.completed()))
    assert cm.get([*rest, added, own]) == [*range(0, 40, 2), 2, 8]
    assert repr(g) == "<task group, closed: 0 of 25 tasks have not ended>"


def test_nobody_keeps_the_values_of_a_group_that_has_ended(cm: ModuleType) -> None:
    """Not even the threads that call back, if they are late."""
    session, late, there = running(), threading.Event(), cm.put(0)
    for _ in range(MOST_CALLERS):
        session.notifier.add(there, None, late.wait)
    try:
        with cm.task_group() as g:
            values = [g.submit(double, i) for i in range(20)]
        ids = {ref.hex() for ref in values}
        del values
        wait_until(lambda: not ids & {row["id"] for row in session.client.objects()}, what="the values to go")
    finally:
        late.set()


def test_a_failure_cancels_the_others_while_the_block_goes_on(cm: ModuleType, flag: Callable[[str], Flag]) -> None:
    with pytest.raises(ExceptionGroup) as caught, cm.task_group() as g:
        held = g.submit(hold, flag("started"))
        failed = g.submit(fail, flag("started"))
        waiting = g.submit(double, held)
        with pytest.raises(cm.exceptions.TaskCancelledError):
            cm.get(held)  # the block has not been left
    assert str(caught.value) == "1 of 3 tasks of the group failed (1 sub-exception)"
    (error,) = caught.value.exceptions
    assert isinstance(error, KeyError) and isinstance(error, cm.exceptions.TaskError) and error.task_name == "fail"
    assert [state_of(ref) for ref in (held, failed, waiting)] == ["cancelled", "failed", "cancelled"]


def test_a_group_that_fails_takes_no_more(cm: ModuleType, flag: Callable[[str], Flag]) -> None:
    with pytest.raises(ExceptionGroup) as caught, cm.task_group() as g:
        g.submit(fail)
        wait_until(lambda: "failing" in repr(g))
        late = g.add(hold.remote(flag("started")))
        g.submit(double, 1)
    assert state_of(late) == "cancelled"
    assert [type(error).__name__ for error in caught.value.exceptions] == ["TaskError(KeyError)"]


def test_errors_of_tasks_and_of_the_block_come_together(cm: ModuleType) -> None:
    with pytest.raises(ExceptionGroup) as caught, cm.task_group() as g:
        failed = g.submit(fail)
        cm.wait([failed])
        wait_until(lambda: "failing" in repr(g))
        raise LookupError("mine")
    assert [str(error).partition("\n")[0] for error in caught.value.exceptions] == ["mine", "'k'"]


def test_a_block_that_failed_because_of_the_others_adds_nothing(cm: ModuleType, flag: Callable[[str], Flag]) -> None:
    with pytest.raises(ExceptionGroup) as caught, cm.task_group() as g:
        held = g.submit(hold, flag("started"))
        g.submit(fail, flag("started"))
        cm.get(held)
    assert [type(error).__name__ for error in caught.value.exceptions] == ["TaskError(KeyError)"]


def test_what_the_block_fetched_is_told_once(cm: ModuleType) -> None:
    with pytest.raises(ExceptionGroup) as caught, cm.task_group() as g:
        cm.get(g.submit(fail))
    (error,) = caught.value.exceptions
    assert isinstance(error, KeyError) and error.__traceback__ is not None


def test_an_error_in_the_block_cancels_the_tasks(cm: ModuleType, flag: Callable[[str], Flag]) -> None:
    with pytest.raises(ExceptionGroup, match="0 of 1 tasks of the group failed") as caught, cm.task_group() as g:
        held = g.submit(hold, flag("started"))
        flag("started").wait()
        raise LookupError("mine")
    assert state_of(held) == "cancelled" and isinstance(caught.value.exceptions[0], LookupError)
    with pytest.raises(SystemExit), cm.task_group() as g:
        other = g.submit(hold, flag("other"))
        raise SystemExit
    assert state_of(other) == "cancelled"


def test_cancelled_tasks_are_no_failures(cm: ModuleType, flag: Callable[[str], Flag]) -> None:
    with cm.task_group() as g:
        held = g.submit(hold, flag("started"))
        flag("started").wait()
        cm.cancel(held)
    with cm.task_group() as g:
        held = g.submit(hold, flag("again"))
        flag("again").wait()
        g.cancel()
    assert state_of(held) == "cancelled"


def test_a_dead_worker_is_a_failure(cm: ModuleType) -> None:
    @cm.remote(max_retries=0)
    def dies():
        os._exit(3)

    with pytest.raises(ExceptionGroup) as caught, cm.task_group() as g:
        g.submit(dies)
    assert isinstance(caught.value.exceptions[0], cm.exceptions.WorkerCrashedError)


def test_a_group_in_a_task_on_the_only_cpu(one_cpu: ModuleType, flag: Callable[[str], Flag]) -> None:
    @one_cpu.remote
    def total(n):
        with cellmesh.task_group() as g:
            refs = [g.submit(double, i) for i in range(n)]
        return sum(cellmesh.get(refs))

    @one_cpu.remote
    def fails():
        with cellmesh.task_group() as g:
            g.submit(fail)

    assert one_cpu.get(total.remote(5)) == 20
    with pytest.raises(ExceptionGroup, match="1 of 1 tasks"):
        one_cpu.get(fails.remote())


def test_what_a_group_does_not_take(cm: ModuleType) -> None:
    g = cm.task_group()
    with pytest.raises(RuntimeError, match="has not begun"):
        g.submit(double, 1)
    with g:
        with pytest.raises(TypeError, match="needs a remote function"):
            g.submit(len, [])
        for wrong in (5, None, [], [1], cm.put(1)):
            with pytest.raises(TypeError, match="a group takes what"):
                g.add(wrong)
        with pytest.raises(TypeError, match="too many positional"):
            g.submit(double, 1, 2)
    with pytest.raises(RuntimeError, match="has ended"):
        g.submit(double, 1)
    with pytest.raises(RuntimeError, match="has had its block"), g:
        pass


def test_a_session_that_ends_in_the_block_ends_it(cm: ModuleType, flag: Callable[[str], Flag]) -> None:
    with cm.task_group() as g:
        g.submit(hold, flag("started"))
        cm.shutdown()


# ---------------------------------------------------------------- async with
def test_async_with_waits_for_all(cm: ModuleType) -> None:
    async def main():
        async with cm.task_group() as g:
            refs = [g.submit(double, i) for i in range(5)]
        return [ref.client.ready(ref) for ref in refs], await asyncio.gather(*refs)

    assert asyncio.run(main()) == ([True] * 5, [0, 2, 4, 6, 8])


def test_async_with_cancels_the_rest_and_its_own_body(cm: ModuleType, flag: Callable[[str], Flag]) -> None:
    refs = []

    async def main():
        async with cm.task_group() as g:
            refs.append(g.submit(hold, flag("started")))
            g.submit(fail, flag("started"))
            await asyncio.Event().wait()  # for ever

    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(main())
    assert isinstance(caught.value.exceptions[0], KeyError) and len(caught.value.exceptions) == 1
    assert state_of(refs[0]) == "cancelled"


def test_async_with_is_cancelled_from_outside(cm: ModuleType, flag: Callable[[str], Flag]) -> None:
    refs = []

    async def body():
        async with cm.task_group() as g:
            refs.append(g.submit(hold, flag("started")))

    async def main():
        task = asyncio.create_task(body())
        while not flag("started").is_set():
            await asyncio.to_thread(flag("started").wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert state_of(refs[0]) == "cancelled"


@pytest.mark.parametrize(
    "submit, words",
    [
        (lambda g: g.submit(double.remote, 1), r"f in place of f\.remote"),
        (lambda g: g.submit(len, "a"), r"cellmesh\.remote\(f\)"),
        (lambda g: g.submit(double.remote(1)), r"add\(f\.remote\(x\)\)"),
    ],
)
def test_submitting_something_else(cm: ModuleType, submit: Callable, words: str) -> None:
    with (
        pytest.raises(ExceptionGroup, match="the block of the group raised; 0 of 0 tasks") as raised,
        cm.task_group() as g,
    ):
        submit(g)
    assert raised.group_contains(TypeError, match=words)


# ---------------------------------------------------------------- Ctrl-C
@pytest.mark.parametrize("where", ["body", "exit"])
def test_ctrl_c_cancels_all(flag: Callable[[str], Flag], counter: Counter, where: str) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"""
import os, signal, sys, threading, time
import cellmesh as cm
cm.init(num_cpus=1, object_store_memory=64 << 20)
started = {str(flag("started").path)!r}

@cm.remote
def hold():
    open(started, "w").close()
    while True:
        time.sleep(0.01)

def interrupt():
    while not os.path.exists(started):
        time.sleep(0.01)
    submitted.wait()
    os.kill(os.getpid(), signal.SIGINT)

submitted = threading.Event()
threading.Thread(target=interrupt).start()
try:
    with cm.task_group() as g:
        refs = [g.submit(hold), g.submit(hold)]
        submitted.set()
        if {where!r} == "body":
            cm.get(refs[0])
except KeyboardInterrupt:
    print([ref.client.info(ref)["state"] for ref in refs])
""",
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "['cancelled', 'cancelled']\n", done.stderr
