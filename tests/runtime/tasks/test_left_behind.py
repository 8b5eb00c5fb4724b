"""The table of docs/isolation.md, row by row: what code changes in its process, and who finds it there."""

from __future__ import annotations

import builtins
import contextlib
import contextvars
import decimal
import gc
import io
import locale
import math
import os
import random
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from os import chdir
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from support.flags import Flag

import cellmesh

pytestmark = pytest.mark.timeout(60)

# What one CPU's worker is asked of by one test after the other; each row changes another thing.
RESTORED: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "decimal's precision": (lambda: decimal.setcontext(decimal.Context(prec=5)), lambda: decimal.getcontext().prec),
    "numpy's error handling": (lambda: np.seterr(all="raise"), np.geterr),
    "the folder": (lambda: os.chdir("/"), os.getcwd),
    "the folder, by descriptor": (lambda: os.fchdir(os.open("/", os.O_RDONLY)), os.getcwd),
    "the folder, by another name": (lambda: chdir("/"), os.getcwd),
    "the umask": (lambda: os.umask(0o011), lambda: (mask := os.umask(0), os.umask(mask))[0]),
    "an alarm": (lambda: signal.alarm(300), lambda: signal.getitimer(signal.ITIMER_REAL)[0] > 0),
    "a timer": (
        lambda: signal.setitimer(signal.ITIMER_PROF, 300),
        lambda: signal.getitimer(signal.ITIMER_PROF)[0] > 0,
    ),
    "what cancels": (lambda: signal.signal(signal.SIGINT, signal.SIG_IGN), lambda: repr(signal.getsignal(2))),
    "what ends it": (lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN), lambda: repr(signal.getsignal(15))),
    "what an alarm does": (
        lambda: signal.signal(signal.SIGALRM, print),
        lambda: repr(signal.getsignal(signal.SIGALRM)),
    ),
    "sys.stdout": (lambda: setattr(sys, "stdout", io.StringIO()), lambda: type(sys.stdout).__name__),
    "sys.stderr": (lambda: setattr(sys, "stderr", io.StringIO()), lambda: type(sys.stderr).__name__),
    "an open redirection": (
        lambda: contextlib.ExitStack().enter_context(contextlib.redirect_stdout(io.StringIO())),
        lambda: type(sys.stdout).__name__,
    ),
}
STAYS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "environment variables": (lambda: os.environ.update(LEFT_BEHIND="1"), lambda: os.environ.get("LEFT_BEHIND")),
    "sys.path": (lambda: sys.path.insert(0, "/nowhere"), lambda: sys.path[0]),
    "what modules hold": (lambda: setattr(math, "left_behind", 1), lambda: hasattr(math, "left_behind")),
    "the state of random": (lambda: random.seed(5), lambda: hash(random.getstate())),
    "the state of numpy.random": (lambda: np.random.seed(5), lambda: np.random.get_state()[1][:3].tolist()),
    "warning filters": (lambda: warnings.simplefilter("error", BytesWarning), lambda: str(warnings.filters[0])),
    "the locale": (lambda: locale.setlocale(locale.LC_TIME, "C.UTF-8"), lambda: locale.setlocale(locale.LC_TIME)),
    "the recursion limit": (lambda: sys.setrecursionlimit(5000), sys.getrecursionlimit),
    "other handlers": (lambda: signal.signal(signal.SIGUSR1, print), lambda: repr(signal.getsignal(signal.SIGUSR1))),
    "threads": (
        lambda: threading.Thread(target=threading.Event().wait, daemon=True).start(),
        threading.active_count,
    ),
}


@pytest.fixture(scope="module")
def worker() -> Iterator[None]:
    cellmesh.init(num_cpus=1, object_store_memory=64 << 20)
    yield
    cellmesh.shutdown()


def found_by_tasks(change: Callable[[], Any], see: Callable[[], Any], **options: Any) -> list[tuple[int, Any]]:
    """What three tasks see: before the change, right behind it, and the next one; with their processes."""

    def look() -> tuple[int, Any]:
        return os.getpid(), see()

    def change_and_look() -> tuple[int, Any]:
        change()
        return look()

    tasks = cellmesh.remote(look), cellmesh.remote(change_and_look).options(**options), cellmesh.remote(look)
    return [cellmesh.get(task.remote(), timeout=30) for task in tasks]


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("row", RESTORED)
def test_the_next_task_does_not_find_it(row: str) -> None:
    before, changed, after = found_by_tasks(*RESTORED[row])
    assert before[0] == changed[0] == after[0], "one process has run them"
    assert changed[1] != before[1] == after[1]


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("row", STAYS)
def test_the_next_task_finds_it_unless_the_process_was_the_tasks_own(row: str) -> None:
    before, changed, after = found_by_tasks(*STAYS[row], max_calls=1)
    assert changed[0] != after[0]
    assert changed[1] != before[1] and changed[1] != after[1]
    before, changed, after = found_by_tasks(*STAYS[row])
    assert before[0] == changed[0] == after[0]
    assert changed[1] == after[1] != before[1]


def test_an_alarm_ends_no_other_task(one_cpu: ModuleType) -> None:
    class Late(Exception):
        pass

    @one_cpu.remote
    def leaves_alarms() -> None:
        def raise_late(number: int, frame: object) -> None:
            raise Late

        signal.signal(signal.SIGALRM, raise_late)
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0001)

    @one_cpu.remote
    def works() -> int:
        return sum(range(20_000))

    for _ in range(15):
        left = leaves_alarms.remote()
        with contextlib.suppress(Late):  # it comes before the task has ended, or after
            one_cpu.get(left)
        assert one_cpu.get(works.remote(), timeout=30) == 199_990_000


def test_an_alarm_is_over_when_the_error_of_its_task_is_described(one_cpu: ModuleType) -> None:
    class Described(Exception):
        def __str__(self) -> str:
            return f"an alarm in {signal.getitimer(signal.ITIMER_REAL)[0]:.0f} s"

    @one_cpu.remote
    def fails() -> None:
        signal.alarm(300)
        raise Described

    with pytest.raises(cellmesh.exceptions.TaskError, match="an alarm in 0 s"):
        one_cpu.get(fails.remote(), timeout=30)


def test_what_an_environment_sets_up_is_what_its_tasks_find(one_cpu: ModuleType) -> None:
    def set_up() -> None:
        os.chdir("/usr")
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def found() -> tuple[str, bool]:
        return os.getcwd(), signal.getsignal(signal.SIGTERM) is signal.SIG_IGN

    def changes() -> None:
        os.chdir("/")
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    options = {"runtime_env": {"worker_process_setup_hook": set_up}}
    tasks = [one_cpu.remote(task).options(**options) for task in (found, changes, found)]
    assert [one_cpu.get(task.remote(), timeout=30) for task in tasks] == [("/usr", True), None, ("/usr", True)]


def test_functions_that_are_noted_are_those_of_python_to_programs(one_cpu: ModuleType) -> None:
    @one_cpu.remote
    def inner() -> str:
        chdir("/")
        return os.getcwd()

    @one_cpu.remote
    def outer() -> list[Any]:
        try:
            os.chdir("/there/is/none")
        except FileNotFoundError as error:
            frames = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        with contextlib.chdir("/usr"):
            inside = os.getcwd()
        names = os.chdir.__name__, os.fchdir in os.supports_fd or os.chdir in os.supports_fd, os.chdir is chdir
        return [frames, inside, names, one_cpu.get(inner.remote())]

    assert one_cpu.get(outer.remote(), timeout=30) == [["outer"], "/usr", ("chdir", True, True), "/"]


def test_workers_draw_numbers_of_their_own(one_cpu: ModuleType) -> None:
    @one_cpu.remote(max_calls=1)
    def draw() -> tuple[int, float, float]:
        return os.getpid(), random.random(), float(np.random.rand())

    drawn = [one_cpu.get(draw.remote(), timeout=30) for _ in range(3)]
    assert [len(set(column)) for column in zip(*drawn, strict=True)] == [3, 3, 3]


def test_a_finalizer_runs_in_whatever_task_the_collector_comes(one_cpu: ModuleType) -> None:
    @one_cpu.remote
    def leaves_a_cycle() -> None:
        class Left:
            def __del__(self) -> None:
                sys.left_to = cellmesh.get_runtime_context().get_task_name()

        gc.disable()
        left = Left()
        left.itself = left

    @one_cpu.remote
    def collects() -> str:
        gc.enable()
        gc.collect()
        return sys.left_to

    one_cpu.get(leaves_a_cycle.remote())
    assert one_cpu.get(collects.remote(), timeout=30) == "collects"


@pytest.mark.parametrize("how", ["", "set", "reset", "kept"])
def test_a_task_finds_no_context_variables_of_one_before_it(one_cpu: ModuleType, how: str) -> None:
    @one_cpu.remote
    def leave() -> None:
        name: contextvars.ContextVar[int] = contextvars.ContextVar("name")
        kept = vars(builtins).setdefault("kept", [])
        if how in ("set", "reset"):
            kept.append(name.set(1))
        if how == "reset":
            name.reset(kept[-1])
        if how == "kept":
            kept.append(contextvars.copy_context())

    @one_cpu.remote
    def found() -> int:
        return len(contextvars.copy_context())

    for _ in range(3):
        one_cpu.get(leave.remote())
        assert one_cpu.get(found.remote()) == 0


def test_callbacks_find_nothing_of_each_other(cm: ModuleType, flag: Callable[[str], Flag]) -> None:
    name = contextvars.ContextVar("name", default="none")
    name.set("the notebook")
    found: list[str] = []
    over = threading.Event()

    def call_back(future: Any) -> None:
        found.append(name.get())
        name.set("a callback")
        if len(found) == 3:
            over.set()

    go = flag("go")
    for _ in range(3):
        cm.remote(Flag.wait).remote(go).future().add_done_callback(call_back)
    go.set()  # all are added before one is called
    assert over.wait(20)
    assert found == ["none"] * 3


# ---------------------------------------------------------------- actors
class Keeper:
    """An actor with a context variable, which its constructor and its calls set."""

    def __init__(self) -> None:
        self.name = contextvars.ContextVar("name", default="none")
        self.name.set("constructor")
        self.together = threading.Barrier(4)

    def set(self) -> None:
        os.chdir("/usr")
        self.name.set("call")

    def set_together(self) -> None:
        self.name.set("call")
        self.together.wait(20)

    def found(self) -> tuple[str, str]:
        return os.getcwd(), self.name.get()

    def found_together(self) -> str:
        self.together.wait(20)
        return self.name.get()


class AsyncKeeper(Keeper):
    """As one with a loop."""

    async def set_and_stay(self, name: str, others: int) -> str:
        import asyncio

        self.name.set(name)
        self.inside = getattr(self, "inside", 0) + 1
        while self.inside < others:
            await asyncio.sleep(0)
        return self.name.get()

    async def items(self, name: str) -> Any:
        self.name.set(name)
        for _ in range(2):
            yield self.name.get()


def test_an_actor_keeps_what_its_calls_change(cm: ModuleType) -> None:
    keeper = cm.remote(Keeper).remote()
    cm.get(keeper.set.remote())
    assert cm.get(keeper.found.remote(), timeout=30) == ("/usr", "call")


def test_each_call_of_a_threaded_actor_has_the_context_that_its_constructor_left(cm: ModuleType) -> None:
    keeper = cm.remote(Keeper).options(max_concurrency=4).remote()
    for _ in range(2):
        assert cm.get([keeper.found_together.remote() for _ in range(4)], timeout=30) == ["constructor"] * 4
        cm.get([keeper.set_together.remote() for _ in range(4)], timeout=30)


def test_each_call_of_an_async_actor_has_a_context_of_its_own(cm: ModuleType) -> None:
    keeper = cm.remote(AsyncKeeper).remote()
    names = ["a", "b", "c"]
    assert cm.get([keeper.set_and_stay.remote(name, 3) for name in names], timeout=30) == names
    streams = [keeper.items.remote(name) for name in names]
    assert [[cm.get(ref) for ref in turn] for turn in zip(*streams, strict=True)] == [names] * 2
    assert cm.get(keeper.found.remote(), timeout=30)[1] == "none"
