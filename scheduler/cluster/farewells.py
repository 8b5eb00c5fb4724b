"""With which members this node has ended what was between the two, and how far they are with that. Pure.

Who ends it says so, and the other one answers in kind. Messages arrive in order, so all that comes after the other
one's farewell belongs to what begins anew, and nothing of before can be taken for it. Each may begin again once it has
both said and heard its farewell; who has told what cannot be is parted with for good.
"""
from __future__ import annotations

from msgspec import Struct

from .messages import Farewell


class Parting(Struct):
    """`is_said`: ours to the other one; `is_heard`: one from there; `for_good`: one of them is."""
    farewell: Farewell
    for_good: bool
    is_said: bool = False
    is_heard: bool = False


class Farewells:
    """Of one node to others; `node in farewells`: nothing goes to it, and nothing from it counts."""

    def __init__(self) -> None:
        self._partings: dict[int, Parting] = {}

    def __contains__(self, node: int) -> bool:
        return node in self._partings

    def begin(self, node: int, farewell: Farewell) -> None:
        """What was between this node and that one has ended."""
        self._partings[node] = Parting(farewell, farewell.for_good)

    def owed(self) -> list[tuple[int, Farewell]]:
        """What is to be said still, and to whom: there may have been no room for it."""
        return [(node, parting.farewell) for node, parting in self._partings.items() if not parting.is_said]

    def said(self, node: int) -> bool:
        """It is on its way. Whether the two may begin anew."""
        self._partings[node].is_said = True
        return self._is_over(node)

    def heard(self, node: int, farewell: Farewell) -> bool:
        """The other one's has come. Whether the two may begin anew."""
        parting = self._partings[node]
        parting.is_heard, parting.for_good = True, parting.for_good or farewell.for_good
        return self._is_over(node)

    def forget(self, node: int) -> None:
        """It is no member any more."""
        self._partings.pop(node, None)

    def _is_over(self, node: int) -> bool:
        parting = self._partings[node]
        is_over = parting.is_said and parting.is_heard and not parting.for_good
        if is_over:
            del self._partings[node]
        return is_over
