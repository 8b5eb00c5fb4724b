"""Places on other machines that an agent holds: what to ask for, what to send where, what to give back. Pure; `member`
keeps them.

**Sending.** A lease is a number of tasks that may be under way on a node at a time. While they are short, waiting for
the answer to each would leave the node idle, so a lease may have as many more under way as end there within `AHEAD_S`:
none when tasks take long, whole batches when they take microseconds; and one for each place where large arguments
travel along, so that they come while the task before runs. Nodes where arguments lie come first; where tasks wait
although they have places (their node's own work has taken the room) no more are sent, and those that wait are taken
back when there is room elsewhere, which is asked for.

**Giving back.** Places that were not needed for `LINGER_S` go back, sooner if others wait; those called back as soon as
they are empty, and so those of tasks that would rather run somewhere else: the next one is to have the choice. Between
nodes the head sees to equal shares; between the shapes of one node that node, by the same rule: one that has waited in
vain for `policy.RECALL_AFTER_S` gets places of those that hold more.

**Asking.** One ask a shape, for as many places as tasks wait, without those that home will have begun within
`PATIENCE_S` at the rate at which tasks end there: bursts that a node can swallow itself are nobody else's business. It
is repeated only when that number has doubled or halved, so a flood of n tasks costs the head some log n messages.
"""
from __future__ import annotations

from collections.abc import Container, Hashable, Iterable

from msgspec import Struct, field

from . import policy
from .messages import MAX_ASKS, MAX_BUNDLES, MAX_HELD, Ask, AskGroup, Grant, Held, Place, Return, Strategy, ToHead

# of work ahead of a node beyond its places: several round trips, little enough to be fair
AHEAD_S = 0.02
RATE_S = 0.01                  # over how long at least the rate at which tasks end is measured
RATE_LASTS_S = 1.0             # older than that, the rate at home says nothing about what comes
LINGER_S = 0.1                 # a place that was not needed for so long goes back
WANTED_LINGER_S = 0.03         # the same while others wait: the next task of a loop still finds it
MAX_ASK = 10_000               # places asked for at a time, of one shape
MAX_IN_FLIGHT = 4096           # tasks under way to one node: its credit, whatever the leases say
PATIENCE_S = 0.05              # what home will begin within this time waits for it: a small part of what people notice
AVOID_S = 5.0                  # a node that could not be reached is not asked for again so soon
MAX_NAMED = 64                 # nodes in `near` and `avoid` of an ask

Shape = Hashable
Group = Hashable


class Demand(Struct, frozen=True):
    """`n` tasks of a shape wait that have no room at home, or may not run there. `near`: bytes of their large
    arguments, by node; `brings_much`: there are some that travel. `shape` is whatever the shell tells them by; its demand
    and strategy never change."""
    shape: Shape
    demand: dict[str, int]
    n: int
    strategy: Strategy = Strategy()
    near: dict[int, int] = {}
    brings_much: bool = False


# ---- actions
class Tell(Struct, frozen=True):
    """A message to the head, on the connection of the last `Connect`."""
    message: ToHead


class Send(Struct, frozen=True):
    """Take up to `n` waiting tasks of that shape and send them to the node, which may be the own one; then `Sent` with
    how many."""
    lease: int
    node: int
    shape: Shape
    n: int


class TakeBack(Struct, frozen=True):
    """Ask the node for `n` of the tasks that wait there; `Ended` for those that came back."""
    lease: int
    node: int
    shape: Shape
    n: int


class GroupPlaced(Struct, frozen=True):
    """The bundles of a placement group are reserved; `places` in their order."""
    group: Group
    places: tuple[Place, ...]


class Warn(Struct, frozen=True):
    """Tasks of that shape, or that group, can run nowhere as things are: for people, once."""
    shape: Shape
    reason: str


Action = Tell | Send | TakeBack | GroupPlaced | Warn


# ---- state
class Lease(Struct):
    """Places on a node. `keep`: after the last recall. `n_spare`: the fewest that were unused since `spare_since`."""
    number: int
    node: int
    demand: dict[str, int]
    n: int
    keep: int
    of: Line | GroupLine
    spare_since: float
    n_spare: int
    in_flight: int = 0
    rate: float = 0.0              # tasks that end in a second, as measured last
    n_ended: int = 0               # since `rated`
    rated: float = 0.0
    n_waiting: int = 0             # there, as its node says
    waiting_since: float = 0.0

    @property
    def n_free(self) -> int:
        """Places on which another task may be sent."""
        return max(0, min(self.n, self.keep) - self.in_flight)


class Line(Struct):
    """Tasks of one shape that want to go elsewhere. `asked`: places that the head has been asked for and has not
    granted."""
    want: Demand
    waiting: int = 0               # tasks not sent yet
    number: int = 0                # of the ask; 0: none is open
    asked: int = 0
    hungry_since: float = 0.0      # the ask was made, or something granted
    is_told: bool = False          # that nothing can run it
    # the ask was repeated, so the head may count a grant to the earlier one that we counted to this
    is_repeated: bool = False
    avoid: tuple[int, ...] = ()    # nodes, of the ask
    unwanted_since: float = 0.0
    leases: dict[int, Lease] = field(default_factory=dict)


class GroupLine(Struct):
    """A placement group: asked for (`number`), or reserved (`leases`)."""
    group: Group
    bundles: tuple[dict[str, int], ...]
    mode: policy.Mode
    avoid: tuple[int, ...] = ()
    number: int = 0
    avoided: tuple[int, ...] = ()  # nodes, of the ask
    is_repeated: bool = False      # with other nodes to avoid, so the head may take it for a new one
    leases: dict[int, Lease] = field(default_factory=dict)


class Places(Struct):
    """Changed by the functions of this module alone."""
    me: int
    total: dict[str, int]
    is_up: bool = False                                          # whether the head listens
    is_wanted: bool = False                                      # whether others wait for room
    free: dict[str, int] = {}                                    # at home, unless tasks wait for it
    home_rate: float = 0.0                                       # tasks that end there in a second, as measured last
    n_ended: int = 0                                             # by then
    rated: float = 0.0
    next_number: int = 1
    lines: dict[Shape, Line] = field(default_factory=dict)
    groups: dict[Group, GroupLine] = field(default_factory=dict)
    by_number: dict[int, Line | GroupLine] = field(default_factory=dict)
    leases: dict[int, Lease] = field(default_factory=dict)
    # places returned since the last `Register`, while the head does not listen
    untold: dict[int, int] = field(default_factory=dict)
    in_flight_on: dict[int, int] = field(default_factory=dict)
    avoided: dict[int, float] = field(default_factory=dict)      # until when
    congested: set[int] = field(default_factory=set)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is held and nothing asked, so that no time has to pass for anything."""
        return not self.by_number and not any(isinstance(lease.of, Line) for lease in self.leases.values())


# ---------------------------------------------------------------- what the shell sees
def look(places: Places, wants: Iterable[Demand], free: dict[str, int], n_ended: int, now: float) -> list[Action]:
    """What waits at home now, where `n_ended` tasks have ended so far; shapes not named do not wait any more."""
    places.free = free
    if now - places.rated >= RATE_S:
        rate = max(0, n_ended - places.n_ended) / (now - places.rated)
        places.home_rate, places.n_ended, places.rated = (places.home_rate + rate) / 2, n_ended, now
    for line in places.lines.values():
        line.waiting = 0
    for want in wants:
        line = places.lines.setdefault(want.shape, Line(want))
        line.want, line.waiting = want, want.n
    return plan(places, now)


def sent(places: Places, number: int, asked: int, n: int, now: float) -> list[Action]:
    """Fewer tasks than thought were there to be sent."""
    lease = places.leases.get(number)
    if lease is not None and n < asked:
        _count(places, lease, n - asked)
        if isinstance(lease.of, Line):
            lease.of.waiting = 0
    return []


def ended(places: Places, number: int, n: int, now: float) -> list[Action]:
    """Tasks sent under a lease have ended: others take their places. What goes back does so with the next plan, several
    in one message."""
    lease = places.leases.get(number)
    if lease is None:
        return []  # its node was lost
    _count(places, lease, -n)
    lease.n_ended += n
    if now - lease.rated >= RATE_S:
        lease.rate, lease.n_ended, lease.rated = (lease.rate + lease.n_ended / (now - lease.rated)) / 2, 0, now
    if not isinstance(lease.of, Line):
        return []
    return _fill(places, lease.of, [lease])


def waits(places: Places, number: int, n: int, now: float) -> list[Action]:
    """Tasks sent under a lease wait at their node; they are taken back when there has been room elsewhere for a
    while."""
    lease = places.leases.get(number)
    if lease is None:
        return []
    if not lease.n_waiting:
        lease.waiting_since = now
    lease.n_waiting = n
    return _take_back(places, lease, now)


def want_group(places: Places, group: Group, bundles: tuple[dict[str, int], ...], mode: policy.Mode,
               avoid: tuple[int, ...] = ()) -> list[Action]:
    """A placement group wants its bundles reserved; without bundles it gives back what it has."""
    old = places.groups.pop(group, None)
    actions: list[Action] = []
    if old is not None:
        if old.number:
            del places.by_number[old.number]
            actions += _tell(places, AskGroup(old.number, places.me, []))
        returned = {lease.number: lease.n for lease in old.leases.values()}
        for number in returned:
            del places.leases[number]
        actions += _return(places, returned)
    if bundles:
        places.groups[group] = GroupLine(group, bundles, mode, avoid)
    return [*actions, *_ask_groups(places)]


def peer_failed(places: Places, node: int, now: float) -> list[Action]:
    """A member cannot be reached from here: what it was to do has ended, and it is not asked for again for a while."""
    places.avoided[node] = now + AVOID_S
    back = {number: lease.n for number, lease in places.leases.items() if lease.node == node}
    for number in back:
        _forget(places, places.leases[number])
    return [*_return(places, back), *plan(places, now)]


def congest(places: Places, node: int, is_congested: bool, now: float) -> list[Action]:
    """A peer reads more slowly than is sent to it, or has caught up."""
    (places.congested.add if is_congested else places.congested.discard)(node)
    return [] if is_congested else plan(places, now)


# ---------------------------------------------------------------- what the head says
def granted(places: Places, grant: Grant, members: Container[int], now: float) -> list[Action]:
    """Places for an ask; those that nobody wants any more, or on nodes out of reach, go back at once."""
    line = places.by_number.get(grant.number)
    n = sum(place.n for place in grant.places)
    unusable = {p.lease: p.n for p in grant.places if line is None or p.node not in members or p.node in places.avoided}
    actions: list[Action] = []
    if isinstance(line, Line):
        line.hungry_since, line.is_told = now, False
        line.asked -= n
        if line.asked <= 0:
            actions += _close(places, line)
    elif line is not None:
        if line.is_repeated:
            actions += _tell(places, AskGroup(line.number, places.me, []))
        del places.by_number[line.number]
        line.number = 0
        if unusable:  # all or none: those on the others go back too, and are asked for again
            unusable = {p.lease: p.n for p in grant.places}
    if len(places.leases) + len(grant.places) > MAX_HELD:
        unusable = {p.lease: p.n for p in grant.places}
    actions += _return(places, unusable)
    for i, p in enumerate(grant.places):
        if line is not None and p.lease not in unusable:
            demand = line.want.demand if isinstance(line, Line) else line.bundles[i]
            lease = Lease(p.lease, p.node, demand, p.n, p.n, line, now, p.n, rated=now)
            places.leases[p.lease] = line.leases[p.lease] = lease
    if isinstance(line, Line):
        return [*actions, *plan(places, now)]
    if line is not None and not unusable:
        actions.append(GroupPlaced(line.group, tuple(grant.places)))
    return [*actions, *_ask_groups(places)]


def recalled(places: Places, keep: dict[int, int], now: float) -> list[Action]:
    """The head wants places back; bundles stay reserved until their group is removed."""
    for number, n in keep.items():
        lease = places.leases.get(number)
        if lease is not None and isinstance(lease.of, Line):
            lease.keep = n
    return plan(places, now)


def infeasible(places: Places, number: int, reason: str) -> list[Action]:
    """Nothing can run what was asked for. The ask stays open."""
    line = places.by_number.get(number)
    if line is None:
        return []
    if isinstance(line, Line):
        line.is_told = True
    return [Warn(line.want.shape if isinstance(line, Line) else line.group, reason)]


def node_lost(places: Places, node: int, now: float) -> list[Action]:
    """What was on a lost node is no more."""
    for lease in [lease for lease in places.leases.values() if lease.node == node]:
        _forget(places, lease)
    places.in_flight_on.pop(node, None)
    places.avoided.pop(node, None)
    places.congested.discard(node)
    return []


def held(places: Places) -> list[Held]:
    """For `Register`: what is returned from now on until it is answered must be told afterwards."""
    places.untold = {}
    return [Held(lease.number, lease.node, lease.demand, lease.n) for lease in places.leases.values()]


def connected(places: Places, is_up: bool, now: float) -> list[Action]:
    """The head listens from now on, and knows nothing of what was asked before; or it does not."""
    places.is_up = is_up
    if not is_up:
        return []
    untold, places.untold = places.untold, {}
    places.by_number.clear()
    for line in places.lines.values():
        line.number = line.asked = 0
    for group in places.groups.values():
        group.number = 0
    return [*_return(places, untold), *plan(places, now)]


# ---------------------------------------------------------------- deciding
def plan(places: Places, now: float) -> list[Action]:
    """Send what can be sent, ask for what waits then, give back what is not needed."""
    for node in [node for node, until in places.avoided.items() if until <= now]:
        del places.avoided[node]
    actions: list[Action] = []
    for line in places.lines.values():
        actions += _fill(places, line, _nearest_first(line))
        actions += _reconsider(places, line, now)
    _share(places, now)
    actions += _ask_groups(places)  # who is avoided may have changed
    for lease in places.leases.values():
        if lease.n_waiting:
            actions += _take_back(places, lease, now)
    actions += _give_back(places, [lease for line in places.lines.values() for lease in line.leases.values()], now)
    for shape in [shape for shape, line in places.lines.items() if not line.waiting and not line.number
                  and not line.leases]:
        del places.lines[shape]
    return actions


def _nearest_first(line: Line) -> list[Lease]:
    near = line.want.near
    return sorted(line.leases.values(), key=lambda lease: (-near.get(lease.node, 0), lease.node, lease.number))


def _fill(places: Places, line: Line, leases: list[Lease]) -> list[Action]:
    """Send waiting tasks: first one to every free place, then as much ahead as the nodes' rates allow."""
    n_of: dict[int, int] = {}
    for is_ahead in (False, True):
        for lease in leases:
            if not line.waiting:
                break
            n = lease.n_free
            if is_ahead:
                ahead = max(int(lease.rate * AHEAD_S), lease.n if line.want.brings_much else 0)
                n = max(0, lease.n + ahead - lease.in_flight) if lease.keep >= lease.n else 0
            n = min(n, line.waiting, MAX_IN_FLIGHT - places.in_flight_on.get(lease.node, 0))
            if n > 0 and lease.node not in places.congested and not lease.n_waiting:
                n_of[lease.number] = n_of.get(lease.number, 0) + n
                line.waiting -= n
                _count(places, lease, n)
    return [Send(number, places.leases[number].node, line.want.shape, n) for number, n in n_of.items()]


def _count(places: Places, lease: Lease, n: int) -> None:
    """`n` tasks more are under way under a lease, or fewer."""
    lease.in_flight += n
    places.in_flight_on[lease.node] = places.in_flight_on.get(lease.node, 0) + n
    lease.n_spare = min(lease.n_spare, max(0, lease.n - lease.in_flight))


def _reconsider(places: Places, line: Line, now: float) -> list[Action]:
    """Ask, ask again, or withdraw."""
    n = min(line.waiting + _n_stuck(line, now), MAX_ASK)
    is_measured = now - places.rated <= RATE_LASTS_S
    if is_measured and line.want.strategy.leaves_home and policy.n_fitting(places.total, line.want.demand, 1):
        n = max(0, n - int(places.home_rate * PATIENCE_S))
    if n:
        line.unwanted_since = now
        if not line.number or line.asked > 2 * n or n > 2 * line.asked or line.avoid != _avoided(places):
            return _ask(places, line, n, now)
    elif line.number and now - line.unwanted_since >= LINGER_S:
        return _close(places, line, withdraw=True)
    return []


def _share(places: Places, now: float) -> None:
    """Call places back from lines for another one of this node."""
    lines = list(places.lines.values())
    for hungry in lines:
        if not hungry.number or not hungry.waiting or hungry.is_told or now - hungry.hungry_since < policy.RECALL_AFTER_S:
            continue
        want = hungry.want
        index = {id(line): i for i, line in enumerate(lines)}
        leases = [lease for lease in places.leases.values() if isinstance(lease.of, Line) and _would_do(lease, want)]
        hungry.hungry_since = now
        policy.recall(leases, lambda lease: index[id(lease.of)], {index[id(hungry)]: hungry.waiting * policy.weight(want.demand)})


def _would_do(lease: Lease, want: Demand) -> bool:
    """Whether its places, given back, could be given to that demand. What nodes have labels the head knows alone."""
    strategy = want.strategy
    is_allowed = not strategy.labels and (strategy.kind != "node" or strategy.soft or strategy.node == lease.node)
    return is_allowed and all(kind in lease.demand for kind in want.demand if kind != "memory")


def _n_stuck(line: Line, now: float) -> int:
    """Tasks that have been sent, and wait where they are for longer than it would take to send them elsewhere."""
    return sum(lease.n_waiting for lease in line.leases.values()
               if lease.n_waiting and now - lease.waiting_since >= policy.TAKE_BACK_AFTER_S)


def _ask(places: Places, line: Line, n: int, now: float) -> list[Action]:
    if not places.is_up or (not line.number and len(places.by_number) >= MAX_ASKS):
        return []
    line.is_repeated = bool(line.number)
    if not line.number:
        line.number, line.hungry_since, line.is_told = _new_number(places, line), now, False
    line.asked = n
    near = sorted(line.want.near.items(), key=lambda item: (-item[1], item[0]))[:MAX_NAMED]
    line.avoid = _avoided(places)
    return [Tell(Ask(line.number, places.me, line.want.demand, n, line.want.strategy, dict(near), list(line.avoid)))]


def _avoided(places: Places) -> tuple[int, ...]:
    return tuple(sorted(places.avoided)[:MAX_NAMED])


def _close(places: Places, line: Line, withdraw: bool = False) -> list[Action]:
    """No ask is open any more. The head is told unless it knows."""
    number = line.number
    del places.by_number[number]
    line.number = line.asked = 0
    return _tell(places, Ask(number, places.me, line.want.demand, 0)) if withdraw or line.is_repeated else []


def _ask_groups(places: Places) -> list[Action]:
    actions: list[Action] = []
    for group in places.groups.values():
        avoid = tuple(sorted({*group.avoid, *places.avoided})[:MAX_BUNDLES])
        if group.leases or not places.is_up or (group.number and group.avoided == avoid):
            continue
        if not group.number and len(places.by_number) >= MAX_ASKS:
            continue
        group.is_repeated = bool(group.number)
        group.number, group.avoided = group.number or _new_number(places, group), avoid
        actions.append(Tell(AskGroup(group.number, places.me, list(group.bundles), group.mode, list(avoid))))
    return actions


def _new_number(places: Places, line: Line | GroupLine) -> int:
    number = places.next_number
    places.next_number += 1
    places.by_number[number] = line
    return number


def _give_back(places: Places, leases: list[Lease], now: float) -> list[Action]:
    back: dict[int, int] = {}
    linger_s = WANTED_LINGER_S if places.is_wanted else LINGER_S
    for lease in leases:
        unused = max(0, lease.n - lease.in_flight)
        n = min(unused, max(0, lease.n - lease.keep))
        if now - lease.spare_since >= linger_s:
            n = max(n, min(lease.n_spare, unused))
            lease.spare_since, lease.n_spare = now, unused - n
        if isinstance(lease.of, Line) and lease.of.want.strategy.prefers:
            n = unused
        if n:
            back[lease.number] = n
            lease.n -= n
            lease.n_spare = min(lease.n_spare, max(0, lease.n - lease.in_flight))
            if not lease.n:
                _forget(places, lease)
    return _return(places, back)


def _return(places: Places, back: dict[int, int]) -> list[Action]:
    if not places.is_up:
        for number, n in back.items():
            places.untold[number] = places.untold.get(number, 0) + n
        return []
    return [Tell(Return(back))] if back else []


def _take_back(places: Places, lease: Lease, now: float) -> list[Action]:
    line = lease.of
    if not isinstance(line, Line) or line.waiting:
        return []  # what waits at home is nearer
    idle = sum(other.n_free for other in line.leases.values() if other is not lease
               and other.node not in places.congested)
    if line.want.strategy.leaves_home:
        idle += policy.n_fitting(places.free, line.want.demand, lease.n_waiting)
    n = policy.to_take_back(lease.n_waiting, now - lease.waiting_since, idle)
    if not n:
        return []
    lease.n_waiting -= n
    lease.waiting_since = now
    return [TakeBack(lease.number, lease.node, line.want.shape, n)]


def _forget(places: Places, lease: Lease) -> None:
    del places.leases[lease.number], lease.of.leases[lease.number]
    if lease.in_flight and lease.node in places.in_flight_on:
        places.in_flight_on[lease.node] -= lease.in_flight


def _tell(places: Places, message: ToHead) -> list[Action]:
    return [Tell(message)] if places.is_up else []


def check(places: Places) -> None:
    """The invariants, as assertions; raises AssertionError with the first that does not hold."""
    of_lines = {n: lease for line in [*places.lines.values(), *places.groups.values()] for n,
                lease in line.leases.items()}
    assert of_lines == places.leases, "a lease belongs to no line"
    under_way: dict[int, int] = {}
    for lease in places.leases.values():
        assert lease.n > 0 and lease.in_flight >= 0, f"lease {lease.number} is empty, or more ended than was sent"
        under_way[lease.node] = under_way.get(lease.node, 0) + lease.in_flight
    assert ({node: n for node, n in under_way.items() if n} == {node: n for node, n in places.in_flight_on.items() if n}
            ), "tasks under way to nodes do not add up"
    assert all(n <= MAX_IN_FLIGHT for n in places.in_flight_on.values())
    for number, line in places.by_number.items():
        assert line.number == number and (isinstance(line, GroupLine) or line.asked > 0), f"ask {number} is not open"
    assert len(places.by_number) <= MAX_ASKS
