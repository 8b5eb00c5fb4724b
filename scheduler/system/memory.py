"""How much memory is in use: of the machine, of this process's control groups, and of single processes."""

from __future__ import annotations

import os

from msgspec import Struct

from . import cgroups

# By controller: what is used, the limit, and in memory.stat what could be given up at once.
GROUP_FILES = (
    ("", "memory.current", "memory.max", "inactive_file"),
    ("memory", "memory.usage_in_bytes", "memory.limit_in_bytes", "total_inactive_file"),
)
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Usage(Struct, frozen=True):
    """Memory in use and what there is, bytes."""

    used: int
    total: int


def usages(root: str = cgroups.ROOT, proc: str = "/proc") -> list[Usage]:
    """The machine's memory, and that of each cgroup (version 1 or 2) with a limit that this process is in."""
    membership = f"{proc}/self/cgroup"
    found = [_machine(proc)]
    for controller, *names in GROUP_FILES:
        found += [_group(folder, *names) for folder in cgroups.folders(controller, root, membership)]
    return [usage for usage in found if usage is not None and usage.total > 0]


def _machine(proc: str) -> Usage | None:
    values = _fields(f"{proc}/meminfo")
    total, available = values.get("MemTotal:"), values.get("MemAvailable:")
    return Usage((total - available) << 10, total << 10) if total and available is not None else None


def _group(folder: str, current: str, limit: str, cache: str) -> Usage | None:
    used, total = _number(f"{folder}/{current}"), _number(f"{folder}/{limit}")
    if used is None or total is None or total >= os.sysconf("SC_PHYS_PAGES") * _PAGE:
        return None  # no limit: version 1 writes that as a huge number
    return Usage(used - _fields(f"{folder}/memory.stat").get(cache, 0), total)


def _number(path: str) -> int | None:
    text = cgroups.text(path)
    return int(text) if text.isdigit() else None


def _fields(path: str) -> dict[str, int]:
    words = (line.split() for line in cgroups.text(path).splitlines())
    return {w[0]: int(w[1]) for w in words if len(w) >= 2 and w[1].isdigit()}


def private_bytes(pid: int) -> int:
    """What a process holds beside shared memory, which is the store's."""
    pages = cgroups.text(f"/proc/{pid}/statm").split()  # size, resident, shared ...; empty if it has gone
    return (int(pages[1]) - int(pages[2])) * _PAGE if pages else 0
