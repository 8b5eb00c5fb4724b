"""Where a session keeps the objects that its memory has no room for, and how such folders disappear.

    <parent>/cellmesh-objects-<uid>/session-<id>/<a file for each object>      everything of mode 0700, files 0600
                                                 cellmesh-scratch-<pid>-<random>       a temporary folder of a process

The session's own folder often lies in memory, so this is another one; the session's folder has a link to it, so that
both are removed together. A folder may be left without such a link when the machine went down. The local scheduler
holds a lock on the folder as long as it lives, so a folder without the lock can be removed.
"""

from __future__ import annotations

import os
import time

from . import private_dir

# Between making its folder and locking it, a session looks dead. That takes milliseconds; folders younger than this are
# not swept.
NEWBORN_S = 60.0
SCRATCH = "cellmesh-scratch-"  # so begin the names of temporary folders, which go on with the process, a dash and more
SHARE_OF_FREE = 0.5  # of the disk, that objects may take
IN_MEMORY = ("tmpfs", "ramfs")


def default_parent() -> str:
    """A folder on a real disk: the temporary one, else /var/tmp, else the user's cache; "" if all of them are
    memory.
    """
    candidates = [os.environ.get(variable, "") for variable in ("TMPDIR", "TEMP", "TMP")]
    candidates += ["/tmp", "/var/tmp", private_dir.user_cache()]
    return next(
        (
            c
            for c in candidates
            if os.path.isabs(c) and os.path.isdir(c) and os.access(c, os.W_OK | os.X_OK) and not is_in_memory(c)
        ),
        "",
    )


def is_in_memory(path: str) -> bool:
    """Whether a folder's file system keeps its files in memory; one that is not known is taken for a disk."""
    device = os.stat(path).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open("/proc/self/mountinfo", errors="replace") as mounts:
            kinds = [line.split(" - ", 1)[1].split()[0] for line in mounts if line.split(" ", 3)[2] == number]
    except OSError:  # no /proc
        return False
    return bool(kinds) and kinds[-1] in IN_MEMORY


def create(parent: str, name: str) -> str:
    """Make the folder `name` of a new session; folders of dead sessions beside it are removed.

    Raises
    ------
    OSError
        It cannot be made, or another user could have prepared it (`UnsafeDirectory`).
    """
    root = os.path.join(parent, f"cellmesh-objects-{os.getuid()}")
    private_dir.make(root)
    sweep(root)
    path = os.path.join(root, name)
    os.mkdir(path, 0o700)
    return path


def default_limit(path: str) -> int:
    """How many bytes of objects may lie there, unless the user says otherwise."""
    disk = os.statvfs(path)
    return int(disk.f_bavail * disk.f_frsize * SHARE_OF_FREE)


def hold(path: str) -> int:
    """Say that the session is alive until the descriptor that is returned is closed, at the latest with this process.

    Raises
    ------
    OSError
        It is held already, or no such folder.
    """
    import fcntl  # imported late: making the folder does not need it

    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise
    return fd


def still_held(fd: int, path: str) -> int:
    """The descriptor by which the folder is held: another one if the folder was removed and made again."""
    try:
        if os.path.samestat(os.fstat(fd), os.stat(path)):
            return fd
        held = hold(path)
    except OSError:  # it is gone, and has not been needed since; or it is gone again just now
        return fd
    os.close(fd)
    return held


def remove(path: str) -> None:
    """Remove a session's folder; one that has gone, or goes at this moment, is fine."""
    import shutil  # late, as there is no hurry at the end

    shutil.rmtree(path, ignore_errors=True)


def sweep(root: str) -> None:
    """Remove the folders of dead sessions."""
    for name in os.listdir(root):
        path = os.path.join(root, name)
        if _is_dead(path):
            remove(path)


def _is_dead(path: str) -> bool:
    try:
        if time.time() - os.stat(path).st_mtime < NEWBORN_S:
            return False
        os.close(hold(path))
    except OSError:  # held, gone, or another user's
        return False
    return True
