"""Sessions that tests begin: forked by a process that has imported what they need, or as users begin them."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cellmesh.scheduler.node.handle import Node
from cellmesh.scheduler.system import processes
from support.commands import forked
from support.waiting import wait_until

from cellmesh.startup.worker_modules import WORKER_MODULES


@contextmanager
def _begun() -> Iterator[Node]:
    node = Node.start(modules=WORKER_MODULES, resources={"CPU": 1.0}, object_store_memory=64 << 20)
    try:
        yield node
    finally:
        node.close()


def _parent(pid: int) -> int:
    stat = Path(f"/proc/{pid}/stat").read_text()
    return int(stat[stat.rindex(")") + 2 :].split()[1])


def test_a_session_is_forked_and_known_by_its_own_name() -> None:
    with _begun() as one, _begun() as other:
        assert forked.server and _parent(one.scheduler_pid) == _parent(other.scheduler_pid) == forked.server.pid
        for node in (one, other):  # with its zygote
            wait_until(lambda: len(processes.session_processes(node.session_id)) >= 2)
            assert node.scheduler_pid in processes.session_processes(node.session_id)
        assert not {*processes.session_processes(one.session_id)} & {*processes.session_processes(other.session_id)}
        assert os.getsid(one.scheduler_pid) == one.scheduler_pid


@pytest.mark.own_interpreter
def test_a_session_of_a_test_that_wants_its_own_interpreter() -> None:
    with _begun() as node:
        assert _parent(node.scheduler_pid) == os.getpid()


def test_what_an_interpreter_reads_when_it_starts_needs_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "1")
    with _begun() as node:
        assert _parent(node.scheduler_pid) == os.getpid()


def test_commands_have_their_own_status_and_one_that_goes_on_is_ended(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    assert "No cellmesh session" in forked.run(["cellmesh", "status"], environment).stderr
    wrong = forked.run(["cellmesh", "no-such-command"], environment)
    assert wrong.returncode == 2 and "no-such-command" in wrong.stderr
    with pytest.raises(subprocess.TimeoutExpired):
        forked.run(["cellmesh", "status", "--watch", "60"], environment, timeout=0.1)


def test_threads_that_wait_for_one_process_all_get_its_status() -> None:
    with _begun() as node:
        process, statuses = node._process, []
        assert process is not None
        threads = [threading.Thread(target=lambda: statuses.append(process.wait())) for _ in range(8)]
        for thread in threads:
            thread.start()
        os.kill(process.pid, signal.SIGKILL)
        for thread in threads:
            thread.join()
    assert statuses == [-signal.SIGKILL] * 8


def test_what_cannot_be_done_is_said_and_ends_nothing() -> None:
    assert forked.server is not None
    with pytest.raises(RuntimeError, match="ChildProcessError"):
        forked.server.ask({"ended": os.getpid()})
    with _begun() as node:
        assert _parent(node.scheduler_pid) == forked.server.pid


def test_who_forks_is_begun_again_when_it_has_ended() -> None:
    server = forked.Server()
    try:
        server.revive()
        os.kill(server.pid, signal.SIGKILL)
        with pytest.raises(RuntimeError, match="ended with status -9"):
            server.ask({"ended": 1})
        assert not server.may_begin([*forked.USUAL, "cellmesh.cli"], {**os.environ})
        with pytest.raises(AssertionError, match="status -9; there is a new one"):
            server.revive()
        with pytest.raises(RuntimeError, match="ChildProcessError"):
            server.ask({"ended": 1})
    finally:
        server.end()
