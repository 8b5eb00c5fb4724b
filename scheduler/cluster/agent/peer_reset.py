"""Resets: with which members this node has ended what was between the two, and how far they are with that. Pure.

The node that ends it says so, and the other answers in kind (decision 62). Messages arrive in order, so all that comes
after the other's reset belongs to what begins again, and nothing from before can be taken for it. Each may begin again
once it has both said and heard a reset. A node that has told what cannot be is reset for good.
"""

from __future__ import annotations

from msgspec import Struct

from ..messages import Reset


class Pending(Struct):
    """`is_said`: ours to the other node; `is_heard`: one from there; `for_good`: one of them is."""

    reset: Reset
    for_good: bool
    is_said: bool = False
    is_heard: bool = False


class PeerResets:
    """Resets of one node with others; while `node in resets`, nothing goes to it and nothing from it counts."""

    def __init__(self) -> None:
        self._pending: dict[int, Pending] = {}

    def __contains__(self, node: int) -> bool:
        return node in self._pending

    def begin(self, node: int, reset: Reset) -> None:
        """What was between this node and that one has ended."""
        self._pending[node] = Pending(reset, reset.for_good)

    def owed(self) -> list[tuple[int, Reset]]:
        """What is to be said still, and to whom: there may have been no room for it."""
        return [(node, pending.reset) for node, pending in self._pending.items() if not pending.is_said]

    def said(self, node: int) -> bool:
        """It is on its way. Whether the two may begin again."""
        self._pending[node].is_said = True
        return self._is_over(node)

    def heard(self, node: int, reset: Reset) -> bool:
        """The other's has come. Whether the two may begin again."""
        pending = self._pending[node]
        pending.is_heard, pending.for_good = True, pending.for_good or reset.for_good
        return self._is_over(node)

    def forget(self, node: int) -> None:
        """It is no member any more."""
        self._pending.pop(node, None)

    def _is_over(self, node: int) -> bool:
        pending = self._pending[node]
        is_over = pending.is_said and pending.is_heard and not pending.for_good
        if is_over:
            del self._pending[node]
        return is_over
