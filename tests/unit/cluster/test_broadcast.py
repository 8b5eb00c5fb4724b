"""The tree down which a large object goes: every node gets it, whichever others die, and its home sends it seldom."""

from __future__ import annotations

import random

from cellmesh.scheduler.cluster.peer.broadcast import FAN_OUT, HOME, Tree
from hypothesis import given, settings
from hypothesis import strategies as st

KEY = 5, 1


def sources(tree: Tree, nodes: range) -> dict[int, int]:
    return {node: tree.ask(KEY, node) for node in nodes}


def test_who_asks_at_the_same_time_gets_it_down_a_tree() -> None:
    found = sources(Tree(), range(1, 15))
    assert [list(found.values()).count(source) for source in range(7)] == [FAN_OUT] * 7
    assert found[1] == found[2] == HOME
    assert found[3] == 1 and found[4] == 2, "the shallowest first, and of them the one that serves least"


def test_who_has_it_serves_before_its_home_does() -> None:
    tree = Tree()
    assert tree.ask(KEY, 1) == HOME
    tree.has(KEY, 1)
    assert [tree.ask(KEY, node) for node in (2, 3, 4, 5)] == [1, 1, HOME, HOME]
    assert tree.ask(KEY, 6) == 2, "when both are busy, one that is getting it"
    tree.has(KEY, 2)
    assert tree.ask(KEY, 7) == 1, "has room again"


def test_who_has_been_asked_in_vain_serves_nobody_any_more() -> None:
    tree = Tree()
    tree.ask(KEY, 1)
    tree.has(KEY, 1)
    assert tree.ask(KEY, 2) == 1
    tree.failed(KEY, 2)
    assert tree.ask(KEY, 3) == HOME, "not the one that failed"
    tree.failed(KEY, 3)
    tree.has(KEY, 2)
    assert tree.ask(KEY, 4) == 2


def test_who_asks_once_more_is_served_by_the_home() -> None:
    tree = Tree()
    tree.ask(KEY, 1)
    tree.has(KEY, 1)
    tree.ask(KEY, 2)
    assert tree.ask(KEY, 1) == HOME and tree.ask(KEY, 2) == HOME


def test_who_comes_back_does_not_wait_for_whom_it_served_before() -> None:
    tree = Tree()
    found = sources(tree, range(1, 8))
    served = next(node for node, source in found.items() if source == 3)
    tree.left(KEY, 3)
    assert tree.ask(KEY, 3) != served, "which may still wait for 3"


def test_nothing_is_kept_of_what_nobody_has() -> None:
    tree = Tree()
    sources(tree, range(1, 10))
    for node in range(1, 5):
        tree.left(KEY, node)
    for node in range(5, 10):
        tree.lost(node)
    assert not len(tree)


class Net:
    """Nodes that get an object piece by piece from the node that the tree says, and from the home when that fails.
    `has`: how many pieces each has."""

    PIECES = 3

    def __init__(self) -> None:
        self.tree = Tree()
        self.has: dict[int, int] = {}
        self.source: dict[int, int] = {}
        self.n_from_home = 0

    def ask(self, node: int) -> None:
        if node not in self.has:
            self.source[node], self.has[node] = self.tree.ask(KEY, node), 0

    def carry(self, node: int) -> None:
        """A piece comes, if it is there."""
        if self.has.get(node, self.PIECES) == self.PIECES:
            return
        source = self.source[node]
        if source != HOME and source not in self.has:
            self.tree.failed(KEY, node)
            self.source[node] = HOME
        elif source == HOME or self.has[source] > self.has[node]:
            self.n_from_home += source == HOME
            self.has[node] += 1
            if self.has[node] == self.PIECES:
                self.tree.has(KEY, node)

    def lose(self, node: int, released: bool) -> None:
        if self.has.pop(node, None) is not None:
            self.tree.left(KEY, node) if released else self.tree.lost(node)

    def finish(self) -> None:
        for _ in range(3 * self.PIECES * (1 + len(self.has))):
            for node in list(self.has):
                self.carry(node)


NODE = st.integers(1, 12)
STEPS = st.lists(st.tuples(st.sampled_from(["ask", "carry", "lose", "release"]), NODE), max_size=120)


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_everybody_gets_it_whoever_goes(steps: list[tuple[str, int]]) -> None:
    net = Net()
    for what, node in steps:
        if what == "ask":
            net.ask(node)
        elif what == "carry":
            net.carry(node)
        else:
            net.lose(node, what == "release")
        for copy in net.tree._objects.get(KEY, {}).values():
            served = [other.node for other in net.tree._objects[KEY].values() if other.source is copy]
            assert copy.n_served >= len(served), "counted at least"
            assert copy.node == HOME or len(served) <= FAN_OUT
    net.finish()
    assert all(n == Net.PIECES for n in net.has.values()), "nobody waits for ever"
    for node in list(net.has):
        net.lose(node, True)
    assert not len(net.tree)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 200), st.integers(0, 1 << 32))
def test_the_home_sends_few_however_many_ask(n: int, seed: int) -> None:
    net, dice = Net(), random.Random(seed)
    for node in range(1, n + 1):
        net.ask(node)
        for other in range(1, node + 1):
            if dice.random() < 0.2:
                net.carry(other)
    net.finish()
    assert all(pieces == Net.PIECES for pieces in net.has.values())
    assert net.n_from_home <= Net.PIECES * (2 * FAN_OUT + n // 4)
