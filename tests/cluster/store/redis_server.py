"""A Redis of a test's own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.waiting import wait_until

REDIS = shutil.which("redis-server")


class RedisServer:
    """A Redis on a unix socket, which writes everything through; it can be killed and started again."""

    def __init__(self, folder: Path, fsync: str) -> None:
        self.folder, self.socket = folder, folder / "r.sock"
        self.command = [
            str(REDIS),
            "--port",
            "0",
            "--unixsocket",
            str(self.socket),
            "--unixsocketperm",
            "700",
            "--dir",
            str(folder),
            "--appendonly",
            "yes",
            "--appendfsync",
            fsync,
            "--save",
            "",
        ]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL)
        wait_until(self.answers)

    def answers(self) -> bool:
        import redis

        assert self.process.poll() is None, "redis-server has ended"
        client = redis.Redis(unix_socket_path=str(self.socket))
        try:
            return bool(client.ping())
        except (redis.exceptions.ConnectionError, redis.exceptions.BusyLoadingError):
            return False
        finally:
            client.close()

    def tear(self) -> None:
        """Have its append-only file end within a command, as after a loss of power."""
        *_, last = sorted(self.folder.rglob("*.incr.aof")) or sorted(self.folder.rglob("*.aof"))
        with last.open("ab") as file:
            file.write(b"*4\r\n$4\r\nHSET\r\n$10\r\ncellm")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def running(fsync: str = "always") -> Iterator[RedisServer]:
    """One that runs; a test that cannot have it is skipped, and says why."""
    pytest.importorskip("redis")
    if REDIS is None:
        pytest.skip("no redis-server on PATH: apt-get install redis-server")
    # The socket's path is short whatever the test's name is.
    folder = Path(os.environ["TMPDIR"]) / "redis"
    folder.mkdir()
    server = RedisServer(folder, fsync)
    try:
        yield server
    finally:
        server.process.send_signal(signal.SIGCONT)
        server.kill()
        shutil.rmtree(folder)
