"""The actor at which members of a group wait for each other, on one machine or several.

Made by the first member that comes to a barrier, and ended with the last that has been there. While members wait it
looks, by their names, whether the others live: so nobody waits for the dead, whoever else is there to notice.
"""

from __future__ import annotations

import asyncio

from ..session.current import current
from ..submit.actor import find_actor
from .on_death import OnDeath, answer

LOOKS_EVERY_S = 0.2


def meeting_name(member_name: str, rank: int) -> str:
    """What the actor is called at which a member of this name and rank meets the others."""
    return f"{member_name.removesuffix(f'[{rank}]')} barrier"


class _Round:
    """One meeting of all."""

    def __init__(self) -> None:
        self.arrived: set[int] = set()
        self.over = asyncio.Event()
        self.dead = -1  # the rank that it has failed for


class Meeting:
    """See the module.

    Parameters
    ----------
    names : list of str
        Of the members' actors, by rank.
    namespace : str
    on_death : {"fail", "restart", "shrink"}
    """

    def __init__(self, names: list[str], namespace: str, on_death: OnDeath) -> None:
        self._names, self._namespace = names, namespace
        self._on_death: OnDeath = on_death
        self._round: _Round | None = None
        self._seen: set[int] = set()  # who has come once, or was found: then nobody is still to be made

    async def arrive(self, rank: int) -> int:
        """Wait for all; -1, or the rank of a member that is dead."""
        if self._round is None or self._round.over.is_set():
            self._round = _Round()
        meeting = self._round
        meeting.arrived.add(rank)
        self._seen.add(rank)
        if len(meeting.arrived) == len(self._names):
            meeting.over.set()
        try:
            while not meeting.over.is_set():
                try:
                    await asyncio.wait_for(meeting.over.wait(), LOOKS_EVERY_S)
                except TimeoutError:
                    self._look(meeting)
        except asyncio.CancelledError:
            meeting.arrived.discard(rank)
            raise
        return meeting.dead

    async def waiting(self) -> list[int]:
        """The ranks that wait here just now."""
        meeting = self._round
        return sorted(meeting.arrived) if meeting is not None and not meeting.over.is_set() else []

    def _look(self, meeting: _Round) -> None:
        """Whether any of those that have not come is dead."""
        of = current()
        absent = [rank for rank in range(len(self._names)) if rank not in meeting.arrived]
        dead = [rank for rank in absent if find_actor(of, self._names[rank], self._namespace) is None]
        if not dead:
            return
        n_alive = len(self._names) - len(dead)
        if answer(self._on_death, "barrier", n_alive) == "raise":
            meeting.dead = dead[0]
            meeting.over.set()
        elif len(dead) == len(absent):
            meeting.over.set()
