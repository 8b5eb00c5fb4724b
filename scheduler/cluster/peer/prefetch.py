"""Arguments of tasks that are about to run are brought before a worker asks for them.

A guess, so it is made only where it costs nothing: for the first tasks of the line, a few values at a time,
into unused memory; nothing goes to disk for it. What a worker wants is asked for at once, whatever else is
under way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import zip_longest
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .peer import Peer

MOST_BYTES = 64 << 20  # under way, from all nodes; one value may be larger if it is the only one
MOST_TASKS = 32  # of each other node, the first ones
USED = 0.5  # up to this share of the store is filled by guesses


def prefetch(peers: Collection[Peer], stats: Callable[[], dict[str, int]]) -> None:
    """Begin to bring what the next tasks of others need. To be called after the peers have looked. `stats`: the
    client's."""

    def source_of(slot: int) -> Peer | None:
        return next((peer for peer in peers if slot in peer.transfers.elsewhere), None)

    lines = [peer.tasks_in.upcoming(MOST_TASKS, lambda slot: source_of(slot) is not None) for peer in peers]
    if not any(lines):
        return
    coming = sum(peer.transfers.n_coming for peer in peers)
    now = stats()
    room = int(now["capacity_bytes"] * USED) - now["used_bytes"]
    for turn in zip_longest(*lines):  # the first task of each node, then the second ones
        for slots in turn:
            for slot in slots or ():
                source = source_of(slot)
                size = source.transfers.size(slot) if source is not None else 0
                if source is None or not size:
                    continue
                if (coming and coming + size > MOST_BYTES) or size > room:
                    return
                if source.transfers.guess(slot):
                    coming += size
                    room -= size
