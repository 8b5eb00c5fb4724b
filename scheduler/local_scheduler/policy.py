"""How many workers to keep, to start and to retire: numbers in, numbers out. `core` has the mechanism."""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct

# Client slots of a segment are 256; drivers and the scheduler need some too.
MAX_WORKERS = 240
# Workers kept idle on a machine with very many cores: further ones take milliseconds to fork when there is work.
MAX_KEPT = 16
# An idle worker beyond those kept leaves after this time: long enough to survive the pause between two cells.
IDLE_S = 30.0
# How often a pool above its usual size is looked at for such workers; at its usual size it never is.
LOOK_S = 15.0
# Waiting after the n-th start in a row that failed: 0.1 s, 0.2 s, 0.4 s ... up to this.
MAX_BACKOFF_S = 30.0
FIRST_BACKOFF_S = 0.1
# So many failed starts in a row are told to the drivers: one alone may be chance (a kill), three are a cause.
N_FAILURES_TOLD = 3
# Tasks fail once all processes have waited for so long, with tasks that need a further one: it may yet come to an end
# by a timeout of `get`.
ALL_WAIT_S = 1.0
# Restarts of the zygote forgiven within RESTART_WINDOW_S; beyond, something kills it on purpose or at once.
N_RESTARTS, RESTART_WINDOW_S = 3, 60.0


class Limits(Struct, frozen=True):
    """What bounds the pool of one node.

    Attributes
    ----------
    n_keep : int
        Workers to have even when nothing is to be done, so that the first task finds one.
    max_workers : int
        Processes at most, actors' included.
    max_starting : int
        Starts under way at the same time; more would only take the cores from each other.
    """

    n_keep: int
    max_workers: int
    max_starting: int


def limits_for(n_cpus: float) -> Limits:
    """Limits for a node that offers `n_cpus` (its resource "CPU", a fraction or zero is fine)."""
    whole = max(1, math.ceil(n_cpus))
    return Limits(n_keep=min(whole, MAX_KEPT), max_workers=MAX_WORKERS, max_starting=min(max(2, whole), 32))


def n_to_start(
    limits: Limits, *, n_wanted: int, n_plain: int, n_alive: int, n_starting: int, n_blocked: int = 0, n_busy: int = 0
) -> int:
    """Workers to start now: as many as tasks are waiting for, or to have `n_keep` beside those that serve actors.

    Parameters
    ----------
    n_wanted : int
        Tasks that could run at once if there were workers for them, beyond those idle.
    n_plain : int
        Workers that serve no actor, starting ones included.
    n_alive : int
        All workers, starting ones included.
    n_starting : int
        Starts under way.
    n_blocked, n_busy : int
        Workers that run a task which waits, and those that run something which does not.
    """
    if n_alive >= limits.max_workers // 2 and 2 * n_blocked >= n_alive and n_wanted:
        # Tasks without CPUs that wait for each other take all processes there are: the rest is for the deepest, one
        # at a time, so that a recursion ends.
        return int(not n_busy and not n_starting and n_alive < limits.max_workers)
    missing = max(n_wanted - n_starting, limits.n_keep - n_plain)
    return max(0, min(missing, limits.max_workers - n_alive, limits.max_starting - n_starting))


def to_retire(limits: Limits, idle_since: Mapping[int, float], now: float) -> list[int]:
    """Indices of the idle workers to let go. Those that have been idle longest go; `n_keep` stay."""
    surplus = len(idle_since) - limits.n_keep
    longest = sorted(idle_since, key=lambda index: (idle_since[index], index))
    return [index for index in longest[: max(0, surplus)] if now - idle_since[index] >= IDLE_S]


def backoff_s(n_failures: int) -> float:
    """How long to wait after that many failed starts in a row."""
    return min(MAX_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** (min(n_failures, 20) - 1))


def tells_failure(n_failures: int) -> bool:
    """Whether this failure is worth a notice: the third, and then at each doubling."""
    times = n_failures / N_FAILURES_TOLD
    return times >= 1 and math.log2(times).is_integer()
