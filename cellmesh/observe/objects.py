"""The largest objects of the store, found a page at a time."""

from __future__ import annotations

from collections.abc import Callable
from heapq import nlargest
from typing import TYPE_CHECKING

from .tables import Row

if TYPE_CHECKING:
    from ..objstore._core import Client

PAGE = 4096  # objects looked at in one go


def largest_objects(
    client: Client, limit: int, place: str = "", passes: Callable[[Row], bool] = lambda o: True
) -> list[Row]:
    """What the client tells of the largest objects that pass. Of ten million no list is made: a page at a time, and
    once there are `limit` of them only larger ones are asked for."""
    kept: list[Row] = []
    first = at_least = 0
    while page := client.objects(PAGE, at_least, first, place):
        first = page[-1]["slot"] + 1
        kept += filter(passes, page)
        if len(kept) >= 2 * limit:
            kept = nlargest(limit, kept, key=_size)
            at_least = _size(kept[-1]) + 1
    return nlargest(limit, kept, key=_size)


def _size(o: Row) -> int:
    return o["size"]
