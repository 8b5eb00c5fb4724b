"""Ray from outside of its cluster, by Ray Client and a relay. Runs where Ray is, see scripts/testing/kinds.py."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import psutil
import pytest
from engines.clusters import Cluster, cluster_of
from engines.streams.test_conformance_streams import (  # noqa: F401 tests that run here
    test_a_method_yields_while_it_runs_and_the_actor_keeps_what_it_has,
    test_items_are_there_while_it_runs,
)
from engines.test_conformance import (  # noqa: F401 as above
    test_a_task_runs_in_another_process,
    test_a_task_waits_for_tasks_that_wait_for_tasks,
    test_an_error_is_of_its_own_class_and_has_its_traceback,
    test_large_values_made_there_read_here_and_there,
    test_more_tasks_than_may_be_under_way,
    test_refs_in_containers_stay_refs,
    test_several_returns_and_none,
    test_what_a_task_prints_is_there_while_it_runs,
    test_what_is_cancelled_before_it_has_begun_never_runs,
)
from engines.test_conformance_actors import (  # noqa: F401 as above
    test_calls_run_in_their_order_in_a_process_of_its_own,
    test_the_last_handle_ends_it_after_its_calls,
)
from support.flags import Flag
from support.waiting import wait_until

import cellmesh
from cellmesh.cli.main import main

ENGINES = ["ray"]
pytestmark = pytest.mark.timeout(400)  # it has a cluster of its own, and connects three times
PATIENCE_S = 120.0  # Ray Client begins a process in the cluster for each connection
PROGRAM = """
import sys
from pathlib import Path
import cellmesh

cellmesh.init(address=sys.argv[1], object_store_memory=64 << 20)

@cellmesh.remote
def endless(begun):
    Path(begun).touch()
    while True:
        pass

cellmesh.get(endless.remote(sys.argv[2]))
"""


@pytest.fixture(scope="module")
def client_port() -> Iterator[int]:
    """Of the client server of a Ray cluster of two nodes."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with cluster_of("ray_cluster.py", ray_client_server_port=port):
        wait_until(lambda: listens(port), PATIENCE_S)
        yield port


@pytest.fixture(scope="module")
def line(client_port: int) -> Iterator[Cluster]:
    with cluster_of("relay/broken_line.py", port=client_port) as made:
        yield made


@pytest.fixture(scope="module")
def ray_address(line: Cluster) -> str:
    return f"ray://{line.address}"


def listens(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


def at_work() -> list[str]:
    """What Ray's workers are for."""
    names: list[str] = []
    for process in psutil.Process().children(recursive=True):
        try:
            names.append(process.cmdline()[0])
        except (psutil.NoSuchProcess, psutil.ZombieProcess, IndexError):
            continue  # it has ended
    ours = ("ray::Relay", "ray::Office", "ray::ActorHost", "ray::ConcurrentHost", "ray::cellmesh", "ray::run_parcel")
    return [name for name in names if name.startswith(ours)]


def test_a_line_that_is_cut_is_told_and_mended(
    on_engine: ModuleType, line: Cluster, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    begun, goes_on = Flag(tmp_path / "begun"), Flag(tmp_path / "goes_on")

    @on_engine.remote(max_retries=0)
    def wait(runs: Path, n: int) -> np.ndarray:
        with runs.open("a") as file:
            file.write(f"{n}\n")
        begun.set()
        goes_on.wait()
        return np.full(100_000, n)

    first = wait.remote(tmp_path / "runs", 1)
    begun.wait()
    line.do("cut")
    told = ""

    def has_come(words: str) -> bool:
        nonlocal told
        told += "".join(capfd.readouterr())
        return words in told

    wait_until(lambda: has_come("is broken. It is tried again"), PATIENCE_S)
    second = wait.remote(tmp_path / "runs", 2)
    goes_on.set()
    line.do("mend")
    assert [value[0] for value in on_engine.get([first, second], timeout=PATIENCE_S)] == [1, 2]
    wait_until(lambda: has_come("is there again"), PATIENCE_S)
    assert sorted((tmp_path / "runs").read_text().split()) == ["1", "2"], "each has run once"


@pytest.mark.slow
def test_a_line_that_hangs_is_told_and_mended(on_engine: ModuleType, line: Cluster) -> None:
    @on_engine.remote
    def one() -> int:
        return 1

    assert on_engine.get(one.remote(), timeout=PATIENCE_S) == 1
    line.do("hold")
    ref = one.remote()
    with pytest.raises(cellmesh.exceptions.GetTimeoutError):
        on_engine.get(ref, timeout=70.0)
    line.do("mend")
    assert on_engine.get(ref, timeout=PATIENCE_S) == 1


def test_nothing_is_left_of_a_kernel_that_is_killed(client_port: int, tmp_path: Path) -> None:
    before = len(at_work())
    program = [sys.executable, "-P", "-c", PROGRAM, f"ray://127.0.0.1:{client_port}", str(tmp_path / "begun")]
    with subprocess.Popen(program) as kernel:
        wait_until((tmp_path / "begun").exists, PATIENCE_S)
        assert len(at_work()) > before
        kernel.send_signal(signal.SIGKILL)
        kernel.wait()
    wait_until(lambda: len(at_work()) == before, PATIENCE_S)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("ray://127.0.0.1:1", "no Ray cluster at ray://127.0.0.1:1: .*refused.*port is 10001"),
        ("ray://nowhere.invalid:10001", "no Ray cluster at ray://nowhere.invalid:10001"),
    ],
)
def test_an_address_where_there_is_none(address: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["engine", "check", address]) == 1
    assert re.search(words, capsys.readouterr().err)


def test_a_server_that_asks_for_a_token_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    import grpc

    def refuse(request: bytes, context: Any) -> None:
        context.abort(grpc.StatusCode.UNAUTHENTICATED, "no token")

    class Refusing(grpc.GenericRpcHandler):
        def service(self, details: Any) -> Any:
            return grpc.unary_unary_rpc_method_handler(refuse)

    server = grpc.server(ThreadPoolExecutor(2), handlers=[Refusing()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        assert main(["engine", "check", f"ray://127.0.0.1:{port}"]) == 1
    finally:
        server.stop(None)
    assert "asks for Ray's token" in capsys.readouterr().err
