"""What Linux offers for keeping processes together, as far as Python's `os` does not."""

from __future__ import annotations

import os
import re
import select
import signal
import time
from collections.abc import Callable, Iterator

from ...objstore._core import become_subreaper, set_death_signal

# An environment variable that every process of a session inherits, tasks' own child processes included. It finds those
# that outlived everybody who could have known them.
SESSION_VARIABLE = "CELLMESH_SESSION"
LOOKER = "cellmesh-look"  # what commands call themselves that attach to a session to look at it
# Of multiprocessing, loky and joblib, by their command lines; of torch, by its program.
TRACKERS = re.compile(rb"\b(resource|semaphore)_tracker import main\b|^[^\0]*\btorch_shm_manager\0")


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends; ends it now if that has happened already.

    The kernel watches the *thread* that forked, so this is sound only under parents that fork in their main thread.
    """
    set_death_signal(signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of all descendants whose parent ends ("subreaper"): none of them can get lost."""
    become_subreaper()


def memory_file(name: str, data: bytes) -> int:
    """A descriptor of an anonymous file with that content, for what a command line should not hold."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC)
    with os.fdopen(os.dup(fd), "wb") as file:
        file.write(data)
    return fd


def read_all(fd: int) -> bytes:
    """The whole content of a file, wherever its offset stands."""
    return os.pread(fd, os.fstat(fd).st_size, 0)


def kill_quietly(pid: int, signum: int = signal.SIGKILL) -> None:
    """Signal a process that may be gone already."""
    try:
        os.kill(pid, signum)
    except ProcessLookupError:
        pass


def end_politely(pid: int, timeout_s: float) -> bool:
    """Send SIGTERM to a child, and wait for its end without reaping it; whether it has ended in time."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        kill_quietly(pid, signal.SIGTERM)
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))
    finally:
        os.close(pidfd)


def is_tracker(pid: int) -> bool:
    """Whether a process is there to remove what those that it serves leave in the file system.

    It ends by itself when they have, and it has removed it. Who kills it leaves that behind.
    """
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return TRACKERS.search(file.read()) is not None
    except OSError:
        return False


def kill_group(pid: int) -> None:
    """SIGKILL to the process group that `pid` leads, but for trackers; a group that is gone, or never was, is fine."""
    try:
        os.killpg(pid, signal.SIGSTOP)  # all at once, so that none forks while they are looked at
    except ProcessLookupError:
        return
    for member, stat in _stats():
        if int(stat[GROUP]) == pid:
            kill_quietly(member, signal.SIGCONT if is_tracker(member) else signal.SIGKILL)


def reap(leads_group: Callable[[int], bool]) -> Iterator[tuple[int, int]]:
    """Collect children that have ended: their pids and codes (-signal or exit status). Never waits.

    Of those that `leads_group`, what is left of the process group is killed, but for trackers. It holds the number:
    the group cannot be anybody else's.
    """
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None:
            return
        leads = leads_group(ended.si_pid)
        os.waitpid(ended.si_pid, 0)
        if leads:
            kill_group(ended.si_pid)  # of most there is nothing, and then nothing is looked for
        yield ended.si_pid, ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


PARENT, GROUP = 1, 2  # in what `_stats` gives


def _stats() -> Iterator[tuple[int, list[bytes]]]:
    """Every process of the machine: its pid, and what `/proc/PID/stat` says behind its name."""
    for pid in _pids():
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                stat = file.read()
        except OSError:  # gone meanwhile
            continue
        yield pid, stat[stat.rindex(b")") + 2 :].split()


def children(parent: int) -> list[int]:
    """Pids of the living children of `parent`, zombies included. Looks at every process of the machine."""
    return [pid for pid, stat in _stats() if int(stat[PARENT]) == parent]


def wakes(pid: int, without_thread: int = 0) -> int:
    """How often the process's threads have been given a CPU so far, but for one of them; 0 if it has gone."""
    n = 0
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            if int(thread) != without_thread:
                with open(f"/proc/{pid}/task/{thread}/status") as file:
                    n += sum(int(line.split()[1]) for line in file if "ctxt_switches" in line)
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return n


def name_of(pid: int) -> str:
    """What the process calls itself; "" if it has gone."""
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().strip()
    except OSError:
        return ""


def command_of(pid: int) -> str:
    """Its command line; "" if it has ended."""
    import shlex

    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return shlex.join(file.read().decode(errors="replace").rstrip("\0").split("\0"))
    except OSError:
        return ""


def notebook_of(pid: int) -> str:
    """What Jupyter told a kernel when it started it, "" for other processes."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            environment = file.read().split(b"\0")
    except OSError:  # it is ending
        return ""
    marker = b"JPY_SESSION_NAME="
    path = next((entry[len(marker) :] for entry in environment if entry.startswith(marker)), b"")
    return os.path.basename(path.decode(errors="replace"))


def session_processes(session: str) -> list[int]:
    """Pids of all processes that were started in a session, wherever they have moved since, without the caller."""
    marker = f"{SESSION_VARIABLE}={session}".encode()
    found: list[int] = []
    for pid in _pids():
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                environment = file.read()
        except OSError:  # gone, or another user's
            continue
        if pid != os.getpid() and marker in environment.split(b"\0"):
            found.append(pid)
    return found


def kill_session(session: str, timeout_s: float) -> list[int]:
    """SIGKILL everything that belongs to a session until nothing is left; returns what still is after `timeout_s`.

    Trackers have half of that to end by themselves.
    """
    return _kill_until_gone(lambda: session_processes(session), timeout_s)


def kill_children(timeout_s: float) -> list[int]:
    """As `kill_session`, all children of this process, which adopts orphans, and theirs as they become ours; reaps
    them."""

    def left() -> list[int]:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return []
        return children(os.getpid())

    return _kill_until_gone(left, timeout_s)


def _kill_until_gone(look: Callable[[], list[int]], timeout_s: float) -> list[int]:
    # Dying takes the kernel a moment and says nothing to those who are not the parent, hence the looking again.
    begun = time.monotonic()
    pause = 0.0005
    while left := look():
        now = time.monotonic()
        for pid in left:
            if now > begun + timeout_s / 2 or not is_tracker(pid):
                kill_quietly(pid)
        if now > begun + timeout_s:
            break
        time.sleep(pause)
        pause = min(pause * 2, 0.02)
    return left
