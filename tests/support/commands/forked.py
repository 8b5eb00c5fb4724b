"""Processes without an interpreter's start: one that has imported what they need forks for each.

Tests of clusters give a thousand commands, and many tests begin a session. Starting Python and importing takes most of
what these cost; a fork takes 0.02 s (decision 165). Commands of machines with a name or a network of their own
run as users run them, and so do the sessions of programs that tests start, and of tests that are marked
`own_interpreter`.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import re
import resource
import runpy
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from cellmesh.scheduler.node import launch
from support.waiting import forkers

MOST_BYTES = 1 << 17  # of a request
MOST_FDS = 8
SERVE = "from support.commands.forked import serve; serve(int(__import__('sys').argv[1]))"
ROOM = 1 << 12  # for command lines and environments that are longer than those of the process that forks
COMMAND = "cellmesh"  # the command line's
USUAL = launch.our_python("")[:-1]  # how modules of ours begin
# Variables that interpreters and libraries read when they begin.
READ_AT_START = re.compile(r"PYTHON|LD_|LC_|LANG|TZ$|OMP_|OPENBLAS_|GOTO_|MKL_|MALLOC_|JE_")


def conditions(environment: Mapping[str, str]) -> list[object]:
    """What a process has from its beginning."""
    limits = [resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")]
    variables = {name: value for name, value in environment.items() if READ_AT_START.match(name)}
    return [limits, os.sched_getaffinity(0), variables]


def is_of_ours(command: list[str]) -> bool:
    """Whether it begins a module of ours as is usual."""
    return command[: len(USUAL)] == USUAL


class Server:
    """The process that forks, as the process of the tests sees it. It ends with the connection to it, however this
    process ends.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner, self._conditions = os.getpid(), conditions(launch.environment())
        self._begin()

    def _begin(self) -> None:
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-c", SERVE, str(theirs.fileno()), "." * ROOM]
            path = os.pathsep.join(filter(None, sys.path))
            environment = {**os.environ, "PYTHONPATH": path, "CELLMESH_ROOM": "." * ROOM}
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment)
        forkers.add(self.pid)

    @property
    def pid(self) -> int:
        return self._process.pid

    def end(self) -> int:
        """End it, if it has not ended; its exit status."""
        self._connection.close()
        status = self._process.wait()
        forkers.discard(self.pid)
        return status

    def revive(self) -> None:
        """Begin it again if it has ended: what failed by that stays one test.

        Raises
        ------
        AssertionError
            It had ended.
        """
        if self._process.poll() is not None:
            status = self.end()
            self._begin()
            raise AssertionError(f"the process that forks had ended with status {status}; there is a new one")

    def fork(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        fds: Mapping[int, int],
        folder: str | None = None,
    ) -> Forked:
        """Have it be that command, with descriptors by the numbers that they have there."""
        request = {
            "command": [*command],
            "environment": {**environment},
            "numbers": [*fds],
            "folder": folder or os.getcwd(),
        }
        return Forked(self.ask(request, [*fds.values()]), lambda pid: self.ask({"ended": pid}))

    def ask(self, request: Mapping[str, Any], fds: Sequence[int] = ()) -> int:
        """What it answers.

        Raises
        ------
        RuntimeError
            It has ended, or with the stack of what it could not do.
        """
        text = json.dumps(request).encode()
        assert len(text) <= MOST_BYTES, f"{len(text)} bytes of command and environment: the most are {MOST_BYTES}"
        with self._lock:
            try:
                socket.send_fds(self._connection, [text], fds)
                received = self._connection.recv(MOST_BYTES)
            except ConnectionError:
                received = b""
            answer = json.loads(received) if received else f"ended with status {self._process.wait()}"
        if isinstance(answer, str):
            raise RuntimeError(f"the process that forks: {answer}")
        return answer

    def may_begin(self, command: list[str], environment: Mapping[str, str]) -> bool:
        """Whether what it forks is as a new interpreter would be, as far as tests can tell."""
        is_ours = os.getpid() == self._owner and is_of_ours(command) and self._process.poll() is None
        return is_ours and conditions(environment) == self._conditions


server: Server | None = None  # while there is one


class Forked:
    """What has been forked, as `subprocess.Popen` tells of a child. `status`: collects it when it has ended."""

    def __init__(self, pid: int, status: Callable[[int], int]) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._status = status
        self._lock = threading.Lock()  # other threads may ask for the status, too, and it is there once

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status, or the negative number of the signal that has ended it."""
        with self._lock:
            if self.returncode is not None:
                return self.returncode
            pidfd = os.pidfd_open(self.pid)
        try:
            poll = select.poll()
            poll.register(pidfd, select.POLLIN)
            if not poll.poll(None if timeout is None else max(0.0, timeout) * 1000):
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        finally:
            os.close(pidfd)
        with self._lock:
            if self.returncode is None:
                self.returncode = self._status(self.pid)
            return self.returncode

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def kill(self, signum: int = signal.SIGKILL) -> None:
        if self.returncode is None:
            os.kill(self.pid, signum)

    def terminate(self) -> None:
        self.kill(signal.SIGTERM)


@contextmanager
def served() -> Iterator[None]:
    """There is the process that forks."""
    global server
    server = Server()
    launch.begin = begin
    try:
        yield
    finally:
        launch.begin = begin_as_users_do
        server.end()
        server = None


begin_as_users_do = launch.begin


def begin(
    command: list[str], log: int, environment: dict[str, str], passed: tuple[int, ...] = (), folder: str | None = None
) -> subprocess.Popen[bytes] | Forked:
    """Stands for `launch.begin`."""
    if server is None or not server.may_begin(command, environment):
        return begin_as_users_do(command, log, environment, passed, folder)
    with open(os.devnull) as nothing:
        return server.fork(command, environment, _fds(nothing.fileno(), log, passed), folder)


def _fds(nothing: int, log: int, passed: Sequence[int]) -> dict[int, int]:
    """What such a process has, by number."""
    return {0: nothing, 1: log, 2: log, **dict(zip(passed, passed, strict=True))}


def run(
    command: Sequence[str],
    environment: Mapping[str, str],
    stdin: str = "",
    timeout: float = 60.0,
    folder: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """`cellmesh ARGUMENTS` or `python -m MODULE ARGUMENTS` with that environment, as `subprocess.run` tells of it.

    Raises
    ------
    subprocess.TimeoutExpired
        It, or somebody who has its output, is not done yet. It is killed.
    """
    assert server is not None, "commands are forked while `served` lasts: tests/conftest.py"
    end = time.monotonic() + timeout
    given = os.memfd_create("stdin")
    os.pwrite(given, stdin.encode(), 0)
    (out, to_out), (err, to_err) = os.pipe(), os.pipe()
    try:
        process = server.fork(command, environment, {0: given, 1: to_out, 2: to_err}, folder)
    finally:
        for fd in (given, to_out, to_err):
            os.close(fd)
    try:
        output, errors = _read([out, err], end)
        status = process.wait(end - time.monotonic())
    except (TimeoutError, subprocess.TimeoutExpired):
        process.kill()
        process.wait()
        raise subprocess.TimeoutExpired([*command], timeout) from None
    finally:
        os.close(out)
        os.close(err)
    return subprocess.CompletedProcess([*command], status, output.decode(), errors.decode())


def _read(readers: Sequence[int], deadline: float) -> list[bytes]:
    """All that comes through pipes, until nobody can write to them any more."""
    came = {reader: b"" for reader in readers}
    with selectors.DefaultSelector() as selector:
        for reader in readers:
            selector.register(reader, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                came[key.fd] += (more := os.read(key.fd, 1 << 16))
                if not more:
                    selector.unregister(key.fd)
    return list(came.values())


# ---------------------------------------------------------------- in the process that forks
def serve(fd: int) -> None:
    """Fork a process for each request, until nobody is there who could ask."""
    _import_all()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(fileno=fd) as connection:
        while True:
            request, fds, _, _ = socket.recv_fds(connection, MOST_BYTES, MOST_FDS)
            if not request:
                return
            asked = json.loads(request)
            try:
                answer: int | str = _collected(asked["ended"]) if "ended" in asked else _fork()
            except Exception:  # the next request has nothing to do with it
                answer = traceback.format_exc()
            if answer == 0 and "ended" not in asked:
                connection.close()
                sys.exit(_become(**asked, fds=fds))
            for each in fds:
                os.close(each)
            connection.send(json.dumps(answer).encode()[:MOST_BYTES])


def _fork() -> int:
    assert not _has_threads(), "a process with threads must not fork"
    return os.fork()


def _collected(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _has_threads() -> bool:
    return len(os.listdir("/proc/self/task")) > 1


def _import_all() -> None:
    """What commands import, and local schedulers, zygotes and workers."""
    import gc

    import cellmesh.scheduler.cluster.net.client
    import cellmesh.scheduler.local_scheduler.server
    from cellmesh.scheduler.worker import zygote

    import cellmesh.cli.main
    import cellmesh.cli.start
    import cellmesh.startup.init  # noqa: F401 (for those that are forked)
    from cellmesh.startup.worker_modules import WORKER_MODULES

    zygote.preload([*zygote.PRELOADED, *WORKER_MODULES.preload, *zygote.PRELOADED_AFTER_FIRST])
    zygote.preload(WORKER_MODULES.preload_idle)
    gc.collect()
    gc.freeze()


def _become(
    command: list[str], environment: dict[str, str], numbers: list[int], folder: str, fds: list[int]
) -> int | str | None:
    """Be the process that is asked for; its exit status."""
    above = max(*numbers, *fds) + 1
    moved = [fcntl.fcntl(fd, fcntl.F_DUPFD, above) for fd in fds]
    for fd in fds:
        os.close(fd)
    for fd, number in zip(moved, numbers, strict=True):
        os.dup2(fd, number)
        os.close(fd)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    _show("\0".join(command), 48)
    _show("\0".join(f"{name}={value}" for name, value in environment.items()), 50)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    launch.begin = _begin_from_command
    if command[0] == COMMAND:
        from cellmesh.cli.main import main

        sys.argv = command
        return main()
    os.setsid()
    sys.argv = command[command.index("-m") + 1 :]
    name = sys.argv[0]
    if not hasattr(sys.modules.get(name), "__path__"):  # no package, whose __main__ it is that runs
        sys.modules.pop(name, None)  # of which an interpreter would not know either
    runpy.run_module(name, run_name="__main__", alter_sys=True)
    return 0


def _begin_from_command(
    command: list[str], log: int, environment: dict[str, str], passed: tuple[int, ...] = (), folder: str | None = None
) -> subprocess.Popen[bytes] | Forked:
    """Stands for `launch.begin` in a command, which has been forked itself."""
    if _has_threads() or not is_of_ours(command):
        return begin_as_users_do(command, log, environment, passed, folder)
    if (pid := os.fork()) == 0:
        status: int | str | None = 1
        try:
            nothing = os.open(os.devnull, os.O_RDONLY)
            fds = _fds(nothing, os.dup(log), passed)
            fds[2] = os.dup(log)
            for fd in map(int, os.listdir("/proc/self/fd")):
                if fd > 2 and fd not in fds.values():
                    try:
                        os.close(fd)
                    except OSError:  # that of the listing
                        continue
            status = _become(command, environment, [*fds], folder or os.getcwd(), [*fds.values()])
        except SystemExit as end:
            status = end.code
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status if isinstance(status, int) else 0 if status is None else 1)
    return Forked(pid, _collected)


def _show(text: str, field: int) -> None:
    """Have `/proc` tell of another command line or environment: this process lies between these fields of `stat`."""
    with open("/proc/self/stat") as stat:
        start, end = map(int, stat.read().rpartition(")")[2].split()[field - 3 :][:2])
    data = os.fsencode(text)[: end - start - 1]
    ctypes.memmove(start, data.ljust(end - start, b"\0"), end - start)
