"""Arguments of tasks that are about to run are brought before a worker asks for them.

A guess, so it is made only where it costs nobody anything: for the first tasks of the line, a few values at a time,
into memory that nobody uses; nothing goes to disk for it. What a worker wants is asked for at once, whatever else is
under way.
"""
from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import zip_longest
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .exchange import Exchange

MOST_BYTES = 64 << 20          # under way, from all nodes; one value may be larger if it is the only one
MOST_TASKS = 32                # of each other node: those that come first
USED = 0.5                     # up to this share of the store is filled by guesses


def prefetch(exchanges: Collection[Exchange], stats: Callable[[], dict[str, int]]) -> None:
    """Begin to bring what the next tasks of others need. To be called after the exchanges have looked. `stats`: the
    client's."""
    def source_of(slot: int) -> Exchange | None:
        return next((exchange for exchange in exchanges if slot in exchange.transfers.elsewhere), None)

    lines = [exchange.accepted.upcoming(MOST_TASKS, lambda slot: source_of(slot) is not None) for exchange in exchanges]
    if not any(lines):
        return
    coming = sum(exchange.transfers.n_coming for exchange in exchanges)
    now = stats()
    room = int(now["capacity_bytes"] * USED) - now["used_bytes"]
    for turn in zip_longest(*lines):   # of each node's tasks the first, then the second ones
        for slots in turn:
            for slot in slots or ():
                source = source_of(slot)
                size = source.transfers.size(slot) if source is not None else 0
                if source is None or not size:
                    continue
                if coming and coming + size > MOST_BYTES or size > room:
                    return
                if source.transfers.guess(slot):
                    coming += size
                    room -= size
