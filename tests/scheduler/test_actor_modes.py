"""How a worker serves an actor: in order, with threads, or with an asyncio loop."""

from __future__ import annotations

import asyncio
import builtins
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cellmesh.scheduler.ipc.messages import WorkerOutput
from support.waiting import wait_until

import cellmesh as cm
from cellmesh.session.current import current


@pytest.fixture(autouse=True)
def session() -> Iterator[None]:
    cm.init(num_cpus=2, object_store_memory=64 << 20)
    yield
    cm.shutdown()


@cm.remote
class Ordered:
    def __init__(self) -> None:
        self.seen: list[int] = []

    def add(self, i: int) -> list[int]:
        self.seen.append(i)
        return self.seen

    def thread(self) -> bool:
        return threading.current_thread() is threading.main_thread()


@cm.remote
class Meeting:
    """Calls that end only when as many as `n` are in flight together."""

    def __init__(self, n: int) -> None:
        self.barrier = threading.Barrier(n)

    def meet(self) -> str:
        self.barrier.wait(30)
        return threading.current_thread().name

    def pid(self) -> int:
        return os.getpid()


@cm.remote
def nothing() -> None:
    pass


@cm.remote
class Async:
    def __init__(self) -> None:
        self.event = asyncio.Event()
        self.n_waiting = 0

    async def wait(self) -> int:
        self.n_waiting += 1
        try:
            await self.event.wait()
        except asyncio.CancelledError:
            self.n_waiting -= 100
            raise
        return self.n_waiting

    async def release(self) -> None:
        self.event.set()

    def count(self) -> int:
        return self.n_waiting

    async def talk(self, name: str, n: int) -> None:
        for i in range(n):
            print(name, i)
            await asyncio.sleep(0)

    async def fail(self, kind: str) -> None:
        await asyncio.sleep(0)
        raise getattr(builtins, kind)("as asked")

    def pid(self) -> int:
        return os.getpid()

    async def ask(self, ref: list) -> int:
        return await ref[0]

    async def hear(self, n: int) -> bytes:
        """`n` bytes through a pair of sockets, the last of them sent by a thread."""
        reader, _ = await asyncio.open_connection(sock=(pair := socket.socketpair())[0])
        with pair[1] as other:
            other.sendall(b"x" * (n - 1))
            await asyncio.to_thread(other.sendall, b"y")
            heard = await reader.readexactly(n)
        return heard

    async def submit(self, together: int) -> tuple[str, list]:
        """Who this call is and a task that it submits, in turns with other calls of the same."""
        self.n_waiting += 1
        while self.n_waiting < together:
            await asyncio.sleep(0)
        return cm.get_runtime_context().get_task_id(), [nothing.remote()]


def test_an_ordinary_actor_is_served_in_order_by_the_main_thread() -> None:
    actor = Ordered.remote()
    assert cm.get([actor.add.remote(i) for i in range(100)])[-1] == list(range(100))
    assert cm.get(actor.thread.remote())


def test_a_threaded_actor_runs_so_many_calls_at_once() -> None:
    actor = Meeting.options(max_concurrency=3).remote(3)
    names = cm.get([actor.meet.remote() for _ in range(6)], timeout=60)
    assert len(set(names)) == 3
    pid = cm.get(actor.pid.remote())
    cm.kill(actor)
    with pytest.raises(cm.exceptions.ActorDiedError):
        cm.get(actor.pid.remote())
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"))


def test_an_async_actor_interleaves_its_calls() -> None:
    actor = Async.remote()
    waiting = [actor.wait.remote() for _ in range(50)]
    wait_until(lambda: cm.get(actor.count.remote()) == 50)
    cm.get(actor.release.remote())
    assert cm.get(waiting) == [50] * 50


def test_max_concurrency_bounds_the_calls_in_flight() -> None:
    actor = Async.options(max_concurrency=3).remote()
    waiting = [actor.wait.remote() for _ in range(5)]
    with pytest.raises(cm.exceptions.GetTimeoutError):  # there is no room for it
        cm.get(actor.count.remote(), timeout=0.2)
    cm.cancel(waiting[0])
    cm.cancel(waiting[1])
    cm.cancel(waiting[2])
    for ref in waiting[:3]:
        with pytest.raises(cm.exceptions.TaskCancelledError):
            cm.get(ref, timeout=30)
    assert cm.get(actor.release.remote(), timeout=30) is None
    cm.get(waiting[3:], timeout=30)


def test_one_call_among_many_is_cancelled() -> None:
    actor = Async.remote()
    one, *others = [actor.wait.remote() for _ in range(10)]
    wait_until(lambda: cm.get(actor.count.remote()) == 10)
    cm.cancel(one)
    with pytest.raises(cm.exceptions.TaskCancelledError):
        cm.get(one, timeout=30)
    cm.get(actor.release.remote())
    assert cm.get(others, timeout=30) == [10 - 100] * 9


@pytest.mark.parametrize("kind", ["ValueError", "KeyboardInterrupt"])
def test_whatever_a_coroutine_raises_is_its_callers(kind: str) -> None:
    actor = Async.remote()
    pid = cm.get(actor.pid.remote())
    with pytest.raises(cm.exceptions.TaskError, match=kind):
        cm.get(actor.fail.remote(kind))
    assert cm.get(actor.pid.remote()) == pid


def test_a_coroutine_may_await_refs() -> None:
    actor = Async.remote()
    assert cm.get(actor.ask.remote([cm.put(17)]), timeout=30) == 17


def test_the_loop_serves_descriptors_threads_and_timers_beside_calls() -> None:
    actor = Async.remote()
    waiting = actor.wait.remote()
    heard = [actor.hear.remote(n) for n in range(1, 20)]
    assert cm.get(heard, timeout=30) == [b"x" * (n - 1) + b"y" for n in range(1, 20)]
    cm.get(actor.release.remote())
    assert cm.get(waiting, timeout=30) == 1


def test_what_a_coroutine_submits_is_its_calls_child() -> None:
    actor = Async.remote()
    answers = cm.get([actor.submit.remote(5) for _ in range(5)], timeout=30)
    cm.get([child for _, (child,) in answers])
    parents = [str(task["parent"]) for task in cm.state.list_tasks() if task["name"] == "nothing"]
    assert len({name for name, _ in answers}) == 5
    assert sorted(parents) == sorted(name for name, _ in answers)


def test_what_coroutines_print_is_their_own() -> None:
    heard: list[WorkerOutput] = []
    current().node.link.add_listener(lambda m: heard.append(m) if isinstance(m, WorkerOutput) else None)
    actor = Async.remote()
    cm.get([actor.talk.remote(name, 20) for name in "abc"])

    def texts() -> dict[int, str]:
        found: dict[int, str] = {}
        for message in heard:
            found[message.task] = found.get(message.task, "") + message.text
        return found

    expected = ["".join(f"{name} {i}\n" for i in range(20)) for name in "abc"]
    wait_until(lambda: sorted(texts().values()) == expected, 20)
    assert 0 not in texts()


def test_an_async_actor_ends_with_its_last_handle_and_not_before_its_calls() -> None:
    actor = Async.remote()
    pid = cm.get(actor.pid.remote())
    ref = actor.wait.remote()
    wait_until(lambda: cm.get(actor.count.remote()) == 1)  # noqa: F821  (deleted only then)
    released = actor.release.remote()
    del actor
    assert cm.get([ref, released], timeout=30) == [1, None]
    current().client.flush()
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"))


def test_a_constructor_that_fails_costs_no_worker(tmp_path: Path) -> None:
    @cm.remote(num_cpus=0)
    class Broken:
        def __init__(self, kind: type[BaseException]) -> None:
            raise kind("in the constructor")

        def pid(self) -> int:
            return os.getpid()

    @cm.remote
    def where() -> int:
        return os.getpid()

    before = {cm.get(where.remote()) for _ in range(50)}
    for kind in (ValueError, KeyboardInterrupt):
        with pytest.raises(cm.exceptions.ActorDiedError, match="in the constructor"):
            cm.get(Broken.remote(kind).pid.remote())
    workers = {entry["pid"] for entry in current().client.clients() if entry["role"] == "worker"}
    assert before <= workers
