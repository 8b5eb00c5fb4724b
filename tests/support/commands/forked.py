"""The command line without an interpreter's start: a process that has imported it forks for each command.

Tests of clusters give a thousand commands, most of them to look. Starting Python and importing takes each of them
0.16 s of CPU, a fork 0.02 s. Commands of machines with a name or a network of their own run as users run them.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

MOST_BYTES = 1 << 17  # of a request
SERVE = "from support.commands.forked import serve; serve(int(__import__('sys').argv[1]))"

_server: socket.socket | None = None  # to the process that forks, while there is one


@contextmanager
def served() -> Iterator[None]:
    """There is the process that forks. It ends with the connection to it, however this process ends."""
    global _server
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        command = [sys.executable, "-c", SERVE, str(theirs.fileno())]
        path = os.pathsep.join(filter(None, sys.path))
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env={**os.environ, "PYTHONPATH": path})
        theirs.close()
        _server = ours
        yield
        _server = None
    process.wait()


def run(
    arguments: Sequence[str], environment: Mapping[str, str], stdin: str = "", timeout: float = 60.0
) -> subprocess.CompletedProcess[str]:
    """`cellmesh ARGUMENTS` with that environment, as `subprocess.run` would tell of it.

    Raises
    ------
    subprocess.TimeoutExpired
        It, or somebody who has its output, is not done yet. It is killed.
    """
    assert _server is not None, "commands are forked while `served` lasts: tests/conftest.py"
    given = os.memfd_create("stdin")
    os.pwrite(given, stdin.encode(), 0)
    pipes = [os.pipe() for _ in range(3)]  # stdout, stderr, and how it ended
    request = json.dumps({"arguments": list(arguments), "environment": dict(environment)}).encode()
    try:
        socket.send_fds(_server, [request], [given, *(writer for _, writer in pipes)])
    finally:
        for fd in (given, *(writer for _, writer in pipes)):
            os.close(fd)
    readers = [reader for reader, _ in pipes]
    try:
        out, err, ended = _read(readers, time.monotonic() + timeout)
    except TimeoutError:
        raise subprocess.TimeoutExpired(["cellmesh", *arguments], timeout) from None
    finally:
        for fd in readers:
            os.close(fd)
    _, status = ended.split()  # before it, its pid
    return subprocess.CompletedProcess(["cellmesh", *arguments], int(status), out.decode(), err.decode())


def _read(readers: Sequence[int], deadline: float) -> list[bytes]:
    """All that comes through pipes, until nobody can write to them any more."""
    came = {reader: b"" for reader in readers}
    with selectors.DefaultSelector() as selector:
        for reader in readers:
            selector.register(reader, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                pid = came[readers[-1]].split()
                if len(pid) == 1:
                    os.kill(int(pid[0]), signal.SIGKILL)
                raise TimeoutError
            for key, _ in ready:
                came[key.fd] += (more := os.read(key.fd, 1 << 16))
                if not more:
                    selector.unregister(key.fd)
    return list(came.values())


def serve(fd: int) -> None:
    """Fork a process for each command that comes, until nobody is there who could send one."""
    import cellmesh.scheduler.cluster.net.client

    import cellmesh.cli.main
    import cellmesh.cli.start
    import cellmesh.startup.init  # noqa: F401 (what commands would import)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    told: dict[int, tuple[int, int]] = {}  # by what tells of a command's end: its pid, and where that is told
    with socket.socket(fileno=fd) as connection, selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fd in told:
                    selector.unregister(key.fd)
                    pid, ended = told.pop(key.fd)
                    os.write(ended, str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())
                    os.close(ended)
                    os.close(key.fd)
                    continue
                request, fds, _, _ = socket.recv_fds(connection, MOST_BYTES, 4)
                if not request:
                    return
                assert len(os.listdir("/proc/self/task")) == 1, "a process with threads must not fork"
                if (pid := os.fork()) == 0:
                    for other in (connection.detach(), *(n for fd, (_, ended) in told.items() for n in (fd, ended))):
                        os.close(other)
                    sys.exit(_command(request, fds))
                *streams, ended = fds
                os.write(ended, f"{pid} ".encode())
                selector.register(death := os.pidfd_open(pid), selectors.EVENT_READ)
                told[death] = pid, ended
                for each in streams:
                    os.close(each)


def _command(request: bytes, fds: list[int]) -> int:
    """Be the command, whose streams these are; its exit status."""
    from cellmesh.cli.main import main

    os.close(fds.pop())
    for number, each in enumerate(fds):
        os.dup2(each, number)
        os.close(each)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    asked = json.loads(request)
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.argv = ["cellmesh", *asked["arguments"]]
    return main()
