"""Real processes: how a session begins, grows, loses each of its processes, and ends with nothing left."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import struct
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from cellmesh.scheduler.ipc import messages, node_socket, transport
from cellmesh.scheduler.ipc.messages import (
    FromScheduler,
    Hello,
    NodeEvent,
    Refused,
    StackReply,
    StackRequest,
    Welcome,
    WorkerDied,
)
from cellmesh.scheduler.node import session_dir
from cellmesh.scheduler.node.handle import JoinError, Node
from cellmesh.scheduler.system import processes
from support.waiting import wait_until, wait_until_at_rest

import cellmesh as cm
from cellmesh.session.current import current
from cellmesh.startup.worker_modules import WORKER_MODULES

STORE = 64 << 20
PTRACE_ATTACH, WALL = 16, 0x40000000  # <sys/ptrace.h>; waitpid() also for what is not a child
M = TypeVar("M")


class Heard:
    """What a link has brought so far."""

    def __init__(self, node: Node) -> None:
        self.messages: list[messages.Message] = []
        node.link.add_listener(self.messages.append)

    def wait_for(self, kind: type[M], accept: Callable[[M], bool] = lambda message: True) -> M:
        def found() -> M | None:
            return next((m for m in self.messages if isinstance(m, kind) and accept(m)), None)

        message = wait_until(found, 20, lambda: f"a {kind.__name__}; heard {self.messages}")
        assert message is not None
        return message


@pytest.fixture
def node() -> Iterator[Node]:
    """The node of a session with two CPUs, which is also this process's session."""
    cm.init(num_cpus=2, object_store_memory=STORE)
    yield current().node
    cm.shutdown()


@pytest.fixture
def heard(node: Node) -> Heard:
    return Heard(node)


@cm.remote
def pid_of_worker() -> int:
    return os.getpid()


@cm.remote(max_retries=0)
def run_for_ever(started: str) -> None:
    Path(started).touch()
    threading.Event().wait()


def workers() -> list[int]:
    return [entry["pid"] for entry in current().client.clients() if entry["role"] == "worker"]


def script(body: str, *arguments: str) -> subprocess.Popen[str]:
    """A driver of its own; what it prints is read by the test."""
    command = [sys.executable, "-c", textwrap.dedent(body), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def gone(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return stat[stat.rindex(")") + 2] in "ZX"


# ---------------------------------------------------------------- beginning and end
def test_what_a_session_shows_to_other_users(node: Node) -> None:
    assert oct(os.stat(node.session_dir).st_mode & 0o777) == "0o700"
    assert sorted(os.listdir(node.session_dir)) == ["node.sock", "objects", "scheduler.log"]
    assert oct(os.stat(f"{node.session_dir}/objects/").st_mode & 0o777) == "0o700"
    assert os.stat(f"{node.session_dir}/scheduler.log").st_mode & 0o077 == 0


def test_close_ends_everything_that_was_started(node: Node, tmp_path: Path) -> None:
    @cm.remote
    def start_a_daemon(path: str) -> int:
        # Leaves the worker's process group and session and loses its parent, as daemons do.
        code = textwrap.dedent(f"""
            import os, time
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    open({path!r}, "w").write(str(os.getpid()))
                    time.sleep(1000)
            """)
        return subprocess.run([sys.executable, "-c", code]).returncode

    path = tmp_path / "pid"
    assert cm.get(start_a_daemon.remote(str(path))) == 0
    daemon = int(wait_until(lambda: path.exists() and path.read_text()))
    everybody = [*processes.session_processes(node.session_id), daemon]
    assert node.scheduler_pid in everybody and len(everybody) >= 5
    cm.shutdown()
    assert [pid for pid in everybody if not gone(pid)] == []
    assert not os.path.exists(node.session_dir)
    node.close()  # again


def test_a_killed_driver_leaves_nothing(tmp_path: Path) -> None:
    driver = script("""
        import os, subprocess, sys, threading
        import cellmesh as cm
        cm.init(num_cpus=2, object_store_memory=64 << 20)

        @cm.remote
        def work():
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], start_new_session=True)
            print(child.pid, flush=True)
            threading.Event().wait()

        @cm.remote
        def ready():
            return os.getpid()

        cm.get(ready.remote())
        refs = [work.remote() for _ in range(2)]
        if os.fork() == 0:  # a child that inherited everything of the driver must not keep the session alive
            threading.Event().wait()
        print(cm.init(ignore_reinit_error=True)["session_dir"], flush=True)
        threading.Event().wait()
        """)
    directory = Path(line(driver))
    session = directory.name.removeprefix("session-")
    wait_until(lambda: len(processes.session_processes(session)) >= 6, 20, "two workers with a child each")
    everybody = processes.session_processes(session)
    forked = processes.children(driver.pid)
    driver.kill()
    driver.wait()
    try:
        wait_until(lambda: all(map(gone, everybody)) and not directory.exists(), 10, "the end of the session")
    finally:
        for pid in forked:
            processes.kill_quietly(pid)
        assert driver.stdout is not None
        driver.stdout.close()


def test_an_interrupt_of_the_drivers_group_is_not_for_workers() -> None:
    driver = script("""
        import os, signal, time
        import cellmesh as cm
        cm.init(num_cpus=1, object_store_memory=64 << 20)

        @cm.remote
        def slow(path):
            print(path)
            return os.getpid()

        pid = cm.get(slow.remote(""))
        signal.signal(signal.SIGINT, lambda *_: None)
        os.setpgid(0, 0)
        os.killpg(0, signal.SIGINT)
        print(pid == cm.get(slow.remote("")), flush=True)
        """)
    assert line(driver) == "True"
    driver.communicate()
    assert driver.returncode == 0


def test_a_dead_session_is_swept_when_the_next_one_starts() -> None:
    session, directory = session_dir.create()
    node_socket.listen(os.path.join(directory, session_dir.SOCKET_NAME)).close()
    survivor = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(1000)"], env={**os.environ, processes.SESSION_VARIABLE: session}
    )
    wait_until(lambda: processes.session_processes(session))
    cm.init(num_cpus=1, object_store_memory=STORE)
    cm.shutdown()
    assert not os.path.exists(directory) and survivor.wait() == -signal.SIGKILL


def test_a_failed_start_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/does/not/exist")
    with pytest.raises(FileNotFoundError):
        Node.start(modules=WORKER_MODULES, resources={"CPU": 1.0}, object_store_memory=STORE)
    assert os.listdir(session_dir.runtime_root()) == []


def test_two_sessions_at_once_do_not_meet(node: Node) -> None:
    other = Node.start(modules=WORKER_MODULES, resources={"CPU": 1.0}, object_store_memory=STORE)
    wait_until(lambda: len(processes.session_processes(other.session_id)) >= 3)
    theirs = processes.session_processes(other.session_id)
    other.close()
    assert all(map(gone, theirs)) and cm.get(pid_of_worker.remote()) in workers()


# ---------------------------------------------------------------- the death of each process
def test_a_killed_worker_is_reported_with_its_last_words(node: Node, heard: Heard) -> None:
    @cm.remote(max_retries=0)
    def crash() -> None:
        print("first words", file=sys.stderr)
        os.write(2, b"last words\n")
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(cm.exceptions.WorkerCrashedError):
        cm.get(crash.remote())
    died = heard.wait_for(WorkerDied)
    assert died.code == -signal.SIGKILL and died.task > 0
    assert set(died.tail) == {"first words", "last words"}
    wait_until(lambda: len(workers()) == 2 and died.pid not in workers(), 20, "a replacement")
    assert current().client.check() == []


def test_a_crash_in_c_code_shows_where_it_was(node: Node, heard: Heard) -> None:
    @cm.remote(max_retries=0)
    def segfault() -> None:
        os.kill(os.getpid(), signal.SIGSEGV)

    with pytest.raises(cm.exceptions.WorkerCrashedError):
        cm.get(segfault.remote())
    tail = heard.wait_for(WorkerDied).tail
    assert tail[0] == "Fatal Python error: Segmentation fault"
    assert "in segfault" in tail[-1] and not any("worker/main.py" in text for text in tail)


def test_a_worker_takes_its_children_along(node: Node) -> None:
    @cm.remote
    def start_child(path: str) -> int:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
        return child.pid if Path(path).exists() else os.getpid()

    worker = cm.get(start_child.remote("/does/not/exist"))
    (child,) = wait_until(lambda: processes.children(worker))
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: gone(child), 10)


def test_a_killed_task_runs_again(node: Node, tmp_path: Path) -> None:
    @cm.remote
    def second_time(path: str) -> str:
        if not os.path.exists(path):
            Path(path).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return "done"

    assert cm.get([second_time.remote(str(tmp_path / str(i))) for i in range(20)]) == ["done"] * 20


def test_the_death_of_the_local_scheduler_ends_the_session_with_a_reason(node: Node, tmp_path: Path) -> None:
    ref = run_for_ever.remote(str(tmp_path / "started"))
    wait_until((tmp_path / "started").exists, 20)
    everybody = processes.session_processes(node.session_id)
    os.kill(node.scheduler_pid, signal.SIGKILL)
    with pytest.raises(cm.exceptions.SessionLostError, match="signal 9"):
        cm.get(ref)
    wait_until(lambda: all(map(gone, everybody)) and not os.path.exists(node.session_dir), 10)


def test_terminating_the_local_scheduler_ends_the_session_with_a_notice(node: Node, heard: Heard) -> None:
    cm.get(pid_of_worker.remote())
    everybody = processes.session_processes(node.session_id)
    os.kill(node.scheduler_pid, signal.SIGTERM)
    assert "SIGTERM" in heard.wait_for(NodeEvent).text
    wait_until(lambda: all(map(gone, everybody)) and not os.path.exists(node.session_dir), 10)


def test_a_killed_zygote_is_replaced_and_work_goes_on(node: Node, heard: Heard, tmp_path: Path) -> None:
    @cm.remote
    def wait_once(path: str) -> str:
        if not os.path.exists(path):
            Path(path).touch()
            threading.Event().wait()
        return "done"

    ref = wait_once.remote(str(tmp_path / "started"))
    wait_until((tmp_path / "started").exists, 20)
    (zygote,) = (pid for pid in processes.children(node.scheduler_pid))
    os.kill(zygote, signal.SIGKILL)
    assert cm.get(ref, timeout=60) == "done"
    assert "signal 9" in heard.wait_for(NodeEvent).text
    assert cm.get(pid_of_worker.remote()) in workers()


def test_a_stopped_worker_does_not_stop_the_others(node: Node) -> None:
    stopped = cm.get(pid_of_worker.remote())
    os.kill(stopped, signal.SIGSTOP)
    os.kill(stopped, signal.SIGCONT)
    assert cm.get(pid_of_worker.remote(), timeout=30) in workers()


def test_a_worker_that_a_debugger_stops_inside_the_lock_is_reported_and_ended(node: Node, heard: Heard) -> None:
    stopped = cm.get(pid_of_worker.remote())
    index = next(entry["index"] for entry in current().client.clients() if entry["pid"] == stopped)
    assert ctypes.CDLL(None).ptrace(PTRACE_ATTACH, stopped, None, None) == 0
    os.waitpid(stopped, WALL)
    with mmap.mmap(node.fd, 4096) as header:  # as if it had stopped there: struct header of objstore/core/layout.h
        struct.pack_into("<I", header, 136, 300)  # lock_grace_ms
        struct.pack_into("<I", header, 128, 1 << 9 | index + 1)  # lock: the slot's first client
    assert cm.get(pid_of_worker.remote()) != stopped
    os.waitpid(stopped, WALL)  # whoever traces it is told of its end first
    told = heard.wait_for(NodeEvent, lambda event: event.kind == "lock_owner_killed")
    assert f"process {stopped} was stopped" in told.text
    assert heard.wait_for(WorkerDied).pid == stopped
    assert current().client.check() == []


def test_a_store_that_has_been_overwritten_ends_the_session_with_a_clear_error(node: Node, heard: Heard) -> None:
    worker = cm.get(pid_of_worker.remote())
    with mmap.mmap(node.fd, 4096) as header:
        struct.pack_into("<I", header, 32, 7)  # n_objects of struct header: everything else would lie elsewhere
    os.kill(worker, signal.SIGKILL)
    heard.wait_for(NodeEvent, lambda event: event.kind == "session_ends" and "has overwritten" in event.text)
    with pytest.raises(cm.exceptions.CellmeshError):
        cm.get(pid_of_worker.remote())


# ---------------------------------------------------------------- the pool
def test_actors_get_workers_beyond_the_cpus(node: Node) -> None:
    @cm.remote(num_cpus=0)
    class Where:
        def pid(self) -> int:
            return os.getpid()

    actors = [Where.remote() for _ in range(8)]
    pids = cm.get([actor.pid.remote() for actor in actors])
    assert len(set(pids)) == 8 and set(pids) <= set(workers())
    assert cm.get(pid_of_worker.remote()) not in pids
    del actors
    current().client.flush()
    wait_until(lambda: all(map(gone, pids)), 10, "the workers of actors that nobody can call any more end")


def test_workers_that_do_not_start_are_told_and_do_not_wedge_anything() -> None:
    node = Node.start(
        modules=WORKER_MODULES._replace(setup="a_module_that_is_missing:setup", preload=()),
        resources={"CPU": 1.0},
        object_store_memory=STORE,
    )
    try:
        event = Heard(node).wait_for(NodeEvent)
        assert event.kind == "workers_do_not_start"
        assert "ModuleNotFoundError: No module named 'a_module_that_is_missing'" in event.text
    finally:
        node.close()
    assert not os.path.exists(node.session_dir)


def test_forked_workers_do_not_share_random_numbers(node: Node, tmp_path: Path) -> None:
    @cm.remote
    def draw(mine: str, others: str) -> tuple[int, float, float]:
        import random

        import numpy

        Path(mine).touch()
        wait_until(Path(others).exists)  # so that each runs in a worker of its own
        return os.getpid(), random.random(), float(numpy.random.random())

    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    (pid1, *one), (pid2, *other) = cm.get([draw.remote(a, b), draw.remote(b, a)])
    assert pid1 != pid2 and one[0] != other[0] and one[1] != other[1]


def test_a_worker_has_the_drivers_path_and_nothing_of_ours(node: Node) -> None:
    @cm.remote
    def look() -> tuple[list[str], list[str], str, str | None]:
        return sys.path, sys.argv, os.getcwd(), os.environ.get("OPENBLAS_NUM_THREADS")

    path, argv, folder, blas = cm.get(look.remote())
    assert path[: len(sys.path)] == [os.path.abspath(p) for p in sys.path]
    assert argv == [""] and folder == os.getcwd() and blas == os.environ.get("OPENBLAS_NUM_THREADS")


# ---------------------------------------------------------------- stacks
def test_where_a_task_is(node: Node, heard: Heard, tmp_path: Path) -> None:
    @cm.remote
    def waits_here(path: str) -> None:
        Path(path).touch()
        threading.Event().wait(100)

    ref = waits_here.remote(str(tmp_path / "started"))
    wait_until((tmp_path / "started").exists, 20)
    pid = next(entry["pid"] for entry in current().client.clients() if entry["state"] == "busy")
    for request in (1, 2):
        node.link.send(StackRequest(request, pid))
    for request in (1, 2):
        reply = heard.wait_for(StackReply, lambda m, request=request: m.request == request)
        assert "in waits_here" in reply.text and "worker/main.py" not in reply.text
    cm.cancel(ref, force=True)


def test_the_stack_of_a_process_that_cannot_answer(node: Node, heard: Heard) -> None:
    pid = cm.get(pid_of_worker.remote())
    os.kill(pid, signal.SIGSTOP)
    node.link.send(StackRequest(1, pid))
    node.link.send(StackRequest(2, os.getpid()))
    try:
        assert "no worker" in heard.wait_for(StackReply, lambda m: m.request == 2).error
        assert "stopped" in heard.wait_for(StackReply, lambda m: m.request == 1).error
    finally:
        os.kill(pid, signal.SIGCONT)


# ---------------------------------------------------------------- joining
def test_another_driver_may_join_and_leave(node: Node) -> None:
    guest = script(
        """
        import sys
        import cellmesh as cm
        cm.init(address=sys.argv[1])

        @cm.remote
        def double(x):
            return 2 * x

        print(cm.get(double.remote(21)), flush=True)
        sys.stdin.read()
        """,
        node.address,
    )
    assert line(guest) == "42"
    guest.kill()
    guest.communicate()
    client = current().client
    wait_until(lambda: guest.pid not in [entry["pid"] for entry in client.clients()], 10, "its slot is free again")
    assert cm.get(pid_of_worker.remote()) in workers()


def test_auto_finds_the_session(node: Node) -> None:
    joined = Node.connect("auto")
    assert (joined.session_id, joined.scheduler_pid) == (node.session_id, node.scheduler_pid)
    assert joined.resources == node.resources
    joined.close()
    assert cm.get(pid_of_worker.remote()) in workers()


@pytest.mark.parametrize("address", ["/does/not/exist/node.sock", "auto"])
def test_joining_what_is_not_there(address: str) -> None:
    with pytest.raises(JoinError):
        Node.connect(address)


def test_another_version_is_refused_by_name(node: Node) -> None:
    channel = transport.connect(node.address, FromScheduler, 10)
    channel.send(Hello("driver", os.getpid(), version=999))
    answer, _ = channel.receive()
    assert isinstance(answer, Refused) and "999" in answer.reason and str(messages.PROTOCOL_VERSION) in answer.reason
    with pytest.raises(transport.ConnectionLost):
        channel.receive()
    channel.close()


def greeted(node: Node) -> transport.Channel:
    channel = transport.connect(node.address, FromScheduler, 10)
    channel.send(Hello("driver", os.getpid()))
    assert isinstance(channel.receive()[0], Welcome)
    return channel


@pytest.mark.parametrize(
    "message",
    [messages.Shutdown(), Hello("driver", 1), messages.WorkerOutput(1, 1, "stdout", 1, "x")],
    ids=lambda m: type(m).__name__,
)
def test_a_guest_that_oversteps_is_cut_off(node: Node, message: messages.Message) -> None:
    channel = greeted(node)
    channel.send(message)
    with pytest.raises(transport.ConnectionLost):
        channel.receive()
    channel.close()
    assert cm.get(pid_of_worker.remote()) in workers()


def test_noise_on_the_socket_harms_nobody(node: Node) -> None:
    import random
    import socket

    rng = random.Random(1)
    for _ in range(200):
        noise = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        noise.connect(node.address)
        for _ in range(rng.randint(0, 3)):
            try:
                noise.send(bytes([rng.choice([0, 1, 2, 3, 3, 3, 9])]) + rng.randbytes(rng.randint(0, 300)))
            except BrokenPipeError:
                break
        noise.close()
    assert cm.get(pid_of_worker.remote()) in workers()


# ---------------------------------------------------------------- idle
def test_an_idle_session_runs_nothing(node: Node) -> None:
    """Nobody wakes up: not the local scheduler, not the zygote, not a worker."""
    cm.get([pid_of_worker.remote() for _ in range(10)])

    wait_until(lambda: len(workers()) == 2 and len(current().client.idle_workers()) == 2, 20)
    wait_until_at_rest(lambda: processes.session_processes(node.session_id))


def test_settings_of_the_link_survive_a_fork_of_the_driver(node: Node) -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0 if node.link._channel.closed else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert cm.get(pid_of_worker.remote()) in workers()


def test_a_listener_that_raises_is_shown_and_left_out(
    node: Node, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", shown.append)
    node.link.add_listener(lambda message: 1 / 0)
    for request in (1, 2):
        node.link.send(StackRequest(request, os.getpid()))
        heard.wait_for(StackReply, lambda m, request=request: m.request == request)
    wait_until(lambda: shown)
    assert [args.exc_type for args in shown] == [ZeroDivisionError]
