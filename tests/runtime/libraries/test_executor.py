"""`cellmesh.util.Executor` behaves as the executors of concurrent.futures."""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter
from concurrent import futures
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from types import ModuleType

import pytest

import cellmesh
from cellmesh.util import Executor

pytestmark = [pytest.mark.timeout(60), pytest.mark.session("shared")]
factor = None


def set_factor(value):
    global factor
    factor = value


def scaled(x):
    return x * factor


def shifted(x):
    return x + factor


def test_submit_and_map(cm: ModuleType) -> None:
    with Executor() as executor:
        assert executor.submit(pow, 2, 3).result(30) == 8
        assert executor.submit(int, "ff", base=16).result(30) == 255
        assert executor.submit(partial(pow, 2), 5).result(30) == 32
        assert list(executor.map(pow, [2, 3], [3, 2])) == [8, 9]
        assert list(executor.map(abs, range(-50, 0), chunksize=7)) == list(range(50, 0, -1))
        assert executor.submit(os.getpid).result(30) != os.getpid()


def test_errors(cm: ModuleType) -> None:
    with Executor() as executor:
        assert isinstance(executor.submit(int, "a").exception(30), ValueError)
        with pytest.raises(ZeroDivisionError):
            list(executor.map(lambda x: 1 / x, [1, 0]))
        with pytest.raises(TypeError, match="positional"):
            executor.submit(lambda: 1, 2).result(30)
        with pytest.raises(cm.exceptions.WorkerCrashedError) as crashed:
            Executor(max_retries=0).submit(os._exit, 3).result(30)
        assert isinstance(crashed.value, BrokenProcessPool) and crashed.value.exit_code == 3
        again = pickle.loads(pickle.dumps(crashed.value))
        assert type(again) is type(crashed.value) and again.exit_code == 3


def test_wait_and_as_completed_of_the_standard_library(cm: ModuleType, flag) -> None:
    with Executor() as executor:
        late, early = executor.submit(flag("go").wait), executor.submit(abs, -1)
        done, rest = futures.wait([late, early], timeout=30, return_when=futures.FIRST_COMPLETED)
        assert done == {early} and rest == {late}
        flag("go").set()
        assert set(futures.as_completed([late, early], timeout=30)) == {late, early}


def test_run_in_executor(cm: ModuleType) -> None:
    async def main():
        loop = asyncio.get_running_loop()
        return await asyncio.gather(*[loop.run_in_executor(executor, pow, 2, i) for i in range(50)])

    with Executor() as executor:
        assert asyncio.run(main()) == [2**i for i in range(50)]


def test_refs_are_dependencies(cm: ModuleType) -> None:
    with Executor() as executor:
        first = executor.submit(pow, 2, 3)
        assert executor.submit(abs, first.ref).result(30) == 8


def test_cancel(cm: ModuleType, flag) -> None:
    with Executor(max_workers=1) as executor:
        running, queued = executor.submit(flag("go").wait), executor.submit(abs, -1)
        assert queued.cancel() and queued.cancelled() and not queued.running()
        flag("go").set()
        assert running.result(30) == "" and not running.cancel()


def test_cancel_of_what_is_in_the_sessions_queue(cm: ModuleType, flag) -> None:
    with Executor(num_cpus=2) as executor:
        started = executor.submit(lambda: (flag("on").set(), flag("go").wait()))
        queued = executor.submit(abs, -1)
        flag("on").wait()
        assert started.running() and not started.cancel()
        assert queued.cancel()
        with pytest.raises(futures.CancelledError):
            queued.result(30)
        flag("go").set()


def test_max_workers(cm: ModuleType, counter, flag) -> None:
    def count():
        counter.add()
        flag("go").wait()

    with Executor(max_workers=1, num_cpus=0) as executor:
        calls = [executor.submit(count) for _ in range(3)]
        flag("other").set()
        assert Executor(num_cpus=0).submit(flag("other").wait).result(30) == ""
        assert counter.value <= 1 and calls[1].ref is None
        flag("go").set()
        futures.wait(calls, timeout=30)
    assert counter.value == 3


def test_initializer(cm: ModuleType) -> None:
    with Executor(initializer=set_factor, initargs=(10,)) as executor:
        assert list(executor.map(scaled, range(4))) == [0, 10, 20, 30]
        assert list(executor.map(shifted, range(4))) == [10, 11, 12, 13]
        assert executor.submit(partial(shifted, 5)).result(30) == 15


def test_an_initializer_that_raises(cm: ModuleType) -> None:
    with Executor(initializer=int, initargs=("a",)) as executor:
        with pytest.raises(
            BrokenProcessPool, match="initializer 'int' of the executor raised ValueError: invalid literal"
        ) as broken:
            executor.submit(abs, -1).result(30)
        assert isinstance(broken.value.cause.__cause__, ValueError)


def test_max_tasks_per_child(cm: ModuleType) -> None:
    with Executor(max_workers=1, max_tasks_per_child=2) as executor:
        pids = [executor.submit(os.getpid).result(30) for _ in range(9)]
    assert max(Counter(pids).values()) <= 2  # of any worker, as a call goes to whichever is idle
    for wrong in (0, -1, 0.5, "2"):
        with pytest.raises(ValueError, match="max_tasks_per_child"):
            Executor(max_tasks_per_child=wrong)


def test_a_program_that_ends_waits_for_its_calls() -> None:
    code = """
        import atexit, sys

        @atexit.register
        def last():
            try:
                executor.submit(abs, -1)
            except RuntimeError as error:
                print(error, file=sys.stderr)

        import cellmesh
        from cellmesh.util import Executor
        cellmesh.init(num_cpus=1)
        executor = Executor(max_workers=1)
        for n in range(3):
            executor.submit(open, f"{sys.argv[1]}/{n}", "x")
    """
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code), folder], capture_output=True, text=True, timeout=50
        )
        assert sorted(os.listdir(folder)) == ["0", "1", "2"]
    assert done.returncode == 0 and "cannot schedule new futures after shutdown" in done.stderr


def test_shutdown(cm: ModuleType, flag) -> None:
    executor = Executor(max_workers=1)
    calls = [executor.submit(flag("go").wait) for _ in range(4)]
    executor.shutdown(wait=False, cancel_futures=True)
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(abs, 1)
    flag("go").set()
    executor.shutdown()
    assert all(call.done() for call in calls) and all(call.cancelled() for call in calls[1:])


def test_tasks_are_named_after_what_they_call(cm: ModuleType) -> None:
    with Executor() as executor:
        futures.wait([executor.submit(scaled, 0), executor.submit(partial(abs, -1))])
    assert {"scaled", "abs"} <= {row["name"] for row in cm.state.list_tasks()}


def test_an_executor_inside_its_own_task_on_one_cpu(one_cpu: ModuleType) -> None:
    def outer(n):
        with Executor() as inner:
            return sum(future.result() for future in [inner.submit(abs, -i) for i in range(n)])

    with Executor() as executor:
        assert executor.submit(outer, 5).result(50) == 10


def test_bad_input(cm: ModuleType) -> None:
    with pytest.raises(ValueError, match="max_workers"):
        Executor(max_workers=0)
    with pytest.raises(ValueError, match="num_cpus"):
        Executor(num_cpu=1)
    with pytest.raises(TypeError, match="initializer"):
        Executor(initializer=3)
    with pytest.raises(ValueError, match="chunksize"), Executor() as executor:
        executor.map(abs, [1], chunksize=0)


def test_the_end_of_the_session(cm: ModuleType, flag) -> None:
    executor = Executor(max_workers=1)
    calls = [executor.submit(flag("never").wait) for _ in range(2)]
    cm.shutdown()
    for call in calls:
        assert isinstance(call.exception(30), cm.exceptions.SessionError)
    assert not cellmesh.is_initialized()
