"""Ends a task before the operating system ends something: who is chosen, when to look, and what is told.

The kernel's own choice might be the notebook, whose state nobody can compute again; ours never is. It is the newest
task, of those that may be run again, of the one that has started most (`choose`); it is retried, apart from the retries
that it has for other deaths.
"""
from __future__ import annotations

import os
from collections.abc import Sequence

from msgspec import Struct

from .. import cgroups
from ..sizes import in_bytes

# Of the memory; beyond it a task is ended. Another share in this variable, 1 turns the monitor off.
VARIABLE, THRESHOLD = "CELLMESH_MEMORY_THRESHOLD", 0.95
# How fast processes can fill memory at most, for the time until the next look, and that time's limits.
FILL_BYTES_PER_S = 4 << 30
LOOK_MIN_S, LOOK_MAX_S = 0.1, 2.0
# Ending a process that holds less does not help.
LEAST_VICTIM_BYTES = 32 << 20
# What has been ended needs a moment to give its memory back.
PAUSE_S = 0.5
N_LISTED = 5
# By controller: what is used, the limit, and in memory.stat what could be given up at once.
GROUP_FILES = (("", "memory.current", "memory.max", "inactive_file"),
               ("memory", "memory.usage_in_bytes", "memory.limit_in_bytes", "total_inactive_file"))
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Usage(Struct, frozen=True):
    """Memory in use and what there is, bytes."""
    used: int
    total: int


class Candidate(Struct, frozen=True):
    """A worker that runs something. `parent`: who submitted it; `task`: its number, the higher the newer."""
    pid: int
    task: int
    parent: int
    retriable: bool
    is_actor: bool
    used: int


# ---- deciding: numbers in, numbers out
def choose(candidates: Sequence[Candidate]) -> Candidate | None:
    """Whom to end: tasks before actors, those that may be run again before others, of the largest group the newest."""
    worth = [c for c in candidates if c.used >= LEAST_VICTIM_BYTES]
    for of_kind in ([c for c in worth if not c.is_actor and c.retriable], [c for c in worth if not c.is_actor],
                    [c for c in worth if c.is_actor and c.retriable], worth):
        if of_kind:
            size = {c.parent: sum(other.parent == c.parent for other in of_kind) for c in of_kind}
            return max(of_kind, key=lambda c: (size[c.parent], c.task))
    return None


def threshold() -> float:
    """The share of the memory beyond which a task is ended."""
    try:
        value = float(os.environ.get(VARIABLE, ""))
    except ValueError:
        return THRESHOLD
    return value if 0 < value <= 1 else THRESHOLD


def next_look_s(usages: Sequence[Usage], share: float) -> float:
    """How long memory lasts at least."""
    return min(LOOK_MAX_S, max(LOOK_MIN_S, left(usages, share) / FILL_BYTES_PER_S))


def left(usages: Sequence[Usage], share: float) -> float:
    """Bytes until that share is used; where nothing can be known, more than matters."""
    return min((share * u.total - u.used for u in usages), default=FILL_BYTES_PER_S * LOOK_MAX_S)


def is_short(usages: Sequence[Usage], share: float) -> Usage | None:
    """The memory that is used beyond its share, if any."""
    return next((u for u in usages if u.used > share * u.total), None) if share < 1 else None


# ---- looking
def usages(root: str = cgroups.ROOT, proc: str = "/proc") -> list[Usage]:
    """Of the machine, and of each cgroup (version 1 or 2) with a limit that this process is in."""
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
    if used is None or total is None or total >= os.sysconf("SC_PHYS_PAGES") * _PAGE:  # version 1 writes "none" as a huge number
        return None
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


def report(victim: Candidate, name: str, short: Usage) -> list[str]:
    """What the error says: how much was used, and by whom."""
    largest = sorted(((private_bytes(int(pid)), int(pid)) for pid in os.listdir("/proc") if pid.isdigit()), reverse=True)
    lines = [f"{in_bytes(short.used)} of {in_bytes(short.total)} were in use; {name} used {in_bytes(victim.used)}. The largest processes:"]
    return lines + [f"{in_bytes(used):>9}  pid {pid}  {_command(pid)}" for used, pid in largest[:N_LISTED]]


def _command(pid: int) -> str:
    text = cgroups.text(f"/proc/{pid}/cmdline").replace("\0", " ").strip()
    name = cgroups.text(f"/proc/{pid}/comm")
    return (name if name.startswith(("cellmesh", "cm:")) else text[:80] or name) or "?"
