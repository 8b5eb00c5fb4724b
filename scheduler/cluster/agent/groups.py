"""Placement groups with bundles on several machines.

A group is a thing of its home's segment (objstore/core/tasks/placement.h). What cannot be reserved there as a whole, or
is to be spread, the agent asks the head for (`WantGroup`), and every bundle has a lease then. Bundles on other nodes
are reserved by their agents, each as a group of that segment that goes with the client of this node. When all have said
so, `Client.assign` tells the home's segment where they are, and it reserves its own. Tasks of the group go to the
machines that have its bundles, as many as there is room for; when one of those is lost, its bundles are asked for
again.

`Groups` is the home's side, one for each agent; what lies between it and one other node is in `peer.bundles`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from ....objstore._core import BUNDLE_COMING, BUNDLE_NOWHERE, PLACEMENT_MODES
from .. import messages
from .events import WantGroup

if TYPE_CHECKING:
    from ....objstore._core import Client, Group
    from ..peer.peer import Peer

AGAIN_S = 2.0  # after a node has not given what the head has granted there


class GroupKey(Struct, frozen=True):
    """Some bundles of a group that are wanted together; `attempt`: how often they have been asked for."""

    number: int
    attempt: int


class Wish(Struct):
    """What has become of such bundles. `nodes`: where they are, once granted; `open_at`: nodes that have not reserved
    theirs yet."""

    key: GroupKey
    indexes: tuple[int, ...]
    nodes: dict[int, int] = {}
    open_at: set[int] = set()
    is_done: bool = False

    def on(self, node: int) -> list[int]:
        return [index for index, at in self.nodes.items() if at == node]


class Groups:
    """The groups of this session some of whose bundles are, or are to be, where the head says.

    Parameters
    ----------
    client : Client
        The agent's.
    me : int
        This node.
    want : callable (WantGroup)
        Asks the head; `placed` takes the answer.
    peer : callable (node) -> Peer or None
        What there is with another node.
    guarded : callable (node, function, ...) -> object
        Calls a function that tells another node something; None where that cannot be, and `lost` has been called then.
    """

    def __init__(
        self,
        client: Client,
        me: int,
        want: Callable[[WantGroup], None],
        peer: Callable[[int], Peer | None],
        guarded: Callable[..., object],
    ) -> None:
        self._client, self._me, self._want, self._peer, self._guarded = client, me, want, peer, guarded
        self._rows: dict[int, Group] = {}  # by their numbers
        self._wishes: dict[GroupKey, Wish] = {}
        self._n_attempts = 0
        self._again: dict[int, float] = {}  # number -> not before

    def look(self, now: float) -> None:
        """See what groups there are, and ask for what is nowhere."""
        self._rows = {row.number: row for row in self._client.groups()}
        for wish in list(self._wishes.values()):
            if wish.key.number not in self._rows or (
                not wish.is_done and self._nowhere(wish.key.number) != wish.indexes
            ):
                self._withdraw(wish)  # the group has gone; or there was room at home; or more of it was lost
        open_ones = {wish.key.number for wish in self._wishes.values() if not wish.is_done}
        for number in self._rows.keys() - open_ones:
            indexes = self._nowhere(number)
            if indexes and now >= self._again.get(number, now):
                self._ask(number, indexes)
        self._again = {number: at for number, at in self._again.items() if number in self._rows and at > now}

    @property
    def deadline(self) -> float:
        """When to look again, whatever happens; seconds, monotonic."""
        return min(self._again.values(), default=float("inf"))

    def placed(self, key: GroupKey, leases: tuple[messages.GrantedLease, ...], now: float) -> None:
        """The head has granted the bundles of a wish, in their order."""
        self.look(now)  # the group may have gone, and with it the object that describes it
        wish = self._wishes.get(key)
        if wish is None or wish.is_done:
            return
        wish.nodes = {index: lease.node for index, lease in zip(wish.indexes, leases, strict=True)}
        wish.open_at = set(wish.nodes.values()) - {self._me}
        row = self._rows[key.number]
        bundles, mode = row.bundles, PLACEMENT_MODES[row.mode]
        for node in list(wish.open_at):
            peer = self._peer(node)
            wanted = {index: bundles[index].amounts for index in wish.on(node)}
            if peer is None or not self._guarded(node, peer.bundles.ask, key.number, row.about, wanted, mode):
                self._withdraw(wish, now + AGAIN_S)
                return
        self._settle(wish)

    def heard(self, node: int, number: int, indexes: list[int], given: bool, now: float) -> None:
        """A node has reserved bundles, or will not."""
        for wish in [wish for wish in self._wishes.values() if wish.key.number == number and node in wish.open_at]:
            if wish.on(node) != indexes:
                continue  # of a wish before
            if not given:
                self._withdraw(wish, now + AGAIN_S)
                return
            wish.open_at.discard(node)
            self._settle(wish)

    def lost(self, node: int) -> None:
        """What was there is no more; the segment knows."""
        for wish in [wish for wish in self._wishes.values() if node in wish.nodes.values()]:
            wish.nodes = {index: at for index, at in wish.nodes.items() if at != node}
            if not wish.is_done or not wish.nodes:
                self._withdraw(wish)

    def _nowhere(self, number: int) -> tuple[int, ...]:
        return tuple(index for index, bundle in enumerate(self._rows[number].bundles) if bundle.place == BUNDLE_NOWHERE)

    def _ask(self, number: int, indexes: tuple[int, ...]) -> None:
        self._n_attempts += 1
        row = self._rows[number]
        wish = Wish(GroupKey(number, self._n_attempts), indexes)
        self._wishes[wish.key] = wish
        taken = {node for other in self._wishes.values() if other.key.number == number for node in other.nodes.values()}
        avoid = tuple(taken) if PLACEMENT_MODES[row.mode] == "STRICT_SPREAD" else ()
        self._want(
            WantGroup(wish.key, tuple(row.bundles[i].amounts for i in indexes), PLACEMENT_MODES[row.mode], avoid)
        )

    def _settle(self, wish: Wish) -> None:
        """Once all have reserved theirs, the segment is told."""
        if wish.open_at:
            return
        where = [BUNDLE_NOWHERE] * len(self._rows[wish.key.number].bundles)
        for index, node in wish.nodes.items():
            peer = self._peer(node) if node != self._me else None
            if node == self._me:
                where[index] = BUNDLE_COMING
            elif peer is not None:
                where[index] = peer.remote_node.index + 1
        wish.is_done = self._client.assign(wish.key.number, where)
        if not wish.is_done:
            self._withdraw(wish)

    def _withdraw(self, wish: Wish, again: float | None = None) -> None:
        """It is not wanted any more; it is asked for again, if the segment still wants it, not before `again`."""
        if self._wishes.pop(wish.key, None) is None:
            return
        for node in set(wish.nodes.values()) - {self._me}:
            peer = self._peer(node)
            if peer is not None:
                self._guarded(node, peer.bundles.release, wish.key.number, wish.on(node))
        if again is not None:
            self._again[wish.key.number] = again
        self._want(WantGroup(wish.key, ()))
