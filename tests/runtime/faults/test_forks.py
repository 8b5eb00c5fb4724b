"""User code forks, and the child comes back from it: it ends there, in any kind of process, and the session is as if
nothing had happened.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from support.waiting import wait_until

import cellmesh

EXITS = {"returns": 0, "raises": 1, "exits": 3, "exits in words": 1, "waits": 1}
WAITS_S = 30


def leave(how: str) -> None:
    """Returns, as the child of a task's fork must not."""
    if how == "raises":
        raise RuntimeError("in the child")
    if how == "exits":
        sys.exit(3)
    if how == "exits in words":
        sys.exit("farewell")
    if how == "waits":
        cellmesh.get(cellmesh.put(1))


def fork(how: str, by: Callable[[], int] = os.fork) -> int:
    """In the parent: the child's exit status, once it has ended."""
    pid = by()
    if pid == 0:
        leave(how)
        return -1
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class WhenLoaded:
    """Forks where it is unpickled."""

    def __init__(self, how: str) -> None:
        self.how = how

    def __reduce__(self) -> Any:
        return fork, (self.how,)


class WhenPickled:
    """Forks where it is pickled."""

    def __init__(self, how: str) -> None:
        self.how = how

    def __reduce__(self) -> Any:
        return int, (fork(self.how),)


class WhenDropped:
    """Forks when it is destroyed, and tells a file."""

    def __init__(self, how: str, path: str) -> None:
        self.how, self.path = how, path

    def __reduce__(self) -> Any:
        return int, ()

    def __del__(self) -> None:
        status = fork(self.how)
        with open(self.path, "a") as file:
            file.write(f"{status} ")


class Pickled(Exception):
    def __reduce__(self) -> Any:
        return Pickled, (fork("returns"),)


@pytest.fixture(autouse=True)
def sound(cm: ModuleType) -> Iterator[None]:
    """Afterwards every process computes, and nobody's tables are wrong."""

    @cm.remote
    def square(x: int) -> int:
        return x * x

    large = cm.put(np.arange(100_000))
    yield
    assert cm.get([square.remote(i) for i in range(200)], timeout=WAITS_S) == [i * i for i in range(200)]
    assert (cm.get(large) == np.arange(100_000)).all()
    assert cellmesh.session.current.current().client.check() == []


def get(cm: ModuleType, refs: Any) -> Any:
    return cm.get(refs, timeout=WAITS_S)


@pytest.mark.parametrize("how", EXITS)
def test_in_a_function(cm: ModuleType, how: str) -> None:
    @cm.remote
    def forks(i: int) -> tuple[int, int]:
        return i, fork(how)

    assert get(cm, [forks.remote(i) for i in range(8)]) == [(i, EXITS[how]) for i in range(8)]


def test_by_a_c_library(cm: ModuleType) -> None:
    @cm.remote
    def forks() -> int:
        return fork("returns", ctypes.CDLL(None).fork)

    assert get(cm, forks.remote()) == 0


def test_what_the_child_raises_is_told_where_it_prints(cm: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    @cm.remote
    def forks() -> int:
        return fork("raises") + fork("exits in words")

    told = ""

    def has_been_told() -> bool:
        nonlocal told
        told += capfd.readouterr().err
        return "RuntimeError: in the child" in told and "farewell" in told

    assert get(cm, forks.remote()) == 2
    wait_until(has_been_told, WAITS_S, "the child's last words")


def test_the_child_sees_values_and_changes_nobodys(cm: ModuleType) -> None:
    @cm.remote
    def forks(values: np.ndarray) -> tuple[int, float]:
        mine = np.zeros(1 << 17)
        pid = os.fork()
        if pid == 0:
            mine[:] = 7
            sys.exit(int(values.sum()) % 100)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), float(mine.sum())

    for _ in range(3):
        assert get(cm, forks.remote(np.full(1 << 17, 3))) == (3 * (1 << 17) % 100, 0)


@pytest.mark.parametrize("how", EXITS)
@pytest.mark.parametrize("kind", ["streaming", None])
def test_in_a_generator(cm: ModuleType, how: str, kind: Any) -> None:
    @cm.remote(num_returns=kind or 1)
    def items() -> Iterator[int]:
        yield fork(how)
        yield fork(how)

    found = items.remote() if kind else get(cm, items.remote())
    assert get(cm, list(found)) == [EXITS[how]] * 2


@pytest.mark.parametrize("how", ["returns", "raises"])
def test_while_arguments_are_loaded(cm: ModuleType, how: str) -> None:
    @cm.remote
    def same(value: int) -> int:
        return value

    assert get(cm, [same.remote(WhenLoaded(how)) for _ in range(3)]) == [EXITS[how]] * 3
    assert get(cm, same.remote(cm.put(WhenLoaded(how)))) == EXITS[how]


def test_while_the_function_is_loaded(cm: ModuleType) -> None:
    status = WhenLoaded("returns")

    @cm.remote
    def told() -> Any:
        return status

    assert get(cm, told.remote()) == 0


@pytest.mark.parametrize("how", ["returns", "raises", "exits"])
def test_while_the_result_is_pickled(cm: ModuleType, how: str) -> None:
    @cm.remote
    def made() -> Any:
        return WhenPickled(how)

    @cm.remote(num_returns=2)
    def both() -> Any:
        return WhenPickled(how), WhenPickled(how)

    assert get(cm, made.remote()) == EXITS[how] and get(cm, both.remote()) == [EXITS[how]] * 2


def test_while_the_exception_is_pickled(cm: ModuleType) -> None:
    @cm.remote
    def fails() -> None:
        raise Pickled(1)

    with pytest.raises(Pickled):
        get(cm, fails.remote())


def test_while_something_is_put(cm: ModuleType) -> None:
    @cm.remote
    def puts() -> Any:
        return cm.get(cm.put(WhenPickled("returns")))

    assert get(cm, puts.remote()) == 1  # its put raised


@pytest.mark.parametrize("how", ["returns", "exits"])
def test_while_the_result_is_dropped(cm: ModuleType, how: str, tmp_path: Path) -> None:
    @cm.remote
    def made() -> Any:
        return WhenDropped(how, str(tmp_path / "told"))

    for _ in range(3):
        assert get(cm, made.remote()) == 0


def test_in_a_task_that_its_waiter_runs(cm: ModuleType) -> None:
    @cm.remote
    def inner() -> int:
        return fork("returns")

    @cm.remote
    def outer() -> int:
        return cm.get(inner.remote()) + 1

    assert get(cm, [outer.remote() for _ in range(8)]) == [1] * 8


def test_in_a_thread_of_a_task(cm: ModuleType) -> None:
    @cm.remote
    def starts() -> list[int]:
        statuses: list[int] = []
        thread = threading.Thread(target=lambda: statuses.append(fork("returns")))
        thread.start()
        thread.join()
        return statuses

    assert get(cm, starts.remote()) == [0]


def test_by_multiprocessing(cm: ModuleType) -> None:
    @cm.remote
    def pools() -> list[int]:
        with multiprocessing.get_context("fork").Pool(2) as pool:
            return pool.map(abs, range(-9, 1))

    assert get(cm, pools.remote()) == list(range(9, -1, -1))


@pytest.mark.parametrize("how", EXITS)
@pytest.mark.parametrize("max_concurrency", [1, 3])
def test_in_an_actor(cm: ModuleType, how: str, max_concurrency: int) -> None:
    @cm.remote(max_concurrency=max_concurrency)
    class Forking:
        def __init__(self) -> None:
            self.status = fork(how)

        def again(self) -> tuple[int, int]:
            return self.status, fork(how)

    actor = Forking.remote()
    assert get(cm, [actor.again.remote() for _ in range(4)]) == [(EXITS[how],) * 2] * 4


@pytest.mark.parametrize("how", EXITS)
def test_in_an_async_actor(cm: ModuleType, how: str) -> None:
    @cm.remote
    class Forking:
        async def call(self) -> int:
            return fork(how)

        def plain(self) -> int:
            return fork(how)

    actor = Forking.remote()
    assert get(cm, [actor.call.remote(), actor.plain.remote(), actor.call.remote()]) == [EXITS[how]] * 3


def test_in_the_driver(cm: ModuleType) -> None:
    ref = cm.put([1, 2])
    pid = os.fork()
    if pid == 0:
        del ref  # in the child's copy alone
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert get(cm, ref) == [1, 2]


def test_in_a_module_that_the_zygote_loads(tmp_path: Path) -> None:
    (tmp_path / "forking.py").write_text(
        "import os\npid = os.fork()\nif pid == 0: raise ImportError\nprint(os.waitpid(pid, 0)[1])\n"
    )
    code = "from cellmesh.scheduler.worker import zygote; zygote.preload(['forking', 'forking']); print('loaded')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["0", "loaded"], done.stderr
