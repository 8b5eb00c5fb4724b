"""Which nodes have a copy of which large object of this node, and which node gets it from which: down a tree, so that a
value for a hundred nodes leaves its home a few times. Pure; the agent keeps one `Tree` for all its peers (decision 58).

The home alone decides. A node that asks is sent to one that has the object already, to the home itself as long as that
sends it to few, or to one that is getting it, which hands on what it has. It may ask the home again at any time, and is
then served by it, so whatever becomes of the others costs time and nothing else.
"""

from __future__ import annotations

from msgspec import Struct

# Nodes that get one object from the same one at a time.
FAN_OUT = 2
HOME = 0

Key = tuple[int, int]  # slot and generation


class Copy(Struct, eq=False):
    """What a node has of an object. `source`: the copy that it gets it from; None: it has all of it. `is_gone`: the
    node has let go of it, though others may not know yet; what it gets next is another copy."""

    node: int
    source: Copy | None = None
    is_gone: bool = False
    is_sound: bool = True  # no node has been there in vain
    n_served: int = 0  # nodes that get it from there now

    @property
    def depth(self) -> int:
        """Steps to where all of it is."""
        return 0 if self.source is None else 1 + self.source.depth

    @property
    def comes(self) -> bool:
        """Whether what it has not is on its way, by copies that are there. Who got it from one that is gone may get it
        from that node's next one, which must not wait for it in turn."""
        return not self.is_gone and (self.source is None or self.source.comes)

    def get_from(self, source: Copy | None) -> None:
        if self.source is not None:
            self.source.n_served -= 1
        self.source = source
        if source is not None:
            source.n_served += 1

    def cost(self) -> tuple[int, int, int]:
        """The copy that costs least is to be asked."""
        return 1 if self.node == HOME else 0 if self.source is None else 2, self.depth, self.n_served


class Tree:
    """The copies of each object, by node; the home's own is one of them."""

    def __init__(self) -> None:
        self._objects: dict[Key, dict[int, Copy]] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def ask(self, key: Key, node: int) -> int:
        """The node wants the object; returns the node that it is to get it from. A node that is known already has lost
        its copy, and is served by the home."""
        copies = self._objects.setdefault(key, {HOME: Copy(HOME)})
        source = copies[HOME]
        if node in copies:
            _drop(copies.pop(node))
        else:
            free = [copy for copy in copies.values() if copy.is_sound and copy.n_served < FAN_OUT and copy.comes]
            source = min(free, key=Copy.cost, default=source)
        copies[node] = Copy(node)
        copies[node].get_from(source)
        return source.node

    def failed(self, key: Key, node: int) -> None:
        """The node has been to its source in vain, and gets the rest from the home."""
        copies = self._objects.get(key, {})
        copy = copies.get(node)
        if copy is not None and copy.source is not None and copy.source.node != HOME:
            copy.source.is_sound = False
            copy.get_from(copies[HOME])

    def has(self, key: Key, node: int) -> None:
        """The node has all of it."""
        copy = self._objects.get(key, {}).get(node)
        if copy is not None:
            copy.get_from(None)

    def left(self, key: Key, node: int) -> None:
        """The node has let go of it."""
        copies = self._objects.get(key, {})
        copy = copies.pop(node, None)
        if copy is not None:
            _drop(copy)
            if len(copies) == 1:
                del self._objects[key]

    def lost(self, node: int) -> None:
        """The node is gone."""
        for key in [key for key, copies in self._objects.items() if node in copies]:
            self.left(key, node)


def _drop(copy: Copy) -> None:
    copy.get_from(None)
    copy.is_gone = True
