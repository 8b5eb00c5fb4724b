"""Ends a task before the operating system ends a process: which task, when to look, and what the error says.

The kernel might choose the notebook, whose state cannot be computed again. This module never does. It chooses among the
tasks that may be run again, takes the parent with the most of them, and ends the newest (`choose`). The task is
retried; that does not count as one of its retries for other deaths.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from msgspec import Struct

from ..system import cgroups
from ..system.memory import Usage, private_bytes
from ..system.sizes import in_bytes

# The share of the memory beyond which a task is ended. The variable sets another share; 1 turns the monitor off.
VARIABLE, THRESHOLD = "CELLMESH_MEMORY_THRESHOLD", 0.95
# How fast processes can fill memory at most, for the time until the next look, and that time's limits.
FILL_BYTES_PER_S = 4 << 30
LOOK_MIN_S, LOOK_MAX_S = 0.1, 2.0
# While nothing of the session runs, others fill the memory: what begins meanwhile waits at most so long for a look.
REST_LOOK_MIN_S = 1.0
# Ending a process that holds less does not help.
LEAST_VICTIM_BYTES = 32 << 20
# A process that has been killed needs a moment to give its memory back.
PAUSE_S = 0.5
N_LISTED = 5


class Candidate(Struct, frozen=True):
    """A worker that runs something. `parent`: the task that submitted its task, 0: a driver;
    `task`: its own number, the higher the newer."""

    pid: int
    task: int
    parent: int
    retriable: bool
    is_actor: bool
    used: int


# ---- deciding: numbers in, numbers out
def choose(candidates: Sequence[Candidate]) -> Candidate | None:
    """The worker to end: tasks before actors, what may be run again before the rest; the newest in the largest
    group."""
    worth = [c for c in candidates if c.used >= LEAST_VICTIM_BYTES]
    for of_kind in (
        [c for c in worth if not c.is_actor and c.retriable],
        [c for c in worth if not c.is_actor],
        [c for c in worth if c.is_actor and c.retriable],
        worth,
    ):
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


def next_look_s(usages: Sequence[Usage], share: float, at_rest: bool) -> float:
    """Seconds until the next look: for so long the memory lasts at least, unless the session is at rest."""
    least = REST_LOOK_MIN_S if at_rest else LOOK_MIN_S
    return min(LOOK_MAX_S, max(least, left(usages, share) / FILL_BYTES_PER_S))


def left(usages: Sequence[Usage], share: float) -> float:
    """Bytes until that share is used; a large number where nothing is known."""
    return min((share * u.total - u.used for u in usages), default=FILL_BYTES_PER_S * LOOK_MAX_S)


def is_short(usages: Sequence[Usage], share: float) -> Usage | None:
    """The memory that is used beyond its share, if any."""
    return next((u for u in usages if u.used > share * u.total), None) if share < 1 else None


# ---- telling
def report(victim: Candidate, name: str, short: Usage) -> list[str]:
    """Lines for the error: how much was used, and by which processes."""
    largest = sorted(
        ((private_bytes(int(pid)), int(pid)) for pid in os.listdir("/proc") if pid.isdigit()), reverse=True
    )
    lines = [
        f"{in_bytes(short.used)} of {in_bytes(short.total)} were in use; {name} used {in_bytes(victim.used)}. The "
        "largest processes:"
    ]
    return lines + [f"{in_bytes(used):>9}  pid {pid}  {_command(pid)}" for used, pid in largest[:N_LISTED]]


def _command(pid: int) -> str:
    text = cgroups.text(f"/proc/{pid}/cmdline").replace("\0", " ").strip()
    name = cgroups.text(f"/proc/{pid}/comm")
    return (name if name.startswith(("cellmesh", "cm:")) else text[:80] or name) or "?"
