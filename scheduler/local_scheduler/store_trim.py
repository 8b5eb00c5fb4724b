"""Gives memory of the store that is not used back to the operating system, after a peak but not between two peaks; and
says how much may be fetched ahead of need.

Used pages are worth keeping: a fresh page costs ten times the copy into it. So the pages that were in use within the
last seconds stay, and a few more. Giving back 2 GB takes 0.3 s of CPU, once, ten seconds after the peak. Sooner it
would not be less, and would be in vain where another peak comes.

This is a pure state machine like `core`; the shell asks the segment and performs.
"""

from __future__ import annotations

from msgspec import Struct

KEEP_BYTES = 256 << 20  # stays in any case, but no more than an eighth of the store
QUIET_S = 10.0  # what was not needed for so long will not be missed


class IdleMemory(Struct):
    """Decides how much to give back.

    Attributes
    ----------
    capacity : int, bytes
        Of the store.
    deadline : float, seconds, optional
        When to look again; None: when the segment says that more than `keep` bytes lie idle.
    """

    capacity: int
    deadline: float | None = None

    @property
    def keep(self) -> int:
        """Idle bytes that always stay."""
        return min(KEEP_BYTES, self.capacity // 8)

    def look(self, now: float, idle: int, needed: int) -> int:
        """Decide what to give back.

        Parameters
        ----------
        now : float, seconds
            Monotonic.
        idle : int, bytes
            In free chunks whose pages are there.
        needed : int, bytes
            By how much the use was higher than now at some time since the last look.

        Returns
        -------
        int, bytes
            To give back now.
        """
        if self.deadline is not None and now < self.deadline:
            return 0
        surplus = 0 if self.deadline is None else max(0, idle - max(self.keep, needed))
        self.deadline = now + QUIET_S if idle - surplus > self.keep else None
        return surplus

    def ahead(self, free: int) -> int:
        """How much may be fetched before it is needed, in bytes.

        Parameters
        ----------
        free : int, bytes
            What is left of the machine's memory, and of the cgroup's.
        """
        return min(self.keep, max(0, free) // 4)
