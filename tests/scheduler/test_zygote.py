"""The zygote and its first worker alone, with the test in the local scheduler's place."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cellmesh.objstore import _core
from cellmesh.scheduler.ipc import node_socket, transport
from cellmesh.scheduler.ipc.messages import (
    ForkWorkers,
    FromPeer,
    FromZygote,
    Hello,
    SessionConfig,
    ToZygote,
    WorkerExited,
    WorkerForked,
)
from cellmesh.scheduler.system import processes
from support.waiting import wait_until


class Zygote:
    """A zygote process, its link, and the node.sock on which its workers greet."""

    def __init__(self, folder: Path) -> None:
        config = SessionConfig(
            session="ab",
            session_dir=str(folder),
            driver_pid=os.getpid(),
            namespace="n",
            total={"CPU": 1.0},
            log_to_driver=True,
            sys_path=sys.path,
            python_path=os.environ.get("PYTHONPATH"),
            hooks="",
            worker_setup="",
            preload=[],
            preload_idle=[],
        )
        self.listener = transport.Listener(node_socket.listen(str(folder / node_socket.SOCKET_NAME)))
        self.segment_fd = _core.create_segment(1 << 20, 64, 64)
        self.client = _core.Client(self.segment_fd, _core.ROLE_SCHEDULER, None)
        self.link, there = transport.pair(FromZygote, ToZygote)
        config_fd = processes.memory_file("config", config.to_bytes())
        passed = (there.fileno(), self.segment_fd, config_fd)
        command = [sys.executable, "-P", "-m", "cellmesh.scheduler.worker.zygote", *map(str, passed), str(os.getpid())]
        self.process = subprocess.Popen(command, pass_fds=passed)
        there.close()
        os.close(config_fd)

    def fork(self) -> tuple[int, list[int]]:
        """Pid and descriptors of a new worker."""
        self.link.send(ForkWorkers(1))
        message, fds = self.link.receive()
        assert isinstance(message, WorkerForked) and len(fds) == 5
        return message.pid, fds

    def workers(self) -> list[int]:
        """Pids of the workers that others can see."""
        return [entry["pid"] for entry in self.client.clients() if entry["role"] == "worker"]

    def close(self) -> None:
        self.link.close()
        self.process.wait(20)
        self.listener.close()
        self.client.close()
        del self.client  # with it goes the mapping of the segment
        os.close(self.segment_fd)


@pytest.fixture
def zygote(tmp_path: Path) -> Iterator[Zygote]:
    zygote = Zygote(tmp_path)
    yield zygote
    zygote.close()


def where(pid: int, stacks: int) -> str:
    """Where the worker is, by its own account."""
    os.set_blocking(stacks, False)
    os.kill(pid, signal.SIGUSR2)
    return wait_until(lambda: read_ready(stacks), what="a dump of the worker's stack")


def read_ready(fd: int) -> str:
    try:
        return os.read(fd, 1 << 16).decode()
    except BlockingIOError:
        return ""


def test_nobody_sees_a_worker_before_the_local_scheduler_knows_it(zygote: Zygote) -> None:
    pid, fds = zygote.fork()
    _, _, stacks, _, start = fds
    # The signal would kill a worker that has not got as far as to handle it.
    wait_until(lambda: handles_stack_signal(pid), what="the worker is ready to tell where it is")
    wait_until(lambda: "_wait_for_start" in where(pid, stacks), what="the worker waits for its start")
    assert zygote.workers() == []
    os.eventfd_write(start, 1)
    channel = zygote.listener.accept(FromPeer)
    assert channel is not None
    hello, _ = channel.receive()
    assert isinstance(hello, Hello) and hello.role == "worker" and hello.pid == pid and zygote.workers() == [pid]
    channel.close()
    for fd in fds:
        os.close(fd)


def test_a_worker_that_waits_for_its_start_ends_with_its_zygote(zygote: Zygote) -> None:
    pid, fds = zygote.fork()
    pidfd = os.pidfd_open(pid)
    zygote.process.kill()
    wait_until(lambda: has_ended(pidfd), what="the worker ends")
    for fd in (pidfd, *fds):
        os.close(fd)


def test_the_end_of_a_worker_that_waits_for_its_start_is_told(zygote: Zygote) -> None:
    pid, fds = zygote.fork()
    os.kill(pid, signal.SIGKILL)
    assert zygote.link.receive() == (WorkerExited(pid, -signal.SIGKILL), [])
    assert zygote.workers() == []
    for fd in fds:
        os.close(fd)


def handles_stack_signal(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(caught >> (signal.SIGUSR2 - 1) & 1)


def has_ended(pidfd: int) -> bool:
    try:
        signal.pidfd_send_signal(pidfd, 0)
    except ProcessLookupError:
        return True
    status = Path(f"/proc/self/fdinfo/{pidfd}").read_text()
    return "Pid:\t-1" in status
