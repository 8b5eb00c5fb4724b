"""`python -m cellmesh.scheduler.local_scheduler LISTEN SEGMENT DRIVER CONFIG`: the first process that a session starts.

It is started before the driver knows what to tell it: the configuration comes through a pipe.

It forks the zygote at once, while it has neither threads nor anything to do with the segment, and goes on as local
scheduler. What only one of the two needs is imported after the fork, so that both get on at the same time.
"""

import os
import signal
import socket
import sys

from ...objstore._core import set_process_name
from ..ipc import transport
from ..ipc.messages import FromZygote, SessionConfig, ToZygote
from ..node import session_dir
from ..system import processes


def main(listen_fd: int, segment_fd: int, driver_fd: int, config_fd: int) -> None:
    """Run a session's processes; see `server.run` for the descriptors, which were inherited from the driver."""
    for fd in (listen_fd, segment_fd, driver_fd, config_fd):
        os.set_inheritable(fd, False)
    with os.fdopen(config_fd, "rb") as pipe:
        told = pipe.read()
    if not told:  # the driver has ended
        session_dir.remove(os.path.dirname(socket.socket(fileno=listen_fd).getsockname()))
        return
    config = SessionConfig.from_bytes(told)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the stop button is for the driver
    set_process_name("cellmesh-sched")
    processes.adopt_orphans()
    here, there = transport.pair(FromZygote, ToZygote)
    parent = os.getpid()
    zygote = os.fork()
    if zygote == 0:
        for fd in (listen_fd, driver_fd):
            os.close(fd)
        here.close()
        from ..worker.zygote import main as run_zygote

        run_zygote(there, segment_fd, config, parent)
        os._exit(0)
    there.close()
    from .server import run

    run(config, listen_fd, segment_fd, driver_fd, zygote, here)


main(*(int(argument) for argument in sys.argv[1:]))
