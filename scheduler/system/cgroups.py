"""Linux control groups: the folders of this process's groups, and the files in them."""

from __future__ import annotations

import os
from collections.abc import Iterator

ROOT, MEMBERSHIP = "/sys/fs/cgroup", "/proc/self/cgroup"


def folders(controller: str, root: str = ROOT, membership: str = MEMBERSHIP) -> Iterator[str]:
    """From this process's group up to the root, because a limit anywhere above counts too.

    Parameters
    ----------
    controller : str
        Of version 1, such as "memory"; "" for version 2, which has one tree for all of them.
    """
    for line in text(membership).splitlines():
        _, controllers, group = line.split(":", 2)
        if controller not in controllers.split(","):  # version 2 has no controllers here, and `controller` is "" then
            continue
        top = os.path.join(root, controllers) if controller else str(root)
        folder = os.path.join(top, group.strip("/")).rstrip("/")
        while folder != os.path.dirname(top):
            yield folder
            folder = os.path.dirname(folder)


def text(path: str) -> str:
    """The content of a file; empty if there is none."""
    try:
        with open(path, errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
