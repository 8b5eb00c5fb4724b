"""Tasks that wait for tasks: what the awaited one sees, how many processes there are, threads of tasks that wait."""

from __future__ import annotations

import contextlib
import decimal
import io
import itertools
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

LIBRARY = """
import contextvars, threading
lock = threading.Lock()
name = contextvars.ContextVar('name', default='none')
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of the user's that has a lock."""
    (tmp_path / "waits_library.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(tmp_path))


def surroundings() -> tuple[Any, ...]:
    """What a task may find in its process and context."""
    import waits_library

    return (
        os.getcwd(),
        np.geterr()["divide"],
        decimal.getcontext().prec,
        waits_library.name.get(),
        sys.getrecursionlimit(),
        isinstance(sys.stdout, io.StringIO),
        sys.exc_info()[1],
        threading.current_thread() is threading.main_thread(),
        signal.getitimer(signal.ITIMER_REAL)[0] > 0,
    )


@pytest.mark.parametrize("timeout", [None, 30])
def test_a_task_sees_nothing_of_the_one_that_waits_for_it(cm: ModuleType, library: None, timeout: float | None) -> None:
    look = cm.remote(surroundings)

    @cm.remote
    def outer() -> Any:
        import waits_library

        home, limit = os.getcwd(), sys.getrecursionlimit()
        os.chdir("/")
        sys.setrecursionlimit(limit + 7)
        waits_library.name.set("outer")
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 100)
        try:
            with np.errstate(divide="raise"), decimal.localcontext(decimal.Context(prec=99)):
                with contextlib.redirect_stdout(io.StringIO()):
                    try:
                        1 / 0  # noqa: B018 (the division is what raises)
                    except ZeroDivisionError:
                        return cm.get(look.remote(), timeout=timeout)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            os.chdir(home)
            sys.setrecursionlimit(limit)

    alone = cm.get(look.remote())
    assert cm.get([outer.remote() for _ in range(4)], timeout=30) == [alone] * 4


def test_numbers_drawn_after_a_get_are_those_drawn_without_it(cm: ModuleType) -> None:
    draw = cm.remote(lambda: (random.random(), float(np.random.rand())))

    @cm.remote
    def seeded(waits: bool) -> tuple[float, float]:
        random.seed(5)
        np.random.seed(5)
        refs = [draw.remote() for _ in range(3)]
        if waits:
            cm.get(refs)
        return random.random(), float(np.random.rand())

    assert len(set(cm.get([seeded.remote(waits) for waits in (True, False) * 3], timeout=30))) == 1


def test_a_lock_may_be_held_around_a_get(cm: ModuleType, library: None) -> None:
    @cm.remote
    def inner() -> int:
        import waits_library

        with waits_library.lock:
            return 1

    @cm.remote
    def outer() -> int:
        import waits_library

        with waits_library.lock:
            return cm.get(inner.remote()) + 1

    assert cm.get([outer.remote() for _ in range(3)], timeout=30) == [2] * 3


def test_an_alarm_ends_the_wait_alone(cm: ModuleType, flag: Callable) -> None:
    class Enough(Exception):
        pass

    @cm.remote
    def inner(started: Any, go: Any) -> str:
        started.set()
        go.wait()
        return "done"

    @cm.remote
    def impatient(started: Any, go: Any) -> list[Any]:
        def stop(*_: object) -> None:
            raise Enough

        before = signal.signal(signal.SIGALRM, stop)
        ref = inner.remote(started, go)
        try:
            started.wait()
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            with contextlib.suppress(Enough):
                cm.get(ref)
                return []
        finally:
            signal.signal(signal.SIGALRM, before)
        return [ref]

    [ref] = cm.get(impatient.remote(flag("started"), flag("go")), timeout=30)
    flag("go").set()
    assert cm.get(ref, timeout=30) == "done"


# ---------------------------------------------------------------- how many processes
def test_a_recursion_has_about_as_many_processes_as_cpus_times_levels(cm: ModuleType) -> None:
    @cm.remote
    def fib(n: int) -> tuple[int, set[int]]:
        if n < 2:
            return n, {os.getpid()}
        (a, pids), (b, others) = cm.get([fib.remote(n - 1), fib.remote(n - 2)])
        return a + b, pids | others | {os.getpid()}

    value, pids = cm.get(fib.remote(9), timeout=60)
    assert value == 34
    assert len(pids) <= 2 * (9 + 2), "110 tasks, 9 levels, 2 CPUs"


def test_of_many_parents_few_are_begun(cm: ModuleType) -> None:
    child = cm.remote(lambda i: i)

    @cm.remote
    def parent() -> tuple[int, int]:
        return sum(cm.get([child.remote(i) for i in range(5)])), os.getpid()

    seen = cm.get([parent.remote() for _ in range(40)], timeout=60)
    assert {total for total, _ in seen} == {10}
    assert len({pid for _, pid in seen}) <= 8


def test_a_recursive_function_is_loaded_once_or_twice_in_a_process(cm: ModuleType, tmp_path: Path) -> None:
    class Loaded:
        def __init__(self, path: Path) -> None:
            self.path = path

        def __setstate__(self, state: dict[str, Any]) -> None:
            self.__dict__ = state
            with self.path.open("a") as file:
                file.write(f"{os.getpid()}\n")

    loaded = Loaded(tmp_path / "loaded")

    @cm.remote
    def fib(n: int) -> int:
        assert loaded.path
        return n if n < 2 else sum(cm.get([fib.remote(n - 1), fib.remote(n - 2)]))

    assert [cm.get(fib.remote(7), timeout=60) for _ in range(4)] == [13] * 4
    pids = loaded.path.read_text().split()
    assert max(pids.count(pid) for pid in pids) <= 3, "and not for each process that has submitted it"


@pytest.mark.slow
def test_levels_beyond_all_processes_are_an_error_and_no_hang(cm: ModuleType) -> None:
    @cm.remote
    def deep(n: int) -> int:
        return 0 if n == 0 else 1 + cm.get(deep.remote(n - 1))

    assert cm.get(deep.remote(150), timeout=100) == 150
    with pytest.raises(cm.exceptions.TaskUnschedulableError, match="240 processes run, as many as"):
        cm.get(deep.remote(400), timeout=100)
    assert cm.get(deep.remote(5), timeout=100) == 5


@pytest.mark.slow
def test_a_recursion_without_cpus_ends(cm: ModuleType) -> None:
    @cm.remote(num_cpus=0)
    def fib(n: int) -> int:
        return n if n < 2 else sum(cm.get([fib.remote(n - 1), fib.remote(n - 2)]))

    assert cm.get(fib.remote(14), timeout=100) == 377


# ---------------------------------------------------------------- threads of a task
def test_threads_of_tasks_that_wait_give_the_cpu_back(cm: ModuleType) -> None:
    add = cm.remote(lambda a, b: a + b)

    @cm.remote
    def fan(n: int) -> int:
        with ThreadPoolExecutor(4) as pool:
            return sum(pool.map(lambda i: cm.get(add.remote(i, 1)), range(n)))

    assert cm.get([fan.remote(6) for _ in range(3)], timeout=30) == [21] * 3


def test_a_thread_that_outlives_its_task_gives_no_other_tasks_cpu_back(one_cpu: ModuleType, flag: Callable) -> None:
    @one_cpu.remote
    def leaves_a_thread(never: Any) -> None:
        pending = wait_for_flag.remote(never)
        threading.Thread(target=lambda: one_cpu.get(pending), daemon=True).start()

    @one_cpu.remote(num_cpus=0)
    def wait_for_flag(go: Any) -> None:
        go.wait()

    @one_cpu.remote
    def sleeps(log: Any) -> tuple[float, float]:
        began = time.monotonic()
        time.sleep(0.05)
        return began, time.monotonic()

    one_cpu.get(leaves_a_thread.remote(flag("never")), timeout=30)
    spans = sorted(one_cpu.get([sleeps.remote(i) for i in range(6)], timeout=30))
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(spans)), "one CPU, one task"
    flag("never").set()
