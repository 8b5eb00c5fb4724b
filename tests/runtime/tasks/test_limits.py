"""As many of everything as there is room for, and one more."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from types import ModuleType

import numpy as np
import pytest
from cellmesh.scheduler.system import processes
from support.waiting import wait_until, wait_until_at_rest

import cellmesh
from cellmesh.exceptions import StoreLimitError
from cellmesh.session.current import current

pytestmark = pytest.mark.timeout(120)
MILLION = 1_000_000
SMALL = {"num_cpus": 1, "max_objects": 1000, "max_tasks": 1000}


@contextmanager
def running(**arguments: int) -> Iterator[ModuleType]:
    """A session of its own, so that nothing else is in its tables."""
    with cellmesh.init(**arguments):
        yield cellmesh
        assert current().client.check() == []
        wait_until_at_rest(lambda: [os.getpid(), *processes.session_processes(current().node.session_id)])


@cellmesh.remote
def held_until(go: object) -> None:
    go.wait()


@cellmesh.remote
def double(x: int) -> int:
    return 2 * x


@cellmesh.remote(num_cpus=0)
class Idle:
    def ping(self) -> None: ...


def test_a_million_tasks_wait_and_are_drained_and_those_beyond_the_limit_are_refused(flag: Callable) -> None:
    go = flag("go")
    with running(num_cpus=1) as cm:
        holding = held_until.remote(go)  # the only CPU: everything else is queued
        refs = [double.remote(i) for i in range(MILLION)]
        with pytest.raises(
            StoreLimitError, match=r"unfinished tasks \(at most 1,048,576\).*Submit fewer at a time.*init\(max_tasks="
        ):
            for i in count(MILLION):
                refs.append(double.remote(i))
        go.set()
        assert len(refs) > MILLION and cm.get(refs) == list(range(0, 2 * len(refs), 2))
        del refs
        assert cm.get([holding, double.remote(4)]) == [None, 8]


def test_a_full_table_of_objects_says_so_and_is_used_again() -> None:
    with running(**SMALL) as cm:
        refs: list[object] = []
        with pytest.raises(
            StoreLimitError, match=r"room for another object: .* objects \(at most 1,000\).*init\(max_objects="
        ):
            while True:
                refs.append(cm.put(len(refs)))
        assert cm.get(refs) == list(range(len(refs))) and len(refs) > 900
        with pytest.raises(StoreLimitError, match="room for another object"):
            double.remote(1)
        del refs[-40:]
        assert cm.get([cm.put(i) for i in range(30)]) == list(range(30)) and cm.get(double.remote(2)) == 4


def test_a_full_table_of_tasks_says_so(flag: Callable) -> None:
    go = flag("go")
    with running(num_cpus=1, max_tasks=1000) as cm:
        refs = [held_until.remote(go)]
        with pytest.raises(
            StoreLimitError, match=r"room for another task: there are 1,000 unfinished tasks \(at most 1,000\)"
        ):
            while True:
                refs.append(double.remote(len(refs)))
        go.set()
        assert cm.get(refs[1:]) == list(range(2, 2 * len(refs), 2))


def test_a_program_that_submits_more_than_there_is_room_for_waits_while_tasks_end() -> None:
    with running(num_cpus=2, max_tasks=1000) as cm:
        assert cm.get(double.remote(0)) == 0  # there is a worker
        for i in range(5000):
            last = double.remote(i)
        assert cm.get(last) == 2 * i


def test_who_waits_for_a_place_can_be_interrupted(flag: Callable) -> None:
    go = flag("go")
    with running(num_cpus=1, max_tasks=1000) as cm:
        holding = held_until.remote(go)

        def interrupt() -> None:
            wait_until(lambda: current().client.stats()["n_tasks"] == 1000)
            os.kill(os.getpid(), signal.SIGINT)

        before, thread = signal.signal(signal.SIGINT, signal.default_int_handler), threading.Thread(target=interrupt)
        thread.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                while True:
                    double.remote(1)
        finally:
            thread.join()
            signal.signal(signal.SIGINT, before)
            go.set()
        assert cm.get(holding) is None and cm.get(double.remote(4)) == 8


def test_a_task_that_submits_more_than_there_is_room_for_is_told_at_once() -> None:
    """It may be in the place of those that would have to end."""

    @cellmesh.remote
    def flood() -> int:
        refs = []
        try:
            while True:
                refs.append(double.remote(len(refs)))
        except StoreLimitError:
            return len(refs)

    with running(num_cpus=1, max_tasks=1000) as cm:
        assert cm.get(flood.remote()) == 999


def test_a_full_table_of_actors_counts_actors(flag: Callable) -> None:
    """They wait for a CPU, so that there are no four thousand processes."""
    go = flag("go")
    with running(num_cpus=1) as cm:
        holding, actors = held_until.remote(go), []
        with pytest.raises(StoreLimitError, match=r"as many actors as it can have, 4,096.*kill") as raised:
            while True:
                actors.append(Idle.options(num_cpus=1).remote())
        assert len(actors) == 4096 and "tasks (at most" not in str(raised.value)
        for actor in actors:
            cm.kill(actor)
        del actors, actor
        go.set()
        assert cm.get(holding) is None


def test_any_number_of_resource_shapes_one_after_the_other() -> None:
    with running(num_cpus=2) as cm:
        kept = double.options(num_cpus=0.5)
        assert cm.get(kept.remote(1)) == 2
        for i in range(1200):
            assert cm.get(double.options(num_cpus=1 + i / 10_000).remote(i)) == 2 * i
        assert cm.get([double.remote(2), kept.remote(3)]) == [4, 6]  # whose shape has had to make room meanwhile
        assert current().client.check() == []


@pytest.mark.filterwarnings("ignore:.*it will wait for ever")
def test_what_can_never_run_and_nobody_asks_for_makes_room_for_other_shapes() -> None:
    with cellmesh.init(num_cpus=2):
        kept = double.options(num_cpus=100).remote(0)
        refs: list[object] = []
        with pytest.raises(StoreLimitError, match="at a time, 512"):
            while True:
                refs.append(double.options(num_cpus=101 + len(refs)).remote(len(refs)))
        last, n = refs.pop(), len(refs)
        del refs
        assert n > 480
        for i in range(50):
            assert cellmesh.get(double.options(num_cpus=1 + i / 10_000).remote(i), timeout=20) == 2 * i
        ready, pending = cellmesh.wait([kept, last], num_returns=2, timeout=0)
        assert not ready and len(pending) == 2, "whose refs are there"
        assert current().client.check() == []


def test_too_many_resource_shapes_at_once_say_so_and_plain_tasks_run(flag: Callable) -> None:
    go = flag("go")
    with running(num_cpus=2) as cm:
        holding, refs = held_until.options(num_cpus=1.5).remote(go), []
        with pytest.raises(StoreLimitError, match=r"num_cpus.*runtime_env.*512. Wait until some have ended, kill\(\)"):
            while True:
                refs.append(double.options(num_cpus=1 + len(refs) / 10_000).remote(len(refs)))
        assert len(refs) > 480
        with pytest.raises(StoreLimitError, match="at a time, 512"):
            Idle.options(num_cpus=0.123).remote()
        plain, actor = double.options(name="plain").remote(2), Idle.remote()
        go.set()
        assert cm.get([holding, plain]) == [None, 4] and cm.get(refs) == list(range(0, 2 * len(refs), 2))
        assert cm.get(actor.ping.remote()) is None and cm.get(double.options(num_cpus=0.123).remote(4)) == 8


def test_what_is_listed_are_the_largest_however_many_there_are() -> None:
    with running(num_cpus=1) as cm:
        small = [cm.put(b"x" * (1000 + i % 500)) for i in range(10_000)]  # more than one page of them
        large = [cm.put(bytes(100_000 * (i + 1))) for i in range(3)]
        rows = cm.state.list_objects(limit=5)
        assert [row["id"] for row in rows[:3]] == [ref.hex() for ref in reversed(large)]
        assert rows[3]["size"] == rows[4]["size"] < 2000
        least = cm.state.list_objects(filters=[("size", "<", 1100), ("size", ">", 900)], limit=10**9)
        assert len(least) > 1000 and sorted(least, key=lambda row: -row["size"]) == least
        assert next(row for row in cm.state.summarize_objects() if row["made_by"] == "put")["objects"] >= len(
            small
        ) + len(large)


@pytest.mark.slow
def test_the_largest_session_there_can_be_is_one_like_the_others() -> None:
    with running(num_cpus=1, max_objects=2**31 - 1, max_tasks=2**31 - 1, object_store_memory=1 << 45) as cm:
        assert cm.get([double.remote(i) for i in range(100)]) == list(range(0, 200, 2))
        assert cm.get(cm.put(np.arange(1 << 17))).sum() == sum(range(1 << 17))
        assert os.fstat(current().node.fd).st_blocks * 512 < 64 << 20


@pytest.mark.slow
def test_ten_million_objects_at_once() -> None:
    n = 10 * MILLION
    with running(num_cpus=1) as cm:
        client = current().client
        before = client.stats()["n_objects"]
        refs = [cm.put(i) for i in range(n)]
        assert client.stats()["n_objects"] == before + n and client.check() == []
        assert all(cm.get(refs[i : i + MILLION]) == list(range(i, i + MILLION)) for i in range(0, n, MILLION))
        assert cm.get(double.remote(refs[-1])) == 2 * (n - 1)
        assert (
            len(cm.state.list_objects(limit=10)) == 10
            and f" in {client.stats()['n_objects']} objects" in cm.state.memory()
        )
        del refs
        client.flush()
        wait_until(lambda: client.stats()["n_objects"] <= before + 10, deadline=30)


@pytest.mark.slow
def test_an_object_of_five_gib_in_a_store_of_eight() -> None:
    size = 5 << 30
    with running(num_cpus=1, object_store_memory=8 << 30) as cm:
        array = np.zeros(size, "u1")  # takes no memory of its own but for the two ends
        array[0], array[-1] = 3, 4
        ref = cm.put(array)
        back, again = cm.get(ref, readonly=True), cm.get(ref, readonly=True)
        assert back.nbytes == size and not back.flags.writeable and np.shares_memory(back, again)
        assert (back[0], back[1], back[-2], back[-1]) == (3, 0, 0, 4)
        ends = cm.remote(lambda x: (x.nbytes, int(x[0]), int(x[-1])))
        assert cm.get(ends.remote(ref)) == (size, 3, 4)
        with pytest.raises(cm.exceptions.ObjectStoreFullError, match="does not fit"):
            cm.put(np.zeros(9 << 30, "u1"))
        del ref, back, again
        gc.collect()
        node = current().node
        wait_until(lambda: os.fstat(node.fd).st_blocks * 512 < 2 << 30, deadline=90)  # an eighth stays


def test_a_number_of_a_million_digits_is_an_object_of_its_own() -> None:
    with running(num_cpus=1) as cm:

        @cm.remote
        def same(*numbers: int) -> tuple[int, ...]:
            return numbers

        huge, _first = 1 << 8_000_000, same.remote(1)
        before = current().client.stats()["n_objects"]
        ref = same.remote(huge, 5, huge)
        assert current().client.stats()["n_objects"] > before + 1
        assert cm.get(ref) == (huge, 5, huge)


def test_a_call_with_too_many_small_arguments_is_refused() -> None:
    with running(num_cpus=1) as cm:

        @cm.remote
        def count_them(*words: str) -> int:
            return len(words)

        with pytest.raises(ValueError, match=r"a call with 300000 arguments .* pass them as one list"):
            count_them.remote(*["x" * 255] * 300_000)
        assert cm.get(count_them.remote(*["x" * 255] * 30_000)) == 30_000


def test_more_actors_than_processes_are_told_of_and_begin_as_others_end(capfd: pytest.CaptureFixture[str]) -> None:
    with running(num_cpus=2) as cm:

        @cm.remote(num_cpus=0)
        class Small:
            def call(self) -> int:
                return 1

        actors = [Small.remote() for _ in range(245)]
        said = ""

        def is_told() -> bool:
            nonlocal said
            said += capfd.readouterr().err
            return "'Small.call' waits for a process: 240 run" in said and "5 actors wait to begin" in said

        refs = [actor.call.remote() for actor in actors]
        assert cm.get(refs[:240], timeout=60) == [1] * 240
        with pytest.raises(cm.exceptions.GetTimeoutError):
            cm.get(refs[240:], timeout=5)
        wait_until(is_told, 5)
        del actors[:20]
        assert cm.get(refs, timeout=30) == [1] * 245
