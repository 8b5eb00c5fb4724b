"""`python -m cellmesh.scheduler.cluster.head.supervisor FOLDER`: the head of a cluster, and the process that starts it
again.

Two processes. The first one holds the folder's lock, forks the second, and waits: if that dies, it forks another one,
which is the next life of the head. It imports what the second needs, so that a life begins at once, and does nothing
else, so little can go wrong with it; the second dies with it. The second serves, see `server`.

    SIGTERM     the head ends; its cluster does not, and goes on when the head is started again
    `End`       the cluster ends, and its folder goes
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import NoReturn

from ...local_scheduler.policy import backoff_s
from ...node import launch, private_dir
from ...system import processes
from ..net.keys import Cluster, KeyFileError
from .exit_codes import ENDED, STOPPED, UNUSABLE

LOG_NAME = "head.log"
MAX_LOG_BYTES = 16 << 20
STEADY_S = 60.0  # one that has lived so long did not fail at its start


def start(cluster: Cluster) -> subprocess.Popen[bytes]:
    """Start the head of a cluster on this machine, which goes on when this process ends. Does not wait until it
    serves."""
    path = os.path.join(cluster.path, LOG_NAME)
    if os.path.exists(path) and os.path.getsize(path) > MAX_LOG_BYTES:
        os.replace(path, f"{path}.old")
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        return launch.begin(launch.our_python(__name__, cluster.path), log, launch.environment(), folder="/")
    finally:
        os.close(log)


def log_tail(cluster: Cluster) -> str:
    """The last that the head has said."""
    try:
        with open(os.path.join(cluster.path, LOG_NAME), errors="replace") as log:
            return log.read()[-2000:].strip()
    except FileNotFoundError:
        return ""


def supervise(cluster: Cluster) -> int:
    """Have the head served until its cluster ends or a SIGTERM; the exit status."""
    from .server import run

    signals = {signal.SIGTERM, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)  # they are waited for, not handled
    parent, n_failures, stopping = os.getpid(), 0, False
    while True:
        begun = time.monotonic()
        child = os.fork()
        if child == 0:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
            _serve(run, cluster, parent)
        while not (ended := os.waitpid(child, os.WNOHANG))[0]:
            if signal.sigwait(signals) == signal.SIGTERM:
                stopping = True
                processes.kill_quietly(child, signal.SIGTERM)
        code = os.waitstatus_to_exitcode(ended[1])
        if code == ENDED:
            cluster.forget()
        if stopping or code in (ENDED, STOPPED, UNUSABLE):
            return UNUSABLE if code == UNUSABLE else 0
        n_failures = 1 if time.monotonic() - begun > STEADY_S else n_failures + 1
        how = f"signal {-code}" if code < 0 else f"exit status {code}"
        pause_s = backoff_s(n_failures)
        print(f"the head has ended with {how}; its next life begins in {pause_s:g} s", file=sys.stderr, flush=True)
        if signal.sigtimedwait({signal.SIGTERM}, pause_s) is not None:
            return 0


def _serve(run: Callable[[Cluster], int], cluster: Cluster, parent: int) -> NoReturn:
    code = 1
    try:
        processes.die_with_parent(parent)
        code = run(cluster)
    except BaseException as error:  # the last place that can say it
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        sys.stderr.flush()
        os._exit(code)


def main(arguments: list[str]) -> int:
    """Entry of the first process."""
    os.umask(0o077)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if len(arguments) != 1:
        print(
            "usage: python -m cellmesh.scheduler.cluster.head.supervisor FOLDER. The folder holds the head's address "
            "and keys: without keys nothing is ever offered on a network. `cellmesh start --head` makes one",
            file=sys.stderr,
        )
        return UNUSABLE
    try:
        cluster = Cluster(arguments[0])
        cluster.head_pair()
    except (OSError, private_dir.UnsafeDirectory, KeyFileError) as error:
        print(f"a head does not start without its keys: {error}", file=sys.stderr)
        return UNUSABLE
    if cluster.hold_head() is None:
        print(f"the head of {cluster.name} runs already, as process {cluster.head_pid()}", file=sys.stderr)
        return UNUSABLE
    return supervise(cluster)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
