"""Clusters of engines, made for tests by programs of this folder."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import psutil

HERE = Path(__file__).parent


@dataclass
class Cluster:
    """One that runs."""

    address: str
    process: Popen[str]

    @property
    def scheduler_address(self) -> str:
        """As a cluster object of Dask's has it."""
        return f"tcp://{self.address}"

    def do(self, method: str, **arguments: Any) -> None:
        """Have its program call a method of it."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([method, arguments]) + "\n")
        self.process.stdin.flush()

    def ask(self, what: str) -> str:
        """What its program says to that."""
        self.do(what)
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def end(self) -> None:
        """Returns once it has ended."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def named(name: str) -> list[psutil.Process]:
    """The processes of that name that this one has begun, or what it has begun has; the last one last."""
    found = [process for process in psutil.Process().children(recursive=True) if process.name() == name]
    return sorted(found, key=psutil.Process.create_time)


@contextmanager
def cluster_of(program: str, path: str | None = None, **arguments: Any) -> Iterator[Cluster]:
    """A cluster that a program makes, with what it is given. `path`: where it finds modules besides; None: where this
    program does, and the tests' own."""
    command = [sys.executable, str(HERE / program)]
    if arguments:
        command.append(json.dumps(arguments))
    if path is None:
        path = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])  # tasks use what tests use
    with Popen(command, stdin=PIPE, stdout=PIPE, text=True, env={**os.environ, "PYTHONPATH": path}) as process:
        assert process.stdout is not None
        cluster = Cluster(process.stdout.readline().strip(), process)
        try:
            yield cluster
        finally:
            cluster.end()
