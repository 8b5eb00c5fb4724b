"""Starts a module as a process of the session, with descriptors that it inherits."""

from __future__ import annotations

import os
import sys

from ..system import processes
from .messages import SessionConfig


def spawn(module: str, config: SessionConfig, *fds: int) -> int:
    """Start a module as a process; its pid. Its arguments: these descriptors, one of the configuration, this process's
    pid."""
    config_fd = processes.memory_file("cellmesh-config", config.to_bytes())
    passed = (*fds, config_fd)
    for fd in passed:
        os.set_inheritable(fd, True)
    command = [sys.executable, "-P", "-m", module, *map(str, passed), str(os.getpid())]
    pid = os.posix_spawn(sys.executable, command, os.environ)
    for fd in passed:
        os.set_inheritable(fd, False)
    os.close(config_fd)
    return pid
