"""The first moment of a session: its folder, its segment, its socket, and the process that will serve it.

Only what that needs is imported here. The process gets its configuration later, through a pipe, so that it imports
while the driver does too: importing takes longer than everything else at a start. For the same reason neither
dataclasses nor pathlib is used here.
"""

from __future__ import annotations

import os
import subprocess
import sys

from ...objstore._core import create_segment
from ..ipc import node_socket
from ..system import processes
from . import session_dir

DEFAULT_STORE_BYTES = 2 << 30
# Tables are sparse: neither the start nor an idle session pays for their size. What is full of ints takes 172 bytes an
# object and 256 a waiting task, so the second number also ends a loop that submits and never waits before it has all of
# the memory.
DEFAULT_MAX_OBJECTS, DEFAULT_MAX_TASKS = 1 << 24, 1 << 20


class Launch:
    """A session whose local scheduler waits to be told its configuration.

    Attributes
    ----------
    session : str
        Its id.
    directory : str
    segment_fd : int
    process : subprocess.Popen
    is_taken : bool
        Whether another process sees to its end by now.
    """

    session: str
    directory: str
    segment_fd: int
    process: subprocess.Popen[bytes]
    is_taken: bool

    def __init__(
        self, session: str, directory: str, segment_fd: int, process: subprocess.Popen[bytes], config_fd: int
    ) -> None:
        self.session, self.directory, self.segment_fd, self.process = session, directory, segment_fd, process
        self.is_taken = False
        self._config_fd = config_fd

    def tell(self, config: bytes) -> None:
        """Give the local scheduler its configuration.

        Raises
        ------
        OSError
            It has ended already.
        """
        with os.fdopen(self._config_fd, "wb") as pipe:
            self._config_fd = -1
            pipe.write(config)

    def abandon(self) -> None:
        """End it, unless it has been taken; nothing is left behind."""
        if self.is_taken:
            return
        self.is_taken = True
        self.process.kill()
        self.process.wait()
        for fd in (self.segment_fd, self._config_fd):
            if fd >= 0:
                os.close(fd)
        session_dir.remove(self.directory)


def launch(
    store_bytes: int | None = None, max_objects: int = DEFAULT_MAX_OBJECTS, max_tasks: int = DEFAULT_MAX_TASKS
) -> Launch:
    """Start a session's first process.

    Parameters
    ----------
    store_bytes : int, optional
        Size of the segment's arena. Default 2 GiB; memory is used as it fills.
    max_objects, max_tasks : int
        How many objects there can be at a time, and how many unfinished tasks.

    Raises
    ------
    OSError
        If the operating system refuses a process, memory or a socket; nothing is left behind then.
    """
    session_dir.sweep()
    session, directory = session_dir.create()
    fds: list[int] = []
    try:
        segment_fd = create_segment(store_bytes or DEFAULT_STORE_BYTES, max_objects, max_tasks)
        fds.append(segment_fd)
        config_reader, config_writer = os.pipe2(os.O_CLOEXEC)
        fds += [config_reader, config_writer]
        log_path = os.path.join(directory, session_dir.LOG_NAME)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        fds.append(driver := os.pidfd_open(os.getpid()))
        fds.append(log := os.open(log_path, flags, 0o600))
        with node_socket.listen(os.path.join(directory, session_dir.SOCKET_NAME)) as listener:
            passed = (listener.fileno(), segment_fd, driver, config_reader)
            command = our_python("cellmesh.scheduler.local_scheduler", *map(str, passed))
            process = begin(command, log, {**environment(), processes.SESSION_VARIABLE: session}, passed)
    except BaseException:
        for fd in fds:
            os.close(fd)
        session_dir.remove(directory)
        raise
    for fd in (config_reader, driver, log):
        os.close(fd)
    return Launch(session, directory, segment_fd, process, config_writer)


def begin(
    command: list[str], log: int, environment: dict[str, str], passed: tuple[int, ...] = (), folder: str | None = None
) -> subprocess.Popen[bytes]:
    """Start a process of ours that goes on by itself: it inherits `passed`, and writes to `log`."""
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        pass_fds=passed,
        start_new_session=True,  # because Jupyter interrupts, and kills, by process group
        env=environment,
        cwd=folder,
    )


def our_python(module: str, *arguments: str) -> list[str]:
    """The command that runs one of cellmesh's modules as a process."""
    # -P: a file in the notebook's folder that is called like a module must not be imported by our own processes.
    return [sys.executable, *_interpreter_flags(), "-P", "-m", module, *arguments]


def _interpreter_flags() -> list[str]:
    return vars(subprocess)["_args_from_interpreter_flags"]()  # private, and what multiprocessing uses


def environment() -> dict[str, str]:
    """The environment of such a process: it finds cellmesh where this one has."""
    environment = {name: value for name, value in os.environ.items() if name != processes.SESSION_VARIABLE}
    python_path = os.environ.get("PYTHONPATH", "")
    root = os.path.abspath(os.path.join(__file__, *[os.pardir] * 4))
    if root in sys.path and root not in [*python_path.split(os.pathsep), *_site_packages()]:
        # cellmesh was found by way of a sys.path that a fresh interpreter lacks
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [root, python_path]))
    return environment


def _site_packages() -> list[str]:
    site = sys.modules.get("site")  # absent after `python -S`, and then in the new process too
    return site.getsitepackages() if site is not None else []
