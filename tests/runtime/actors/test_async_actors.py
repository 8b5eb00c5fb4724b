"""Async actors: their constructors run on the loop. Concurrency groups: each has threads, or a loop, of its own."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.flags import Counter, Flag
from support.waiting import wait_until

import cellmesh

pytestmark = [pytest.mark.timeout(60), pytest.mark.session("shared")]
MakeFlag = Callable[[str], Flag]


@cellmesh.remote(num_cpus=0)
class Starts:
    """Its constructor starts what runs beside its calls."""

    def __init__(self, how: str = "create_task") -> None:
        self.loop = asyncio.get_running_loop()
        self.queue: asyncio.Queue[int] = asyncio.Queue()
        self.ready = self.loop.create_future()
        create = {"create_task": asyncio.create_task, "get_event_loop": asyncio.get_event_loop().create_task}[how]
        self.task = create(self.double())

    async def double(self) -> None:
        self.ready.set_result(os.getpid())
        while True:
            n, answer = await self.queue.get()
            answer.set_result(2 * n)

    async def ask(self, n: int) -> int:
        answer = self.loop.create_future()
        await self.queue.put((n, answer))
        return await answer

    async def same_loop(self) -> bool:
        return asyncio.get_running_loop() is self.loop and await self.ready == os.getpid()


@cellmesh.remote(num_cpus=0)
class Fails:
    def __init__(self, started: Flag, ended: Flag, refuses: bool, error: BaseException) -> None:
        self.task = asyncio.create_task(self.work(started, ended, refuses))
        raise error

    async def work(self, started: Flag, ended: Flag, refuses: bool) -> None:
        started.set_by_me()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
            while refuses:
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    pass

    async def value(self) -> None:
        pass


@cellmesh.remote(num_cpus=0)
class Awaits:
    """Waits for a task beside its calls."""

    async def until(self, wait: Callable[[], object]) -> None:
        await cellmesh.remote(num_cpus=0)(wait).remote()

    async def n_notifier_wakes(self) -> int | None:
        """How often the thread that waits for refs has slept so far; None before it is there."""
        for thread in threading.enumerate():
            if thread.name == "cellmesh-notifier":
                status = Path(f"/proc/self/task/{thread.native_id}/status").read_text()
                return int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
        return None


@cellmesh.remote(num_cpus=0)
class Notes:
    """Notes which of its calls have begun."""

    def __init__(self) -> None:
        self.begun: list[int] = []

    async def note(self, n: int) -> None:
        self.begun.append(n)

    def notes(self) -> list[int]:
        return list(self.begun)

    def hold(self, started: Flag, go: Flag) -> None:
        started.set()
        go.wait()

    def notes_later(self) -> Any:
        async def later() -> list[int]:
            await asyncio.sleep(0)
            return self.begun

        return later()


# ---------------------------------------------------------------- plain methods among coroutines
def test_calls_begin_in_their_order_whether_they_wait_or_not(cm: ModuleType, flag: MakeFlag) -> None:
    actor = Notes.remote()
    held = actor.hold.remote(flag("started"), flag("go"))
    flag("started").wait()
    refs = [ref for n in range(40) for ref in (actor.note.remote(n), actor.notes.remote())]
    flag("go").set()
    assert cm.get(refs[1::2], timeout=30) == [list(range(n + 1)) for n in range(40)]
    cm.get([held, *refs[::2]])


def test_a_plain_method_may_return_what_is_to_be_awaited(cm: ModuleType) -> None:
    actor = Notes.remote()
    cm.get(actor.note.remote(1))
    assert cm.get(actor.notes_later.remote(), timeout=30) == [1]


# ---------------------------------------------------------------- waiting
def test_calls_do_not_wake_the_thread_that_waits_for_refs(cm: ModuleType, flag: MakeFlag) -> None:
    actor, go = Awaits.remote(), flag("go")
    waiting = actor.until.remote(go.wait)
    before: int = wait_until(lambda: cm.get(actor.n_notifier_wakes.remote()))
    for _ in range(200):
        after = cm.get(actor.n_notifier_wakes.remote())
    assert after - before < 50
    go.set()
    cm.get(waiting, timeout=30)


# ---------------------------------------------------------------- constructors
@pytest.mark.parametrize("how", ["create_task", "get_event_loop"])
def test_what_the_constructor_starts_runs_on_the_loop_of_the_calls(cm: ModuleType, how: str) -> None:
    actor = Starts.remote(how)
    assert cm.get([actor.ask.remote(i) for i in range(5)], timeout=30) == [0, 2, 4, 6, 8]
    assert cm.get(actor.same_loop.remote())


def test_so_it_does_in_the_next_life(cm: ModuleType) -> None:
    actor = Starts.options(max_restarts=1).remote()
    assert cm.get(actor.ask.remote(1), timeout=30) == 2
    pid = cm.get(actor.__call_with__.remote(lambda instance: os.getpid()))
    os.kill(pid, signal.SIGKILL)
    wait_until(
        lambda: cm.get(actor.__call_with__.options(max_task_retries=-1).remote(lambda instance: os.getpid())) != pid
    )
    assert cm.get(actor.ask.remote(2), timeout=30) == 4 and cm.get(actor.same_loop.remote())


def test_a_constructor_may_wait(cm: ModuleType, flag: MakeFlag) -> None:
    @cm.remote(num_cpus=0)
    class Waits:
        def __init__(self, refs: list[Any], go: Flag) -> None:
            self.value = cm.get(refs[0])
            go.wait()

        async def get(self) -> int:
            return self.value

    waiting = Waits.remote([cm.put(3)], flag("go")).get.remote()
    flag("go").set()
    assert cm.get(waiting, timeout=30) == 3


@pytest.mark.parametrize("refuses", [False, True])
def test_what_a_constructor_that_fails_has_started_ends_and_the_worker_goes_on(
    one_cpu: ModuleType, flag: MakeFlag, tmp_path: Path, refuses: bool
) -> None:
    @cellmesh.remote(num_cpus=0)
    def meet(other: Counter) -> int:
        """With two of them at a time no worker is left out."""
        other.add()
        wait_until(lambda: other.value == 2)
        return os.getpid()

    turns = (number // 2 for number in itertools.count())
    cm = one_cpu
    with pytest.raises(cm.exceptions.ActorDiedError, match="ValueError: as asked") as caught:
        cm.get(Fails.remote(flag("started"), flag("ended"), refuses, ValueError("as asked")).value.remote(), timeout=30)
    assert "asyncio" not in str(caught.value) and "raise error" in str(caught.value)
    flag("ended").wait()
    worker = int(flag("started").wait())
    wait_until(lambda: worker in cm.get([meet.remote(Counter(tmp_path / str(next(turns)))) for _ in range(2)]))


# ---------------------------------------------------------------- groups of threads
@cellmesh.remote(concurrency_groups={"one": 1, "two": 2})
class Threaded:
    def __init__(self, together: int = 1) -> None:
        self.local = threading.local()
        self.local.set_in = "constructor"
        self.barrier = threading.Barrier(together)

    def default(self) -> tuple[bool, Any]:
        return threading.current_thread() is threading.main_thread(), getattr(self.local, "set_in", None)

    @cellmesh.method(concurrency_group="one")
    def count(self) -> int:
        self.local.n = getattr(self.local, "n", 0) + 1
        return self.local.n

    @cellmesh.method(concurrency_group="two")
    def meet(self) -> int:
        self.barrier.wait(30)
        return threading.get_ident()

    @cellmesh.method(concurrency_group="two")
    def ident(self) -> int:
        return threading.get_ident()

    def n_threads(self) -> int:
        return sum(thread.name.startswith("call-") for thread in threading.enumerate())


def test_a_group_of_one_stays_in_one_thread(cm: ModuleType) -> None:
    actor = Threaded.remote()
    refs = [(actor.count.remote(), actor.ident.remote(), actor.default.remote()) for _ in range(100)]
    assert cm.get([count for count, _, _ in refs]) == list(range(1, 101))
    assert set(cm.get([default for _, _, default in refs])) == {(True, "constructor")}
    assert len(set(cm.get([ident for _, ident, _ in refs]))) <= 2


def test_threads_begin_when_there_are_calls_for_them(cm: ModuleType) -> None:
    actor = Threaded.options(concurrency_groups={"one": 1, "two": 100_000}).remote(20)
    assert cm.get(actor.n_threads.remote()) == 2
    assert len(set(cm.get([actor.meet.remote() for _ in range(20)], timeout=30))) == 20
    assert 21 <= cm.get(actor.n_threads.remote()) <= 23


@pytest.mark.parametrize("n", [20_000, (1 << 31) - 1])
def test_an_actor_may_serve_any_number_of_calls(cm: ModuleType, n: int) -> None:
    @cm.remote(max_concurrency=n)
    class Wide:
        def __init__(self) -> None:
            self.barrier = threading.Barrier(20)

        def meet(self) -> int:
            self.barrier.wait(30)
            return threading.get_ident()

    actor = Wide.remote()
    assert len(set(cm.get([actor.meet.remote() for _ in range(20)], timeout=30))) == 20


def test_more_than_that_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"max_concurrency=2147483648 of Starts: must be a whole number from 1 to 2,147,483,647"
    ):
        Starts.options(max_concurrency=1 << 31)


def test_a_machine_that_has_no_more_threads_serves_with_those_there_are(
    cm: ModuleType, capfd: pytest.CaptureFixture[str]
) -> None:
    @cm.remote(max_concurrency=8)
    class Refused:
        def __init__(self) -> None:
            def refuse(thread: threading.Thread) -> None:
                raise RuntimeError("can't start new thread")

            threading.Thread.start = refuse

        def double(self, x: int) -> int:
            return 2 * x

    actor = Refused.remote()
    assert cm.get([actor.double.remote(i) for i in range(10)], timeout=30) == [2 * i for i in range(10)]
    said = ""

    def heard() -> bool:
        nonlocal said
        said += capfd.readouterr().err
        return "an actor serves 1 calls of a concurrency group at a time, not 8 as its options say" in said

    wait_until(heard)


# ---------------------------------------------------------------- groups with loops
@cellmesh.remote(concurrency_groups={"blocked": 1, "io": 5}, num_cpus=0)
class Looped:
    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.waiting = 0

    async def where(self) -> tuple[int, bool]:
        return threading.get_ident(), asyncio.get_running_loop() is self.loop

    @cellmesh.method(concurrency_group="blocked")
    async def block(self, started: Flag, go: Flag) -> tuple[int, bool]:
        started.set()
        go.wait()
        return await self.where()

    async def block_default(self, started: Flag, go: Flag) -> None:
        started.set()
        go.wait()

    @cellmesh.method(concurrency_group="io")
    async def io(self) -> tuple[int, bool]:
        await asyncio.sleep(0)
        return await self.where()

    @cellmesh.method(concurrency_group="io")
    def plain_io(self) -> int:
        return threading.get_ident()

    @cellmesh.method(concurrency_group="io")
    async def meet(self, together: int, ended: Counter) -> None:
        if not self.waiting:
            self.event = asyncio.Event()
        self.waiting += 1
        if self.waiting == together:
            self.event.set()
        try:
            await self.event.wait()
        except asyncio.CancelledError:
            ended.add()
            raise

    def n_waiting(self) -> int:
        return self.waiting


def test_a_group_whose_loop_is_blocked_does_not_block_others(cm: ModuleType, flag: MakeFlag) -> None:
    actor = Looped.remote()
    blocked = actor.block.remote(flag("started"), flag("go"))
    flag("started").wait()
    default, io, plain = cm.get([actor.where.remote(), actor.io.remote(), actor.plain_io.remote()], timeout=30)
    flag("go").set()
    of_blocked = cm.get(blocked)
    assert [is_constructors for _, is_constructors in (default, io, of_blocked)] == [True, False, False]
    assert len({default[0], io[0], of_blocked[0]}) == 3 and plain == io[0]


def test_primitives_belong_to_the_group_that_uses_them(cm: ModuleType, counter: Counter) -> None:
    actor = Looped.remote()
    cm.get([actor.meet.remote(5, counter) for _ in range(5)], timeout=30)


def test_a_call_of_a_group_is_cancelled_while_the_main_loop_is_blocked(
    cm: ModuleType, flag: MakeFlag, counter: Counter
) -> None:
    actor = Looped.remote()
    waiting = [actor.meet.remote(5, counter) for _ in range(3)]
    wait_until(lambda: cm.get(actor.n_waiting.remote()) == 3)
    blocked = actor.block_default.remote(flag("started"), flag("go"))
    flag("started").wait()
    cm.cancel(waiting[1])
    with pytest.raises(cm.exceptions.TaskCancelledError):
        cm.get(waiting[1], timeout=30)
    assert counter.value == 1
    flag("go").set()
    cm.get(blocked)
    cm.get([actor.meet.remote(5, counter) for _ in range(2)] + [waiting[0], waiting[2]], timeout=30)


@pytest.mark.parametrize("actor_class", [Looped, Threaded])
def test_groups_end_with_the_last_handle(cm: ModuleType, actor_class: Any) -> None:
    actor = actor_class.remote()
    pid = cm.get(actor.__call_with__.remote(lambda instance: os.getpid()))
    del actor
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"))
