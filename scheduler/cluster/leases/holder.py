"""Leases that an agent holds: what to ask for, send where and give back. Pure; the agent's `core` keeps them.

The life of a lease as its holder sees it. `ledger` books the same on the other side:

    tasks wait ──Ask──► asked ──Grant──► held ──Return──► gone
                          │               │  ▲  │
       they wait no more  │        Recall │  │  │ its node is lost: nothing is returned
                          ▼               ▼  │  ▼
                      withdrawn      called back  gone
                                     (`keep` < `n`: goes back as its tasks end)

A part of a lease may be returned; the rest is held on. While the head does not listen, what is returned is noted
(`untold`) and told when it listens again.

**Sending** (decision 48). A lease for `n` tasks lets so many be under way on a node at a time. While tasks are short,
waiting for the answer to each would leave the node idle, so a lease may have as many more under way as end there within
`AHEAD_S`: none when tasks take long, whole batches when they take microseconds. Where large arguments travel along, it
may have twice as many, so that they come while the task before runs. Nodes where arguments lie come first. Where tasks
wait although they have a lease (their node's own work has taken the room) no more are sent, and those that wait are
taken back when there is room elsewhere, which is asked for.

**Giving back.** The part of a lease that was not needed for `LINGER_S` goes back, sooner if others wait. What is called
back goes back as soon as its tasks have ended, and so does what was granted for tasks that would rather run somewhere
else: the next one is to have the choice. Between nodes the head sees to equal shares; between the shapes of one node
that node does, by the same rule: a shape that has waited in vain for `placement.RECALL_AFTER_S` gets a part of what
shapes with more hold.

**Asking.** One ask a shape, for as many tasks as wait, without those that home will have begun within `PATIENCE_S` at
the rate at which tasks end there: bursts that a node can swallow itself are no other node's business. The ask is
repeated only when that number has doubled or halved, so a flood of n tasks costs the head some log n messages.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from msgspec import Struct

from .. import placement
from ..messages import MAX_ASKS, MAX_BUNDLES, MAX_HELD, MAX_NAMED, Ask, AskGroup, Grant, Held, Return, Strategy, ToHead
from .actions import Action, Group, GroupPlaced, Send, Shape, TakeBack, Tell, Warn

# of work ahead of a node beyond its leases: several round trips, little enough to be fair
AHEAD_S = 0.02
RATE_S = 0.01  # over how long at least the rate at which tasks end is measured
RATE_LASTS_S = 1.0  # older than that, the rate at home says nothing about what comes
LINGER_S = 0.1  # the part of a lease that was not needed for so long goes back
WANTED_LINGER_S = 0.03  # the same while others wait: the next task of a loop still finds it
MAX_ASK = 10_000  # tasks that leases are asked for at a time, of one shape
MAX_IN_FLIGHT = 4096  # tasks under way to one node: its credit, whatever the leases say
PATIENCE_S = 0.05  # what home will begin within this time waits for it: a small part of what people notice
AVOID_S = 5.0  # a node that could not be reached is not asked for again so soon


class Demand(Struct, frozen=True):
    """`n` tasks of a shape wait that have no room at home, or may not run there. `near`: bytes of their large
    arguments, by node; `brings_much`: there are some that travel. The demand and the strategy of a shape never
    change."""

    shape: Shape
    demand: dict[str, int]
    n: int
    strategy: Strategy = Strategy()
    near: dict[int, int] = {}
    brings_much: bool = False


# ---- state
class Lease(Struct):
    """`n` tasks may be under way on a node, of them `keep` after the last recall. `n_spare`: the fewest that were
    unused since `spare_since`."""

    number: int
    node: int
    demand: dict[str, int]
    n: int
    keep: int
    of: Line | GroupLine
    spare_since: float
    n_spare: int
    in_flight: int = 0
    rate: float = 0.0  # tasks that end in a second, as measured last
    n_ended: int = 0  # since `rated`
    rated: float = 0.0
    n_waiting: int = 0  # there, as its node says
    waiting_since: float = 0.0

    @property
    def n_free(self) -> int:
        """How many more tasks may be sent under it."""
        return max(0, min(self.n, self.keep) - self.in_flight)


class Line(Struct):
    """Tasks of one shape that want to go elsewhere. `asked`: for how many of them the head has been asked for
    leases and has not granted any."""

    want: Demand
    waiting: int = 0  # tasks not sent yet
    number: int = 0  # of the ask; 0: none is open
    asked: int = 0
    hungry_since: float = 0.0  # the ask was made, or something granted
    is_told: bool = False  # that nothing can run it
    # the ask was repeated, so the head may count a grant to the earlier one that we counted to this
    is_repeated: bool = False
    avoid: tuple[int, ...] = ()  # nodes, of the ask
    unwanted_since: float = 0.0
    leases: dict[int, Lease] = {}


class GroupLine(Struct):
    """A placement group: asked for (`number`), or reserved (`leases`)."""

    group: Group
    bundles: tuple[dict[str, int], ...]
    mode: placement.Mode
    avoid: tuple[int, ...] = ()
    number: int = 0
    avoided: tuple[int, ...] = ()  # nodes, of the ask
    is_repeated: bool = False  # with other nodes to avoid, so the head may take it for a new one
    leases: dict[int, Lease] = {}


class Leases(Struct):
    """Changed by the functions of this module alone."""

    me: int
    total: dict[str, int]
    is_up: bool = False  # whether the head listens
    is_wanted: bool = False  # whether others wait for room
    free: dict[str, int] = {}  # at home, unless tasks wait for it
    home_rate: float = 0.0  # tasks that end there in a second, as measured last
    n_ended: int = 0  # by then
    rated: float = 0.0
    next_number: int = 1
    lines: dict[Shape, Line] = {}
    groups: dict[Group, GroupLine] = {}
    by_number: dict[int, Line | GroupLine] = {}
    held: dict[int, Lease] = {}
    # returned since the last `Register`, while the head does not listen, by lease
    untold: dict[int, int] = {}
    in_flight_on: dict[int, int] = {}
    avoided: dict[int, float] = {}  # until when, or as long as they are cut off
    cut: set[int] = set()
    congested: set[int] = set()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is held and nothing asked, so that no time has to pass for anything."""
        return not self.by_number and not any(isinstance(lease.of, Line) for lease in self.held.values())


# ---------------------------------------------------------------- what the shell sees
def look(leases: Leases, wants: Iterable[Demand], free: dict[str, int], n_ended: int, now: float) -> list[Action]:
    """What waits at home now, where `n_ended` tasks have ended so far; shapes not named do not wait any more."""
    leases.free = free
    if now - leases.rated >= RATE_S:
        rate = max(0, n_ended - leases.n_ended) / (now - leases.rated)
        leases.home_rate, leases.n_ended, leases.rated = (leases.home_rate + rate) / 2, n_ended, now
    for line in leases.lines.values():
        line.waiting = 0
    for want in wants:
        line = leases.lines.setdefault(want.shape, Line(want))
        line.want, line.waiting = want, want.n
    return plan(leases, now)


def sent(leases: Leases, number: int, asked: int, n: int, now: float) -> list[Action]:
    """Fewer tasks than thought were there to be sent."""
    lease = leases.held.get(number)
    if lease is not None and n < asked:
        _count(leases, lease, n - asked)
        if isinstance(lease.of, Line):
            lease.of.waiting = 0
    return []


def ended(leases: Leases, number: int, n: int, now: float) -> list[Action]:
    """Tasks sent under a lease have ended: others go in their stead. What goes back does so with the next plan, several
    in one message."""
    lease = leases.held.get(number)
    if lease is None:
        return []  # its node was lost
    _count(leases, lease, -n)
    lease.n_ended += n
    if now - lease.rated >= RATE_S:
        lease.rate, lease.n_ended, lease.rated = (lease.rate + lease.n_ended / (now - lease.rated)) / 2, 0, now
    if not isinstance(lease.of, Line):
        return []
    actions = _fill(leases, lease.of, [lease])
    if lease.of.want.strategy.prefers:  # who comes from now on is to have the choice
        lease.keep = min(lease.keep, lease.in_flight)
    return actions


def waits(leases: Leases, number: int, n: int, now: float) -> list[Action]:
    """Tasks sent under a lease wait at their node; they are taken back when there has been room elsewhere for a
    while."""
    lease = leases.held.get(number)
    if lease is None:
        return []
    if not lease.n_waiting:
        lease.waiting_since = now
    lease.n_waiting = n
    return _take_back(leases, lease, now)


def want_group(
    leases: Leases, group: Group, bundles: tuple[dict[str, int], ...], mode: placement.Mode, avoid: tuple[int, ...] = ()
) -> list[Action]:
    """A placement group wants its bundles reserved; without bundles it gives back what it has."""
    old = leases.groups.pop(group, None)
    actions: list[Action] = []
    if old is not None:
        if old.number:
            del leases.by_number[old.number]
            actions += _tell(leases, AskGroup(old.number, leases.me, []))
        returned = {lease.number: lease.n for lease in old.leases.values()}
        for number in returned:
            del leases.held[number]
        actions += _return(leases, returned)
    if bundles:
        leases.groups[group] = GroupLine(group, bundles, mode, avoid)
    return [*actions, *_ask_groups(leases)]


def peer_failed(leases: Leases, node: int, now: float) -> list[Action]:
    """A member cannot be reached from here: what it was to do has ended, and it is not asked for again for a while."""
    leases.avoided[node] = now + AVOID_S
    leases.cut.add(node)
    back = {number: lease.n for number, lease in leases.held.items() if lease.node == node}
    for number in back:
        _forget(leases, leases.held[number])
    return [*_return(leases, back), *plan(leases, now)]


def peer_back(leases: Leases, node: int) -> None:
    """It can be used again, once it has been avoided for long enough."""
    leases.cut.discard(node)


def congest(leases: Leases, node: int, is_congested: bool, now: float) -> list[Action]:
    """A peer reads more slowly than is sent to it, or has caught up."""
    (leases.congested.add if is_congested else leases.congested.discard)(node)
    return [] if is_congested else plan(leases, now)


# ---------------------------------------------------------------- what the head says
def granted(leases: Leases, grant: Grant, members: Container[int], now: float) -> list[Action]:
    """Leases for an ask; those that are not wanted any more, or on nodes out of reach, go back at once."""
    line = leases.by_number.get(grant.number)
    n = sum(granted.n for granted in grant.leases)
    unusable = {p.lease: p.n for p in grant.leases if line is None or p.node not in members or p.node in leases.avoided}
    actions: list[Action] = []
    if isinstance(line, Line):
        line.hungry_since, line.is_told = now, False
        line.asked -= n
        if line.asked <= 0:
            actions += _close(leases, line)
    elif line is not None:
        if line.is_repeated:
            actions += _tell(leases, AskGroup(line.number, leases.me, []))
        del leases.by_number[line.number]
        line.number = 0
        if unusable:  # all or none: those on the others go back too, and are asked for again
            unusable = {p.lease: p.n for p in grant.leases}
    if len(leases.held) + len(grant.leases) > MAX_HELD:
        unusable = {p.lease: p.n for p in grant.leases}
    actions += _return(leases, unusable)
    for i, p in enumerate(grant.leases):
        if line is not None and p.lease not in unusable:
            demand = line.want.demand if isinstance(line, Line) else line.bundles[i]
            lease = Lease(p.lease, p.node, demand, p.n, p.n, line, now, p.n, rated=now)
            leases.held[p.lease] = line.leases[p.lease] = lease
    if isinstance(line, Line):
        return [*actions, *plan(leases, now)]
    if line is not None and not unusable:
        actions.append(GroupPlaced(line.group, tuple(grant.leases)))
    return [*actions, *_ask_groups(leases)]


def recalled(leases: Leases, keep: dict[int, int], now: float) -> list[Action]:
    """The head wants leases back; bundles stay reserved until their group is removed."""
    for number, n in keep.items():
        lease = leases.held.get(number)
        if lease is not None and isinstance(lease.of, Line):
            lease.keep = n
    return plan(leases, now)


def infeasible(leases: Leases, number: int, reason: str) -> list[Action]:
    """Nothing can run what was asked for. The ask stays open."""
    line = leases.by_number.get(number)
    if line is None:
        return []
    if isinstance(line, Line):
        line.is_told = True
    return [Warn(line.want.shape if isinstance(line, Line) else line.group, reason)]


def node_lost(leases: Leases, node: int, now: float) -> list[Action]:
    """What was on a lost node is no more."""
    for lease in [lease for lease in leases.held.values() if lease.node == node]:
        _forget(leases, lease)
    leases.in_flight_on.pop(node, None)
    leases.avoided.pop(node, None)
    leases.congested.discard(node)
    leases.cut.discard(node)
    return []


def for_register(leases: Leases) -> list[Held]:
    """For `Register`: what is returned from now on until it is answered must be told afterwards."""
    leases.untold = {}
    return [Held(lease.number, lease.node, lease.demand, lease.n) for lease in leases.held.values()]


def connected(leases: Leases, is_up: bool, now: float) -> list[Action]:
    """The head listens from now on, and knows nothing of what was asked before; or it does not."""
    leases.is_up = is_up
    if not is_up:
        return []
    untold, leases.untold = leases.untold, {}
    leases.by_number.clear()
    for line in leases.lines.values():
        line.number = line.asked = 0
    for group in leases.groups.values():
        group.number = 0
    return [*_return(leases, untold), *plan(leases, now)]


# ---------------------------------------------------------------- deciding
def plan(leases: Leases, now: float) -> list[Action]:
    """Send what can be sent, ask for what waits then, give back what is not needed."""
    for node in [node for node, until in leases.avoided.items() if until <= now and node not in leases.cut]:
        del leases.avoided[node]
    actions: list[Action] = []
    for line in leases.lines.values():
        actions += _fill(leases, line, _nearest_first(line))
        actions += _reconsider(leases, line, now)
    _share(leases, now)
    actions += _ask_groups(leases)  # the nodes to avoid may have changed
    for lease in leases.held.values():
        if lease.n_waiting:
            actions += _take_back(leases, lease, now)
    actions += _give_back(leases, [lease for line in leases.lines.values() for lease in line.leases.values()], now)
    for shape in [
        shape for shape, line in leases.lines.items() if not line.waiting and not line.number and not line.leases
    ]:
        del leases.lines[shape]
    return actions


def _nearest_first(line: Line) -> list[Lease]:
    near = line.want.near
    return sorted(line.leases.values(), key=lambda lease: (-near.get(lease.node, 0), lease.node, lease.number))


def _fill(leases: Leases, line: Line, among: list[Lease]) -> list[Action]:
    """Send waiting tasks: first one for each that is free under a lease, then as much ahead as the nodes' rates
    allow."""
    n_of: dict[int, int] = {}
    for is_ahead in (False, True):
        for lease in among:
            if not line.waiting:
                break
            n = lease.n_free
            if is_ahead:
                ahead = max(int(lease.rate * AHEAD_S), lease.n if line.want.brings_much else 0)
                n = max(0, lease.n + ahead - lease.in_flight) if lease.keep >= lease.n else 0
            n = min(n, line.waiting, MAX_IN_FLIGHT - leases.in_flight_on.get(lease.node, 0))
            if n > 0 and lease.node not in leases.congested and not lease.n_waiting:
                n_of[lease.number] = n_of.get(lease.number, 0) + n
                line.waiting -= n
                _count(leases, lease, n)
    return [Send(number, leases.held[number].node, line.want.shape, n) for number, n in n_of.items()]


def _count(leases: Leases, lease: Lease, n: int) -> None:
    """`n` tasks more are under way under a lease, or fewer."""
    lease.in_flight += n
    leases.in_flight_on[lease.node] = leases.in_flight_on.get(lease.node, 0) + n
    lease.n_spare = min(lease.n_spare, max(0, lease.n - lease.in_flight))


def _reconsider(leases: Leases, line: Line, now: float) -> list[Action]:
    """Ask, ask again, or withdraw."""
    n = min(line.waiting + _n_stuck(line, now), MAX_ASK)
    is_measured = now - leases.rated <= RATE_LASTS_S
    if is_measured and line.want.strategy.leaves_home and placement.n_fitting(leases.total, line.want.demand, 1):
        n = max(0, n - int(leases.home_rate * PATIENCE_S))
    if n:
        line.unwanted_since = now
        if not line.number or line.asked > 2 * n or n > 2 * line.asked or line.avoid != _avoided(leases):
            return _ask(leases, line, n, now)
    elif line.number and now - line.unwanted_since >= LINGER_S:
        return _close(leases, line, withdraw=True)
    return []


def _share(leases: Leases, now: float) -> None:
    """Call leases of some lines back for another line of this node."""
    lines = list(leases.lines.values())
    index = {id(line): i for i, line in enumerate(lines)}
    for hungry in lines:
        if (
            not hungry.number
            or not hungry.waiting
            or hungry.is_told
            or now - hungry.hungry_since < placement.RECALL_AFTER_S
        ):
            continue
        want = hungry.want
        candidates = [held for held in leases.held.values() if isinstance(held.of, Line) and _would_do(held, want)]
        hungry.hungry_since = now
        placement.recall(
            candidates,
            lambda lease: index[id(lease.of)],
            {index[id(hungry)]: hungry.waiting * placement.weight(want.demand)},
        )


def _would_do(lease: Lease, want: Demand) -> bool:
    """Whether what it takes, given back, could go to that demand. Which nodes have labels the head alone knows."""
    strategy = want.strategy
    is_allowed = not strategy.labels and (strategy.kind != "node" or strategy.soft or strategy.node == lease.node)
    return is_allowed and all(kind in lease.demand for kind in want.demand if kind != "memory")


def _n_stuck(line: Line, now: float) -> int:
    """Tasks that have been sent, and wait where they are for longer than it would take to send them elsewhere."""
    return sum(
        lease.n_waiting
        for lease in line.leases.values()
        if lease.n_waiting and now - lease.waiting_since >= placement.TAKE_BACK_AFTER_S
    )


def _ask(leases: Leases, line: Line, n: int, now: float) -> list[Action]:
    if not leases.is_up or (not line.number and len(leases.by_number) >= MAX_ASKS):
        return []
    line.is_repeated = bool(line.number)
    if not line.number:
        line.number, line.hungry_since, line.is_told = _new_number(leases, line), now, False
    line.asked = n
    near = sorted(line.want.near.items(), key=lambda item: (-item[1], item[0]))[:MAX_NAMED]
    line.avoid = _avoided(leases)
    return [Tell(Ask(line.number, leases.me, line.want.demand, n, line.want.strategy, dict(near), list(line.avoid)))]


def _avoided(leases: Leases) -> tuple[int, ...]:
    return tuple(sorted(leases.avoided)[:MAX_NAMED])


def _close(leases: Leases, line: Line, withdraw: bool = False) -> list[Action]:
    """No ask is open any more. The head is told unless it knows."""
    number = line.number
    del leases.by_number[number]
    line.number = line.asked = 0
    return _tell(leases, Ask(number, leases.me, line.want.demand, 0)) if withdraw or line.is_repeated else []


def _ask_groups(leases: Leases) -> list[Action]:
    actions: list[Action] = []
    for group in leases.groups.values():
        avoid = tuple(sorted({*group.avoid, *leases.avoided})[:MAX_BUNDLES])
        if group.leases or not leases.is_up or (group.number and group.avoided == avoid):
            continue
        if not group.number and len(leases.by_number) >= MAX_ASKS:
            continue
        group.is_repeated = bool(group.number)
        group.number, group.avoided = group.number or _new_number(leases, group), avoid
        actions.append(Tell(AskGroup(group.number, leases.me, list(group.bundles), group.mode, list(avoid))))
    return actions


def _new_number(leases: Leases, line: Line | GroupLine) -> int:
    number = leases.next_number
    leases.next_number += 1
    leases.by_number[number] = line
    return number


def _give_back(leases: Leases, among: list[Lease], now: float) -> list[Action]:
    back: dict[int, int] = {}
    linger_s = WANTED_LINGER_S if leases.is_wanted else LINGER_S
    for lease in among:
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
                _forget(leases, lease)
    return _return(leases, back)


def _return(leases: Leases, back: dict[int, int]) -> list[Action]:
    if not leases.is_up:
        for number, n in back.items():
            leases.untold[number] = leases.untold.get(number, 0) + n
        return []
    return [Tell(Return(back))] if back else []


def _take_back(leases: Leases, lease: Lease, now: float) -> list[Action]:
    line = lease.of
    if not isinstance(line, Line) or line.waiting:
        return []  # what waits at home is nearer
    idle = sum(
        other.n_free for other in line.leases.values() if other is not lease and other.node not in leases.congested
    )
    if line.want.strategy.leaves_home:
        idle += placement.n_fitting(leases.free, line.want.demand, lease.n_waiting)
    n = placement.to_take_back(lease.n_waiting, now - lease.waiting_since, idle)
    if not n:
        return []
    lease.n_waiting -= n
    lease.waiting_since = now
    return [TakeBack(lease.number, lease.node, line.want.shape, n)]


def _forget(leases: Leases, lease: Lease) -> None:
    del leases.held[lease.number], lease.of.leases[lease.number]
    if lease.in_flight and lease.node in leases.in_flight_on:
        leases.in_flight_on[lease.node] -= lease.in_flight


def _tell(leases: Leases, message: ToHead) -> list[Action]:
    return [Tell(message)] if leases.is_up else []


def check(leases: Leases) -> None:
    """The invariants, as assertions; raises AssertionError with the first that does not hold."""
    of_lines = {
        n: lease for line in [*leases.lines.values(), *leases.groups.values()] for n, lease in line.leases.items()
    }
    assert of_lines == leases.held, "a lease belongs to no line"
    under_way: dict[int, int] = {}
    for lease in leases.held.values():
        assert lease.n > 0 and lease.in_flight >= 0, f"lease {lease.number} is empty, or more ended than was sent"
        under_way[lease.node] = under_way.get(lease.node, 0) + lease.in_flight
    assert {node: n for node, n in under_way.items() if n} == {
        node: n for node, n in leases.in_flight_on.items() if n
    }, "tasks under way to nodes do not add up"
    assert all(n <= MAX_IN_FLIGHT for n in leases.in_flight_on.values())
    for number, line in leases.by_number.items():
        assert line.number == number and (isinstance(line, GroupLine) or line.asked > 0), f"ask {number} is not open"
    assert len(leases.by_number) <= MAX_ASKS
