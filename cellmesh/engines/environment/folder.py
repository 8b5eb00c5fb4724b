"""Where the folders and modules that a `runtime_env` names lie on a machine of an engine: on the session's own machine
in its folder, else in one for all of its processes there, which goes with the last of them.

    <runtime root>/environments-<session>/in-use       a lock that each of these processes holds, together
                                         /packages     what was unpacked, by content

What killed processes have left goes when another session begins to unpack there.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil

from ...scheduler.node import private_dir, session_dir

PREFIX, LOCK, REMOVED = "environments-", "in-use", ".removed"

_held: dict[str, int] = {}  # by folder: the lock


def of(session: str) -> str:
    """The folder of a session, which is there until this process ends."""
    if os.path.isdir(home := session_dir.of(session)):
        return home
    root = session_dir.runtime_root()
    folder = os.path.join(root, PREFIX + session)
    if folder not in _held:
        sweep(root)
        _held[folder] = hold(folder)
        atexit.register(_leave, folder, os.getpid())
    return folder


def sweep(root: str) -> None:
    """Remove what nobody holds."""
    for name in os.listdir(root):
        if name.startswith(PREFIX):
            remove_if_unused(os.path.join(root, name))


def hold(folder: str) -> int:
    """Make a folder that nobody removes until what this returns, a descriptor, is closed."""
    while True:
        private_dir.make(folder)
        path = os.path.join(folder, LOCK)
        try:
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(lock, fcntl.LOCK_SH)
        except FileNotFoundError:  # it has just been removed
            continue
        if _is_at(path, lock):
            return lock
        os.close(lock)  # it was removed while this waited


def remove_if_unused(folder: str) -> None:
    """Remove a folder that nobody holds."""
    path = os.path.join(folder, LOCK)
    try:
        lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:  # it is being made, or removed
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pass
    else:
        if folder.endswith(REMOVED):  # by somebody who was killed
            shutil.rmtree(folder, ignore_errors=True)
        elif _is_at(path, lock):
            removed = f"{folder}-{os.urandom(4).hex()}{REMOVED}"  # at once: nobody finds half of it
            os.rename(folder, removed)
            shutil.rmtree(removed)
    finally:
        os.close(lock)


def _is_at(path: str, lock: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(lock))
    except FileNotFoundError:
        return False


def _leave(folder: str, pid: int) -> None:
    if pid == os.getpid():  # and not a process that was forked off
        os.close(_held.pop(folder))
        remove_if_unused(folder)
