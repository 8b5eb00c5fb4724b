"""Numbers of cells, translated at the border between nodes: the node and the cell that began what runs here. Pure.

Tasks know the cell that they come from by a number, which their own tasks inherit. Numbers of several machines would
meet in one segment, so each that comes from elsewhere gets one of this node's own; what a task prints finds its way
back by it.
"""

from __future__ import annotations

from collections import OrderedDict

from ...ipc.messages import FOREIGN_ORIGIN

FIRST, MOST = FOREIGN_ORIGIN, 100_000  # those of cells are lower; the oldest are forgotten


class CellNumbers:
    """Numbers given to (node, number there)."""

    def __init__(self) -> None:
        self._given: OrderedDict[tuple[int, int], int] = OrderedDict()
        self._of: dict[int, tuple[int, int]] = {}
        self._next = FIRST

    def here(self, node: int, number: int) -> int:
        """This node's number for a cell there; 0, which is no cell, stays 0 only here: its tasks belong to that
        node, too."""
        key = node, number
        given = self._given.get(key)
        if given is None:
            given = self._given[key] = self._next
            self._of[given] = key
            self._next = FIRST if self._next == 2 * FIRST - 1 else self._next + 1
            if len(self._given) > MOST:
                del self._of[self._given.popitem(last=False)[1]]
        else:
            self._given.move_to_end(key)
        return given

    def told(self, node: int, number: int) -> tuple[int, bool]:
        """What to call a cell towards a node: its own number for it, and True, if it is a cell of that node; else
        this node's number."""
        where, number_there = self._of.get(number, (0, 0))
        return (number_there, True) if where == node else (number, False)

    def there(self, number: int) -> tuple[int, int] | None:
        """The node and its number; None: it is a cell of this node."""
        return self._of.get(number)
