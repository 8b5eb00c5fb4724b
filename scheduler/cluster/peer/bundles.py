"""The bundles of placement groups that one node has reserved for the other: a part of a `peer.Peer`. What all nodes
together have of the groups of this node is in `agent.groups`.

A bundle here of another node's group is held by a group of this segment, which goes with the client of that node
(objstore/core/tasks/placement.h).
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from ....objstore._core import FAILURE_ACTOR_UNPLACED, FAILURE_UNPLACED, RESOURCE_UNIT, StoreError
from ..messages import GroupBundle, Reserve, Reserved, Shares, Spread, Unreserve
from .objects import ForeignFault

if TYPE_CHECKING:
    from ....objstore._core import Client
    from .peer import Peer


class Released(Exception):
    """A bundle is not reserved any more."""


class Pool(NamedTuple):
    """Where a task takes its resources from, in this segment, as `Client.resource_class` takes it."""

    group: int
    bundle: int
    captures: bool


ON_NODE = Pool(0, -1, False)


class Hosted(Struct):
    """Bundles of a group of the peer. `number`: of the group that holds them in this segment."""

    number: int
    group: int
    indexes: list[int]
    told: bool = False


class Bundles:
    """The bundles that one node has reserved for the other.

    Parameters
    ----------
    peer : Peer
    client : Client
        The agent's.

    Attributes
    ----------
    heard : list of Reserved
        News for `Groups`.
    """

    def __init__(self, peer: Peer, client: Client) -> None:
        self._peer: Peer = weakref.proxy(peer)
        self._client = client
        self._asked: set[tuple[int, int]] = set()  # (group, index) there, asked for
        self._hosted: list[Hosted] = []
        self._numbers: dict[int, int] = {}  # group here -> of the peer; what failed with it is told of later
        self.heard: list[Reserved] = []

    # ---- of this node, there
    @property
    def has_asked(self) -> bool:
        """Whether tasks of groups of this node may run there."""
        return bool(self._asked)

    def ask(self, group: int, about: int, bundles: dict[int, Shares], mode: Spread) -> bool:
        """Have bundles of a group reserved there, which the object `about` describes. False: there is none any more."""
        self._peer.objects.begin_message()
        try:
            described = self._peer.objects.tell(about)
        except ValueError:
            return False
        self._asked.update((group, index) for index in bundles)
        self._peer.send(Reserve(group, described, list(bundles), list(bundles.values()), mode))
        return True

    def release(self, group: int, indexes: list[int]) -> None:
        """Those bundles are not wanted any more."""
        self._asked.difference_update((group, index) for index in indexes)
        self._peer.send(Unreserve(group, indexes))

    def of_task(self, task: int) -> GroupBundle | None:
        """Where a task of this node, that has just been taken to run there, takes its resources from."""
        found = self._peer.remote_node.bundle(task) if self._asked else None
        return None if found is None else GroupBundle(*found)

    def reserved(self, message: Reserved) -> None:
        """The peer says how it went."""
        if not {(message.group, index) for index in message.indexes} <= self._asked:
            return  # released meanwhile; the two have crossed
        self.heard.append(message)

    # ---- of the peer, here
    def reserve(self, message: Reserve) -> None:
        """The peer wants some here."""
        about = self._peer.objects.resolve(message.about)
        known = {index for hosted in self._hosted if hosted.group == message.group for index in hosted.indexes}
        if len(message.indexes) != len(message.bundles) or known.intersection(message.indexes):
            raise ForeignFault(f"it wants bundles of group {message.group} twice")
        try:
            bundles = [{name: share / RESOURCE_UNIT for name, share in bundle.items()} for bundle in message.bundles]
            number = None if about is None else self._peer.remote_node.host_group(bundles, about)
        except ValueError as error:
            raise ForeignFault(str(error)) from error
        except StoreError:
            number = None
        if number is None:
            self._peer.send(Reserved(message.group, message.indexes, given=False))
            return
        self._hosted.append(Hosted(number, message.group, message.indexes))
        self._numbers[number] = message.group

    def unreserve(self, message: Unreserve) -> None:
        """The peer does not want them any more."""
        for hosted in [hosted for hosted in self._hosted if hosted.group == message.group]:
            if not set(hosted.indexes) <= set(message.indexes):
                continue
            self._hosted.remove(hosted)
            self._client.remove_placement(hosted.number)

    def look(self) -> None:
        """Tell what has been reserved."""
        for hosted in self._hosted:
            if not hosted.told and self._client.placement_reserved(hosted.number):
                hosted.told = True
                self._peer.send(Reserved(hosted.group, hosted.indexes))

    def pool(self, bundle: GroupBundle | None) -> Pool:
        """What a task of the peer takes its resources from, by the bundle that it names.

        Raises
        ------
        Released
            The peer has released it meanwhile.
        """
        if bundle is None:
            return ON_NODE
        for hosted in self._hosted:
            if hosted.group == bundle.group and bundle.index in hosted.indexes:
                return Pool(hosted.number, hosted.indexes.index(bundle.index), bundle.captures)
        if bundle.group in self._numbers.values():
            raise Released
        raise ForeignFault(f"it names a bundle of group {bundle.group}, of which it has reserved none")

    def detail(self, code: int, detail: int) -> int:
        """The detail of a failed value, as the peer knows it."""
        return self._numbers.get(detail, detail) if code in (FAILURE_UNPLACED, FAILURE_ACTOR_UNPLACED) else detail
