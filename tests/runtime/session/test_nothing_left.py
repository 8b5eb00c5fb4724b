"""What user code has made in a worker goes with it: a worker ends as a Python process does, and helper processes that
tidy up behind it outlive it for as long as that takes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from multiprocessing import resource_tracker, shared_memory
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.waiting import wait_until

pytestmark = pytest.mark.timeout(60)

SHARED = Path("/dev/shm")


def share() -> str:
    """A block of shared memory that nobody unlinks."""
    block = shared_memory.SharedMemory(create=True, size=1 << 20)
    block.buf[0] = 1
    return block.name


class Shares:
    def __init__(self) -> None:
        self.name = share()

    def where(self) -> tuple[str, int]:
        return self.name, os.getpid()


def test_shared_memory_that_a_task_has_left(cm: ModuleType) -> None:
    name = cm.get(cm.remote(share).remote())
    assert (SHARED / name).exists()
    cm.shutdown()
    assert not (SHARED / name).exists()


def test_shared_memory_that_an_actor_keeps(cm: ModuleType) -> None:
    actor = cm.remote(Shares).remote()
    name, _ = cm.get(actor.where.remote())
    cm.shutdown()
    assert not (SHARED / name).exists()


def test_shared_memory_of_a_task_that_still_runs(cm: ModuleType, flag: Any) -> None:
    @cm.remote
    def run_for_ever(started: Any) -> None:
        started.set(share())
        threading.Event().wait()

    ref = run_for_ever.remote(flag("started"))
    name = flag("started").wait()
    cm.shutdown()
    assert not (SHARED / name).exists()
    del ref


def test_a_killed_workers_helper_tidies_up_and_its_other_children_end(cm: ModuleType) -> None:
    @cm.remote
    def begin() -> tuple[str, int, int, int]:
        name = share()
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
        return name, os.getpid(), resource_tracker._resource_tracker._pid, child.pid

    name, worker, tracker, child = cm.get(begin.remote())
    for pid in (worker, tracker, child):
        assert Path(f"/proc/{pid}").exists()
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: not (SHARED / name).exists(), 20)
    for pid in (tracker, child):
        wait_until(lambda pid=pid: not Path(f"/proc/{pid}").exists(), 20)
    assert cm.get(cm.remote(os.getpid).remote()) != worker


def test_what_joblib_has_made_in_a_task(cm: ModuleType) -> None:
    pytest.importorskip("joblib", reason="pip install joblib")

    @cm.remote
    def total() -> tuple[int, int]:
        import joblib
        import numpy as np

        big = np.ones(1 << 18)  # large enough for joblib to map it from a folder
        parts = joblib.Parallel(n_jobs=2, max_nbytes="1M")(joblib.delayed(len)(part) for part in (big, big))
        return os.getpid(), sum(parts)

    pid, n = cm.get(total.remote())
    assert n == 2 << 18 and (made := [path.name for path in SHARED.iterdir() if f"-{pid}-" in path.name])
    cm.shutdown()
    assert [name for name in made if (SHARED / name).exists()] == []


def test_exit_functions_run_and_what_they_print_is_shown(cm: ModuleType, flag: Any, capfd: Any) -> None:
    @cm.remote
    def register(done: Any) -> None:
        import atexit
        import logging.handlers
        import tempfile
        import weakref

        memory = logging.handlers.MemoryHandler(100, target=logging.StreamHandler(sys.stdout))
        logging.getLogger("kept").addHandler(memory)
        logging.getLogger("kept").warning("what was held back is written")
        folder = tempfile.TemporaryDirectory()
        weakref.finalize(memory, done.set, folder.name)
        atexit.register(print, "the last words")
        sys.modules["__main__"].kept = memory, folder

    cm.get(register.remote(flag("done")))
    cm.shutdown()
    assert not Path(flag("done").wait(0.1)).exists()
    out = capfd.readouterr().out
    assert "the last words" in out and "what was held back is written" in out


def test_an_actor_that_nobody_has_ended(cm: ModuleType, flag: Any) -> None:
    class Registers:
        def __init__(self, done: Any) -> None:
            import atexit

            atexit.register(done.set)

        async def wait(self) -> None:  # an async actor
            return None

    actor = cm.remote(Registers).remote(flag("done"))
    cm.get(actor.wait.remote())
    cm.shutdown()
    assert flag("done").is_set()


def test_threads_are_waited_for_and_the_one_that_does_not_end_is_named(cm: ModuleType, flag: Any, capfd: Any) -> None:
    @cm.remote
    def begin(started: Any, left: Any, done: Any) -> None:
        import atexit
        from concurrent.futures import ThreadPoolExecutor

        def end_with_the_pool() -> None:
            pool.submit(left.wait).result()
            done.set()

        pool = ThreadPoolExecutor(2)
        pool.submit(int)  # its threads end when they are told to
        atexit.register(left.set)
        threading.Thread(target=end_with_the_pool, name="uploads").start()
        threading.Thread(target=threading.Event().wait, name="telemetry", daemon=True).start()
        started.set()

    cm.get(begin.remote(flag("started"), flag("left"), flag("done")))
    cm.shutdown()
    assert flag("left").is_set()  # what is registered is run all the same
    err = capfd.readouterr().err
    assert "and with it the thread" in err and "'uploads'" in err and "telemetry" not in err


def test_a_thread_that_ends_is_waited_for_in_silence(cm: ModuleType, flag: Any, capfd: Any) -> None:
    @cm.remote
    def begin(leaves: Any, done: Any) -> None:
        def work() -> None:
            threading.main_thread().join(0.01)
            wait_until(lambda: threading._SHUTTING_DOWN)  # the worker leaves
            print("the upload has ended")
            done.set()

        threading.Thread(target=work).start()

    cm.get(begin.remote(flag("leaves"), flag("done")))
    cm.shutdown()
    assert flag("done").is_set()
    out, err = capfd.readouterr()
    assert "the upload has ended" in out and err == ""


def test_an_exit_function_that_does_not_end_is_told(cm: ModuleType, capfd: Any) -> None:
    @cm.remote
    def register() -> int:
        import atexit

        atexit.register(threading.Event().wait)
        return os.getpid()

    pid = cm.get(register.remote())
    cm.shutdown()
    assert not Path(f"/proc/{pid}").exists()
    assert f"Process {pid} was to leave and has not within" in capfd.readouterr().err


def test_workers_that_leave_while_the_session_goes_on(cm: ModuleType, capfd: Any) -> None:
    @cm.remote(max_calls=1)
    def share_once() -> str:
        return share()

    name = cm.get(share_once.remote())
    wait_until(lambda: not (SHARED / name).exists(), 20)
    cm.shutdown()
    assert capfd.readouterr().out == ""
