"""Placement groups with bundles on several machines.

A group is a thing of its home's segment (objstore/core/placement.h). What cannot be reserved there as a whole, or is to
be spread, the agent asks the head for (`WantGroup`), and every bundle has a lease then. Bundles on other nodes are
reserved by their agents, each as a group of that segment that goes with the client of this node. When all have said
so, `Client.assign` tells the home's segment where they are, and it reserves its own. Tasks of the group go to the
machines that have its bundles, as many as there is room for; when one of those is lost, its bundles are asked for
again.

`Groups` is the home's side, one for each agent; `Bundles` is what lies between it and one other node, in both
directions.
"""
from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, get_args

from msgspec import Struct, field

from . import messages
from .member import WantGroup
from .messages import GroupBundle, Reserve, Reserved, Shares, Unreserve
from .objects import ForeignFault
from .policy import Mode

if TYPE_CHECKING:
    from ...objstore import _core
    from .exchange import Exchange

MODES: tuple[Mode, ...] = get_args(Mode)  # as the segment counts them
NOWHERE, SOON_HERE = -1, -2     # of `Client.groups`
AGAIN_S = 2.0                   # after a node has not given what the head has granted there
UNIT = 10_000                   # of amounts in messages
# Of failed values: their detail is the number of a group of the segment.
FAILURE_UNPLACED, FAILURE_ACTOR_UNPLACED = 9, 10


class Released(Exception):  # noqa: N818  (nothing is wrong)
    """A bundle is not reserved any more."""


class Place(NamedTuple):
    """Where a task takes its resources from, in this segment, as `Client.resource_class` takes it."""
    group: int
    bundle: int
    captures: bool


ON_NODE = Place(0, -1, False)


class GroupKey(Struct, frozen=True):
    """Some bundles of a group that are wanted together; `attempt`: the how manieth time."""
    number: int
    attempt: int


class Wish(Struct):
    """What has become of such bundles. `nodes`: where they are, once granted; `open_at`: nodes that have not reserved
    theirs yet."""
    key: GroupKey
    indexes: tuple[int, ...]
    nodes: dict[int, int] = field(default_factory=dict)
    open_at: set[int] = field(default_factory=set)
    is_done: bool = False

    def on(self, node: int) -> list[int]:
        return [index for index, at in self.nodes.items() if at == node]


class Groups:
    """The groups of this session some of whose bundles are, or are to be, where the head says.

    Parameters
    ----------
    client : _core.Client
        The agent's.
    me : int
        This node.
    want : callable (WantGroup)
        Of the head; answered by `placed`.
    exchange : callable (node) -> Exchange or None
        What there is with another node.
    guarded : callable (node, function, ...) -> object
        Calls a function that tells another node something; None where that cannot be, and `lost` has been called then.
    """

    def __init__(self, client: _core.Client, me: int, want: Callable[[WantGroup], None],
                 exchange: Callable[[int], Exchange | None], guarded: Callable[..., object]) -> None:
        self._client, self._me, self._want, self._exchange, self._guarded = client, me, want, exchange, guarded
        self._rows: dict[int, tuple[int, int, list[tuple[Shares, int]]]] = {}  # number -> (mode, object, bundles)
        self._wishes: dict[GroupKey, Wish] = {}
        self._n_attempts = 0
        self._again: dict[int, float] = {}              # number -> not before

    def look(self, now: float) -> None:
        """See what groups there are, and ask for what is nowhere."""
        self._rows = {number: (mode, about, bundles) for number, mode, about, bundles in self._client.groups()}
        for wish in list(self._wishes.values()):
            if wish.key.number not in self._rows or not wish.is_done and self._nowhere(wish.key.number) != wish.indexes:
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

    def placed(self, key: GroupKey, places: tuple[messages.Place, ...], now: float) -> None:
        """The head has granted the bundles of a wish, in their order."""
        self.look(now)  # the group may have gone, and with it the object that describes it
        wish = self._wishes.get(key)
        if wish is None or wish.is_done:
            return
        wish.nodes = {index: place.node for index, place in zip(wish.indexes, places, strict=True)}
        wish.open_at = set(wish.nodes.values()) - {self._me}
        _, about, bundles = self._rows[key.number]
        for node in list(wish.open_at):
            exchange = self._exchange(node)
            wanted = {index: bundles[index][0] for index in wish.on(node)}
            if exchange is None or not self._guarded(node, exchange.bundles.ask, key.number, about, wanted):
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
        return tuple(index for index, (_, where) in enumerate(self._rows[number][2]) if where == NOWHERE)

    def _ask(self, number: int, indexes: tuple[int, ...]) -> None:
        self._n_attempts += 1
        mode, _, bundles = self._rows[number]
        wish = Wish(GroupKey(number, self._n_attempts), indexes)
        self._wishes[wish.key] = wish
        taken = {node for other in self._wishes.values() if other.key.number == number for node in other.nodes.values()}
        avoid = tuple(taken) if MODES[mode] == "STRICT_SPREAD" else ()
        self._want(WantGroup(wish.key, tuple(bundles[index][0] for index in indexes), MODES[mode], avoid))

    def _settle(self, wish: Wish) -> None:
        """Once all have reserved theirs, the segment is told."""
        if wish.open_at:
            return
        where = [NOWHERE] * len(self._rows[wish.key.number][2])
        for index, node in wish.nodes.items():
            exchange = self._exchange(node) if node != self._me else None
            if node == self._me:
                where[index] = SOON_HERE
            elif exchange is not None:
                where[index] = exchange.proxy.index + 1
        wish.is_done = self._client.assign(wish.key.number, where)
        if not wish.is_done:
            self._withdraw(wish)

    def _withdraw(self, wish: Wish, again: float | None = None) -> None:
        """It is not wanted any more; it is asked for again, if the segment still wants it, not before `again`."""
        if self._wishes.pop(wish.key, None) is None:
            return
        for node in set(wish.nodes.values()) - {self._me}:
            exchange = self._exchange(node)
            if exchange is not None:
                self._guarded(node, exchange.bundles.release, wish.key.number, wish.on(node))
        if again is not None:
            self._again[wish.key.number] = again
        self._want(WantGroup(wish.key, ()))


class Hosted(Struct):
    """Bundles of a group of theirs. `number`: of the group that holds them in this segment."""
    number: int
    group: int
    indexes: list[int]
    told: bool = False


class Bundles:
    """The bundles that one node has reserved for the other.

    Parameters
    ----------
    exchange : Exchange
    client : _core.Client
        The agent's.

    Attributes
    ----------
    heard : list of Reserved
        News for `Groups`.
    """

    def __init__(self, exchange: Exchange, client: _core.Client) -> None:
        from ...objstore import _core
        self._exchange: Exchange = weakref.proxy(exchange)
        self._client, self._StoreError = client, _core.StoreError
        self._ours: set[tuple[int, int]] = set()        # (group, index) there, asked for
        self._hosted: list[Hosted] = []
        self._numbers: dict[int, int] = {}              # group here -> theirs; what failed with it is told of later
        self.heard: list[Reserved] = []

    # ---- of ours, there
    @property
    def has_ours(self) -> bool:
        """Whether tasks of our groups may run there."""
        return bool(self._ours)

    def ask(self, group: int, about: int, bundles: dict[int, Shares]) -> bool:
        """Have bundles of a group reserved there, which the object `about` describes. False: there is none any more."""
        self._exchange.objects.begin_message()
        try:
            described = self._exchange.objects.tell(about)
        except ValueError:
            return False
        self._ours.update((group, index) for index in bundles)
        self._exchange.send(Reserve(group, described, list(bundles), list(bundles.values())))
        return True

    def release(self, group: int, indexes: list[int]) -> None:
        """They are not wanted any more."""
        self._ours.difference_update((group, index) for index in indexes)
        self._exchange.send(Unreserve(group, indexes))

    def of_task(self, task: int) -> GroupBundle | None:
        """Where a task of ours, that has just been taken to run there, takes its place."""
        found = self._exchange.proxy.bundle(task) if self._ours else None
        return None if found is None else GroupBundle(*found)

    def reserved(self, message: Reserved) -> None:
        """They say how it went."""
        if not {(message.group, index) for index in message.indexes} <= self._ours:
            return  # released meanwhile; the two have crossed
        self.heard.append(message)

    # ---- of theirs, here
    def reserve(self, message: Reserve) -> None:
        """They want some here."""
        about = self._exchange.objects.resolve(message.about)
        known = {index for hosted in self._hosted if hosted.group == message.group for index in hosted.indexes}
        if len(message.indexes) != len(message.bundles) or known.intersection(message.indexes):
            raise ForeignFault(f"it wants bundles of group {message.group} twice")
        try:
            bundles = [{name: share / UNIT for name, share in bundle.items()} for bundle in message.bundles]
            number = None if about is None else self._exchange.proxy.host_group(bundles, about)
        except ValueError as error:
            raise ForeignFault(str(error)) from error
        except self._StoreError:
            number = None
        if number is None:
            self._exchange.send(Reserved(message.group, message.indexes, given=False))
            return
        self._hosted.append(Hosted(number, message.group, message.indexes))
        self._numbers[number] = message.group

    def unreserve(self, message: Unreserve) -> None:
        """They do not want them any more."""
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
                self._exchange.send(Reserved(hosted.group, hosted.indexes))

    def place(self, bundle: GroupBundle | None) -> Place:
        """Group and bundle of this segment that a task of theirs names, and whether it captures.

        Raises
        ------
        Released
            They have released it meanwhile.
        """
        if bundle is None:
            return ON_NODE
        for hosted in self._hosted:
            if hosted.group == bundle.group and bundle.index in hosted.indexes:
                return Place(hosted.number, hosted.indexes.index(bundle.index), bundle.captures)
        if bundle.group in self._numbers.values():
            raise Released
        raise ForeignFault(f"it names a bundle of group {bundle.group}, of which it has reserved none")

    def detail(self, code: int, detail: int) -> int:
        """The detail of a failed value, as they know it."""
        return self._numbers.get(detail, detail) if code in (FAILURE_UNPLACED, FAILURE_ACTOR_UNPLACED) else detail

