"""The engine's process, seen from a session: it dies, it is slow to come, the session ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from cellmesh.scheduler.ipc.messages import EngineState
from cellmesh.scheduler.system import processes
from support.flags import Flag
from support.waiting import wait_until

import cellmesh
from cellmesh.engines import addresses
from cellmesh.exceptions import EngineUnreachableError, InsecureEngineWarning, NodeDiedError
from cellmesh.session.current import current
from cellmesh.util import PlacementGroupSchedulingStrategy, placement_group, remove_placement_group

PATIENCE_S = 30.0


def engine_process() -> int:
    """The pid of this session's; 0: there is none now."""
    pids = [pid for pid in processes.session_processes(current().node.session_id) if _is_engine(pid)]
    return pids[0] if pids else 0


def _is_engine(pid: int) -> bool:
    return processes.name_of(pid) == "cellmesh-engine"


def test_what_ran_there_runs_again_when_the_process_is_killed(
    start: Callable[..., ModuleType], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    cm = start()
    begun, goes_on = Flag(tmp_path / "begun"), Flag(tmp_path / "goes_on")

    @cm.remote
    def slow() -> int:
        begun.set()
        goes_on.wait()
        return os.getpid()

    ref = slow.remote()
    begun.wait()
    first = wait_until(engine_process)
    goes_on.set()
    os.kill(first, signal.SIGKILL)
    assert cm.get(ref, timeout=PATIENCE_S) != first
    assert "fake" in capfd.readouterr().err


def test_a_task_without_retries_is_lost_with_the_process(start: Callable[..., ModuleType], tmp_path: Path) -> None:
    cm = start()
    begun, never = Flag(tmp_path / "begun"), Flag(tmp_path / "never")

    @cm.remote(max_retries=0)
    def slow() -> None:
        begun.set()
        never.wait()

    ref = slow.remote()
    begun.wait()
    os.kill(wait_until(engine_process), signal.SIGKILL)
    with pytest.raises(NodeDiedError):
        cm.get(ref, timeout=PATIENCE_S)


def test_a_large_value_that_was_lost_with_it_is_made_again(start: Callable[..., ModuleType]) -> None:
    cm = start()

    @cm.remote
    def make() -> bytes:
        return bytes(1_000_000)

    ref = make.remote()
    cm.wait([ref], timeout=PATIENCE_S)
    os.kill(wait_until(engine_process), signal.SIGKILL)
    assert cm.get(ref, timeout=PATIENCE_S) == bytes(1_000_000)


def test_the_rest_goes_there_where_home_has_cpus(start: Callable[..., ModuleType], tmp_path: Path) -> None:
    cm = start(num_cpus=1)
    goes_on = Flag(tmp_path / "goes_on")

    @cm.remote
    def where() -> int:
        goes_on.wait()
        return os.getpid()

    refs = [where.remote() for _ in range(2)]
    there = wait_until(engine_process)
    wait_until(lambda: len(cm.state.list_tasks(filters=[("state", "=", "running")])) == 2)
    goes_on.set()
    assert there in cm.get(refs, timeout=PATIENCE_S)


def test_actors_and_placement_groups_are_at_home(start: Callable[..., ModuleType]) -> None:
    cm = start(num_cpus=2)

    @cm.remote
    class Here:
        def pid(self) -> int:
            return os.getppid()

    group = placement_group([{"CPU": 1}, {"CPU": 1}])
    assert cm.get(group.ready(), timeout=PATIENCE_S)
    remove_placement_group(group)
    here = Here.remote()
    assert cm.get(here.pid.remote(), timeout=PATIENCE_S) != engine_process()


def test_bundles_are_put_aside_again_where_the_engines_process_has_died(start: Callable[..., ModuleType]) -> None:
    cm = start()

    @cm.remote
    def where() -> int:
        return os.getpid()

    group = placement_group([{"CPU": 4}])
    there = where.options(num_cpus=4, scheduling_strategy=PlacementGroupSchedulingStrategy(group))
    first = engine_process()
    assert cm.get(there.remote(), timeout=PATIENCE_S) == first
    os.kill(first, signal.SIGKILL)
    assert cm.get(there.remote(), timeout=PATIENCE_S) == wait_until(engine_process) != first
    remove_placement_group(group)


def test_init_says_that_an_engine_is_not_there() -> None:
    with pytest.raises(EngineUnreachableError, match="there is no 'fake:nowhere'"):
        cellmesh.init(address="fake:nowhere", num_cpus=1, object_store_memory=64 << 20)
    assert not cellmesh.is_initialized()


def test_an_engine_that_nothing_protects_is_warned_of(
    start: Callable[..., ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    open_ones = ["dask://head:8786", "dask://10.0.0.1:8786", "dask://[2001:db8::1]:8786", "ray://head:10001"]
    others = ["dask+tls://head:8786", "dask://127.0.0.1:8786", "dask://localhost:1", "dask://[::1]:1", "ray:auto"]
    others += ["ray:head:6379", "ray://127.0.0.1:10001"]
    assert [address for address in [*open_ones, *others] if addresses.remedy_if_open(address, {})] == open_ones
    for closed in ({"RAY_USE_TLS": "1"}, {"RAY_AUTH_MODE": "token"}):
        assert not addresses.remedy_if_open("ray://head:10001", closed)
    monkeypatch.setattr(addresses, "remedy_if_open", lambda address, environ: "Lock it")
    with pytest.warns(InsecureEngineWarning, match="can run code on it, and here.* unpickled. Lock it") as told:
        start()
    assert told[0].filename == __file__.replace("test_processes", "conftest")


def test_what_needs_an_engine_that_has_gone_is_refused_and_the_rest_goes_on(tmp_path: Path) -> None:
    (engine := tmp_path / "engine").touch()
    cellmesh.init(address=f"fake:{engine}", num_cpus=1, object_store_memory=64 << 20)
    try:

        @cellmesh.remote(num_cpus=2)
        def there() -> int:
            return 2

        @cellmesh.remote
        def here() -> int:
            return 1

        assert cellmesh.get(there.remote(), timeout=PATIENCE_S) == 2
        engine.unlink()
        os.kill(engine_process(), signal.SIGKILL)
        wait_until(lambda: current().engine.lost)
        with pytest.raises(EngineUnreachableError, match="'there' asks for more than this machine has"):
            there.remote()
        assert cellmesh.get(here.remote(), timeout=PATIENCE_S) == 1
        engine.touch()
        wait_until(lambda: not current().engine.lost, deadline=PATIENCE_S)
        assert cellmesh.get(there.remote(), timeout=PATIENCE_S) == 2
    finally:
        cellmesh.shutdown()


def test_what_people_are_shown_of_an_engine_is_known_here(start: Callable[..., ModuleType]) -> None:
    start(num_cpus=0)
    engine = current().engine
    assert (engine.name, engine.window, engine.dashboard) == ("fake", 1000, "http://fake")
    assert (engine.line, abs(time.time() - engine.since) < PATIENCE_S) == ("connected", True)


def test_the_line_to_an_engine_is_lost_until_its_next_process_is_there(start: Callable[..., ModuleType]) -> None:
    start()
    lines: list[tuple[str, int, str]] = []

    def hear(message: object) -> None:
        if isinstance(message, EngineState):
            lines.append((message.line, message.window, message.lost))

    forget = current().node.link.add_listener(hear)
    os.kill(wait_until(engine_process), signal.SIGKILL)
    wait_until(lambda: len(lines) == 2, deadline=PATIENCE_S)
    forget()
    assert lines == [("lost", 1000, ""), ("connected", 1000, "")]


def test_what_has_room_here_runs_here(start: Callable[..., ModuleType]) -> None:
    cm = start(num_cpus=1)

    @cm.remote
    def numbers() -> Iterator[int]:
        yield 1

    assert [cm.get(ref, timeout=PATIENCE_S) for ref in numbers.remote()] == [1]


def test_a_program_that_joins_knows_the_engine_at_once(start: Callable[..., ModuleType]) -> None:
    start()
    program = (
        "import cellmesh\n"
        "from cellmesh.session.current import current\n"
        f"cellmesh.init(address={current().node.address!r})\n"
        "print(current().engine.name, current().engine.line)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.stdout.split() == ["fake", "connected"], done.stdout + done.stderr
