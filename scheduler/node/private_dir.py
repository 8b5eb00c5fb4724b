"""Folders that only this user may look into."""

from __future__ import annotations

import os
import stat


class UnsafeDirectory(PermissionError):
    """Another user could have prepared the folder, so nothing is written there."""


def user_cache() -> str:
    """The folder in which programs of this user keep what they can make again; it may not be there."""
    return os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")


def make_with_parents(path: str) -> None:
    """Make a folder, and those on the way to it, of mode 0700; those that are there keep their mode.

    `os.makedirs` gives the folders on the way what the umask leaves.

    Raises
    ------
    OSError
        It cannot be made, or something else is there.
    """
    missing = [os.path.abspath(path)]
    while not os.path.exists(parent := os.path.dirname(missing[-1])):
        missing.append(parent)
    for folder in reversed(missing):
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            if not os.path.isdir(folder):  # nor has another process been quicker
                raise


def make(path: str) -> None:
    """Make a folder of mode 0700, unless it is there.

    Raises
    ------
    UnsafeDirectory
        If it exists and belongs to another user or is open to others.
    """
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise UnsafeDirectory(
            f"{path} must be a folder of yours with mode 0700, which it is not; remove it or set "
            "TMPDIR to another place"
        )
