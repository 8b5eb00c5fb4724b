"""The ledger of leases: who asks, who holds which, and what there is to give. Pure; the head's `core` keeps it.

A lease is the right to have `n` tasks of one shape under way on a node. Another node holds it until it returns it, or
either is lost; it may return a part of it. What a node can give away is what it reports as free, less the leases on it
that are not in use at that moment:

    room = free - max(0, leased - lent)      `lent`: what tasks of leases take there, from the same report as `free`

so what a task takes is subtracted once, whether the task runs, has ended, or is on its way. A return is booked before
the node's next report tells of it. Right after the head's own start, leases that agents have not told of again are
among `lent`; so then nothing lent is believed to be a known lease (`is_careful`), which can only give less.

Asks wait in turn: one that is given something goes to the end of its line, so no asker waits for ever behind another.
No ask waits that room is there for: every change that makes room serves those who wait (`check` says so). Lines are by
shape, as all asks of a shape fit a node or none does. Groups go before single tasks when both wait, and let others pass
that fit.

A large ask would wait for ever while others take each small room that comes up. So one that has been overtaken for a
while is given a lease for one task *on credit*, where least is missing: its task waits at that node, in whose queues
the same is seen to (objstore/core/tasks/resource.h), and until it has begun nothing else is given there. One for each
asker and shape is enough, as it is used again.

How many tasks and actors a node has is told like its room, and what was given since its last report counts as there,
also if it has been returned: an actor may live on that needs no lease any more.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from .. import placement
from ..messages import GrantedLease, Held, Report, Strategy
from ..placement import Candidate

# Groups tried again whenever room comes up; when more wait, all are tried once a tick.
MAX_EAGER_GROUPS = 4
# Kinds of asks (by where they may run) that a tick considers when it calls leases back.
MAX_RECALL_KINDS = 16
# An ask that has waited so long, while so many leases were given to others, gets one on credit; so many a tick.
STARVES_AFTER_S = 1.0
N_OVERTAKEN = 4
MAX_CREDITS = 16

Shape = tuple[tuple[str, int], ...]


def shape_of(demand: placement.Amounts) -> Shape:
    """A demand as a key."""
    return tuple(sorted((kind, amount) for kind, amount in demand.items() if amount))


class Waiting(Struct):
    """An open ask. `bundles`: of a group, else empty. `since`: when it was last given something, and `n_booked` how
    many leases there had been by then. `is_told`: that nothing can run it."""

    node: int
    number: int
    n: int
    demand: dict[str, int]
    since: float
    strategy: Strategy = Strategy()
    near: dict[int, int] = {}
    avoid: frozenset[int] = frozenset()
    bundles: tuple[dict[str, int], ...] = ()
    mode: placement.Mode = "PACK"
    is_told: bool = False
    n_booked: int = 0

    @property
    def key(self) -> tuple[int, int]:
        return self.node, self.number


class Lease(Struct):
    """`n` tasks at a time on `node`, held by `holder`, which has been told to keep at most `keep` of them. `on_credit`:
    there was no room for them."""

    number: int
    holder: int
    node: int
    demand: dict[str, int]
    n: int
    keep: int
    on_credit: bool = False


class Account(Struct):
    """One node's side of the ledger: what it reported, what is leased on it, which leases lie on it, which it holds,
    what it asks. `n_placed`: tasks for which leases there were held at its last report, and those given since."""

    candidate: Candidate
    free: dict[str, int] = {}
    lent: dict[str, int] = {}
    n_running: int = 0
    n_lent: int = 0
    n_placed: int = 0
    leased: dict[str, int] = {}
    on: dict[int, None] = {}
    held: dict[int, None] = {}
    asks: dict[int, None] = {}


Grants = dict[tuple[int, int], list[GrantedLease]]  # by asker and number of the ask


class Ledger(Struct):
    """Changed by the functions of this module alone. `next_lease`: numbers of a life of the head begin above those of
    earlier lives."""

    next_lease: int
    is_careful: bool = True
    accounts: dict[int, Account] = {}
    table: dict[int, Candidate] = {}
    # open, with room for anything that needs a CPU
    roomy: dict[int, Candidate] = {}
    asks: dict[tuple[int, int], Waiting] = {}  # for single tasks and for groups
    # for single tasks; whose turn it is comes first
    lines: dict[Shape, dict[tuple[int, int], Waiting]] = {}
    groups: dict[tuple[int, int], Waiting] = {}
    leases: dict[int, Lease] = {}
    n_asked: int = 0  # tasks, of all asks
    n_granted: int = 0  # tasks, of all leases

    @property
    def is_wanted(self) -> bool:
        """Whether an ask waits for room that may come."""
        return any(not ask.is_told for ask in self.asks.values())


# ---------------------------------------------------------------- nodes
def add_node(ledger: Ledger, node: int, total: dict[str, int], labels: dict[str, str]) -> None:
    """A node that has nothing to give until it reports; asks that only it can serve are not hopeless any more."""
    candidate = Candidate(node, total, {}, labels)
    ledger.accounts[node] = Account(candidate)
    ledger.table[node] = candidate
    for ask in ledger.asks.values():
        ask.is_told = ask.is_told and _why_hopeless(ledger, ask) is not None


def remove_node(ledger: Ledger, node: int, now: float, grants: Grants) -> None:
    """A node is lost: nothing is on it, it holds nothing and asks for nothing any more."""
    forget_asks(ledger, node)
    account = ledger.accounts.pop(node)
    del ledger.table[node]
    ledger.roomy.pop(node, None)
    for number in account.on:
        lease = ledger.leases.pop(number)
        ledger.n_granted -= lease.n
        if lease.holder != node:
            del ledger.accounts[lease.holder].held[number]
    roomy: list[int] = []
    for number in account.held:
        if number in ledger.leases:
            lease = ledger.leases[number]
            _shrink(ledger, lease, lease.n)
            roomy.append(lease.node)
    serve(ledger, roomy, now, grants)


def open_node(ledger: Ledger, node: int, is_open: bool) -> None:
    """Whether leases there may be given away: not while it drains or is not connected. It has none to give until it
    reports."""
    ledger.table[node].is_open = is_open
    ledger.accounts[node].free = {}
    _find_room(ledger, ledger.accounts[node])


def report(ledger: Ledger, said: Report, now: float, grants: Grants) -> None:
    """What a node says of itself."""
    node, account = said.node, ledger.accounts[said.node]
    account.free, account.lent, account.candidate.kept = said.free, said.lent, said.kept
    account.n_placed = sum(ledger.leases[number].n for number in account.on)
    account.n_running, account.n_lent = said.n_running, min(said.n_lent, account.n_placed)
    _credit(ledger, account)
    before = account.candidate.room
    _find_room(ledger, account)
    if any(amount > before.get(kind, 0) for kind, amount in account.candidate.room.items()):
        serve(ledger, [node], now, grants)


def trust_reports(ledger: Ledger, now: float, grants: Grants) -> None:
    """Every holder of leases has said so: what is lent is accounted for."""
    ledger.is_careful = False
    for account in ledger.accounts.values():
        _credit(ledger, account)
        _find_room(ledger, account)
    serve(ledger, list(ledger.table), now, grants)


def _credit(ledger: Ledger, account: Account) -> None:
    """What is lent beyond what is leased by now runs under no lease any more: it is no part of a lease to come."""
    if not ledger.is_careful:
        account.lent = {kind: min(amount, account.leased.get(kind, 0)) for kind, amount in account.lent.items()}


def _find_room(ledger: Ledger, account: Account) -> None:
    free, lent, leased = account.free, account.lent, account.leased
    room: dict[str, int] = {}
    for kind in account.candidate.total:
        unused = leased.get(kind, 0)
        if not ledger.is_careful:
            unused -= lent.get(kind, 0)
        room[kind] = max(0, free.get(kind, 0) - max(0, unused))
    candidate = account.candidate
    candidate.room = room
    candidate.n_running = account.n_running + max(0, account.n_placed - account.n_lent)
    if candidate.is_open and room.get("CPU"):
        ledger.roomy[candidate.node] = candidate
    else:
        ledger.roomy.pop(candidate.node, None)


# ---------------------------------------------------------------- leases
def _book(
    ledger: Ledger,
    holder: int,
    node: int,
    demand: dict[str, int],
    n: int,
    grants: Grants,
    ask: tuple[int, int],
    on_credit: bool = False,
) -> None:
    number = ledger.next_lease
    ledger.next_lease += 1
    _enter(ledger, Lease(number, holder, node, demand, n, n, on_credit))
    grants.setdefault(ask, []).append(GrantedLease(number, node, n))


def _enter(ledger: Ledger, lease: Lease) -> None:
    ledger.leases[lease.number] = lease
    ledger.n_granted += lease.n
    account = ledger.accounts[lease.node]
    account.on[lease.number] = None
    account.n_placed += lease.n
    ledger.accounts[lease.holder].held[lease.number] = None
    for kind, amount in lease.demand.items():
        account.leased[kind] = account.leased.get(kind, 0) + amount * lease.n
    _find_room(ledger, account)


def _shrink(ledger: Ledger, lease: Lease, n: int) -> None:
    """A lease is for `n` tasks less, which the node's last report could not know. Only its next one tells so
    while what is lent may be others' leases that are not known yet."""
    account = ledger.accounts[lease.node]
    lent = dict(account.lent)
    free = dict(account.free)
    for kind, amount in lease.demand.items():
        account.leased[kind] -= amount * n
        # What had not begun by then is in `free` still.
        ran = 0 if ledger.is_careful else min(lent.get(kind, 0), amount * n)
        lent[kind] = lent.get(kind, 0) - ran
        free[kind] = free.get(kind, 0) + ran
    account.lent, account.free = lent, free
    lease.n -= n
    ledger.n_granted -= n
    if not lease.n:
        del ledger.leases[lease.number], account.on[lease.number]
        if lease.holder in ledger.accounts:  # else it is being removed
            del ledger.accounts[lease.holder].held[lease.number]
    _find_room(ledger, account)


def give_back(ledger: Ledger, holder: int, number: int, n: int, now: float, grants: Grants) -> None:
    """`holder` returns a lease, or a part of it. One that was ended meanwhile, with its node, is no news."""
    lease = ledger.leases.get(number)
    if lease is not None and lease.holder == holder:
        _shrink(ledger, lease, min(n, lease.n))
        serve(ledger, [lease.node], now, grants)


def hold_exactly(ledger: Ledger, holder: int, held: Iterable[Held], now: float, grants: Grants) -> None:
    """What an agent says that it holds replaces what the ledger says: a grant that never arrived is undone, one of an
    earlier life of the head is entered again. Leases on nodes that are no members are gone."""
    account = ledger.accounts[holder]
    said = {h.lease: h for h in held if h.node in ledger.accounts}
    roomy: list[int] = []
    for number in list(account.held):
        lease = ledger.leases[number]
        kept = min(said[number].n, lease.n) if number in said else 0
        if kept < lease.n:
            _shrink(ledger, lease, lease.n - kept)
            roomy.append(lease.node)
    for number, h in said.items():
        if number not in ledger.leases:
            _enter(ledger, Lease(number, holder, h.node, h.demand, h.n, h.n))
    serve(ledger, roomy, now, grants)


# ---------------------------------------------------------------- asks
def ask(ledger: Ledger, asked: Waiting, now: float, grants: Grants) -> None:
    """Serve an ask as far as there is room and keep the rest; it replaces an earlier one of the same number, whose turn
    it keeps."""
    earlier = ledger.asks.get(asked.key)
    is_same = earlier is not None and not asked.bundles and not earlier.bundles and earlier.demand == asked.demand
    if earlier is not None and is_same and asked.n:
        ledger.n_asked += asked.n - earlier.n
        earlier.is_told = earlier.is_told and asked.strategy == earlier.strategy
        earlier.n, earlier.strategy, earlier.near, earlier.avoid = asked.n, asked.strategy, asked.near, asked.avoid
        asked = earlier
    else:
        withdraw(ledger, asked.key)
        if not asked.n:
            return
        asked.n_booked = ledger.next_lease
        ledger.asks[asked.key] = asked
        ledger.accounts[asked.node].asks[asked.number] = None
        ledger.n_asked += asked.n
        (ledger.groups if asked.bundles else ledger.lines.setdefault(shape_of(asked.demand), {}))[asked.key] = asked
    if asked.bundles:
        _serve_group(ledger, asked, grants)
    else:
        _give(ledger, asked, ledger.roomy if asked.demand.get("CPU") else ledger.table, asked.n, now, grants)


def withdraw(ledger: Ledger, key: tuple[int, int]) -> None:
    """An ask is no more."""
    ask = ledger.asks.pop(key, None)
    if ask is None:
        return
    ledger.n_asked -= ask.n
    del ledger.accounts[ask.node].asks[ask.number]
    if ask.bundles:
        del ledger.groups[key]
        return
    shape = shape_of(ask.demand)
    line = ledger.lines[shape]
    del line[key]
    if not line:
        del ledger.lines[shape]


def forget_asks(ledger: Ledger, node: int) -> None:
    """Whatever a node asked for; it asks again when it is back."""
    for number in list(ledger.accounts[node].asks):
        withdraw(ledger, (node, number))


def _give(ledger: Ledger, ask: Waiting, table: placement.Table, limit: int, now: float, grants: Grants) -> int:
    """Give an ask leases in `table` for up to `limit` tasks; returns for how many."""
    placed = placement.place(
        table, ask.demand, min(ask.n, limit), ask.strategy, near=ask.near, avoid=ask.avoid, home=ask.node
    )
    given = 0
    for node, n in placed:
        _book(ledger, ask.node, node, ask.demand, n, grants, ask.key)
        given += n
    if given:
        _was_given(ledger, ask, given, now)
    return given


def _was_given(ledger: Ledger, ask: Waiting, n: int, now: float) -> None:
    ask.n -= n
    ledger.n_asked -= n
    ask.since, ask.n_booked = now, ledger.next_lease
    if ask.n:
        line = ledger.lines[shape_of(ask.demand)]
        line[ask.key] = line.pop(ask.key)  # it is the others' turn
    else:
        withdraw(ledger, ask.key)


def give_on_credit(ledger: Ledger, now: float, grants: Grants) -> None:
    """Give a lease for one task to each ask that has been overtaken for a while, where least is missing for it."""
    starving = [
        ask
        for ask in ledger.asks.values()
        if not ask.is_told
        and not ask.bundles
        and now - ask.since >= STARVES_AFTER_S
        and ledger.next_lease - ask.n_booked >= N_OVERTAKEN
    ]
    for ask in starving[:MAX_CREDITS]:
        held = (ledger.leases[number] for number in ledger.accounts[ask.node].held)
        if any(lease.on_credit and lease.demand == ask.demand for lease in held):
            continue
        node = placement.nearest_to_room(ledger.table, ask.demand, ask.strategy, avoid=ask.avoid, home=ask.node)
        if node is not None:
            _book(ledger, ask.node, node, ask.demand, 1, grants, ask.key, on_credit=True)
            _was_given(ledger, ask, 1, now)


def _open_to(ledger: Ledger, ask: Waiting) -> placement.Table:
    return {node: c for node, c in ledger.table.items() if node not in ask.avoid} if ask.avoid else ledger.table


def _serve_group(ledger: Ledger, ask: Waiting, grants: Grants) -> bool:
    placed = placement.place_bundles(_open_to(ledger, ask), ask.bundles, ask.mode)
    if isinstance(placed, str):
        return False
    for node, bundle in zip(placed, ask.bundles, strict=True):
        _book(ledger, ask.node, node, bundle, 1, grants, ask.key)
    withdraw(ledger, ask.key)
    return True


def serve(ledger: Ledger, nodes: Iterable[int], now: float, grants: Grants) -> None:
    """Room may have come up on `nodes`: give it to asks that wait, in turn."""
    if ledger.groups and len(ledger.groups) <= MAX_EAGER_GROUPS:
        serve_groups(ledger, grants)
    for node in dict.fromkeys(nodes):
        candidate = ledger.table.get(node)
        if candidate is not None and candidate.is_open:
            while ledger.lines and _serve_node(ledger, candidate, now, grants):
                pass


def serve_groups(ledger: Ledger, grants: Grants) -> None:
    """Try every group that waits, in the order in which they came."""
    for ask in list(ledger.groups.values()):
        _serve_group(ledger, ask, grants)


def _serve_node(ledger: Ledger, candidate: Candidate, now: float, grants: Grants) -> int:
    """One turn for each that waits; returns for how many tasks leases were given."""
    table = {candidate.node: candidate}
    given = 0
    for shape, line in list(ledger.lines.items()):
        n = fitting = placement.n_fitting(candidate.room, dict(shape), placement.RESOURCE_UNIT)
        if not n:
            continue
        turn = placement.share(n, len(line))
        for ask in list(line.values()):
            n -= _give(ledger, ask, table, turn, now, grants)
            if n <= 0:
                break
        if n < fitting and shape in ledger.lines:
            ledger.lines[shape] = ledger.lines.pop(shape)
        given += fitting - n
    return given


def hopeless(ledger: Ledger, asks: Iterable[Waiting]) -> list[tuple[Waiting, str]]:
    """Of these, the asks that no node could ever serve as things are, and why; each is told of once."""
    found: list[tuple[Waiting, str]] = []
    for ask in asks:
        if not ask.is_told and not ledger.is_careful and (why := _why_hopeless(ledger, ask)) is not None:
            ask.is_told = True
            found.append((ask, why))
    return found


def _why_hopeless(ledger: Ledger, ask: Waiting) -> str | None:
    if ask.bundles:
        return placement.why_bundles_infeasible(_open_to(ledger, ask), ask.bundles, ask.mode)
    return placement.why_infeasible(ledger.table, ask.demand, ask.strategy)


# ---------------------------------------------------------------- calling back
def recall_all(ledger: Ledger, node: int) -> dict[int, dict[int, int]]:
    """Every lease on a node that drains: by holder and lease, how much to keep."""
    called: dict[int, dict[int, int]] = {}
    for number in ledger.accounts[node].on:
        lease = ledger.leases[number]
        lease.keep = 0
        called.setdefault(lease.holder, {})[number] = 0
    return called


def recalls(ledger: Ledger, now: float) -> dict[int, dict[int, int]]:
    """What to call back for asks that have waited for long, see `placement.to_recall`: by holder and lease,
    how much to keep."""
    kinds: dict[tuple[object, ...], list[Waiting]] = {}
    for ask in ledger.asks.values():
        if not ask.is_told and now - ask.since >= placement.RECALL_AFTER_S:
            kinds.setdefault(_where(ask.strategy), []).append(ask)
    called: dict[int, dict[int, int]] = {}
    for asks in list(kinds.values())[:MAX_RECALL_KINDS]:
        _recall_for(ledger, asks, called)
    return called


def _where(strategy: Strategy) -> tuple[object, ...]:
    """Equal for strategies that allow the same nodes."""
    if strategy.kind == "node" and not strategy.soft:
        return ("node", strategy.node)
    return ("labels", *sorted(strategy.labels.items())) if strategy.labels else ("any",)


def _recall_for(ledger: Ledger, asks: list[Waiting], called: dict[int, dict[int, int]]) -> None:
    """For asks that may run on the same nodes."""
    nodes = [c.node for c in ledger.table.values() if c.is_open and placement.allows(asks[0].strategy, c)]
    leases = [ledger.leases[number] for node in nodes for number in ledger.accounts[node].on]
    wanted: dict[int, int] = {}
    for ask in asks:
        one = placement.weight(ask.demand) if not ask.bundles else sum(map(placement.weight, ask.bundles))
        wanted[ask.node] = wanted.get(ask.node, 0) + ask.n * one
    for lease in placement.recall(leases, lambda lease: lease.holder, wanted):
        called.setdefault(lease.holder, {})[lease.number] = lease.keep


def check(ledger: Ledger) -> None:
    """The invariants, as assertions; raises AssertionError with the first that does not hold."""
    leased: dict[int, dict[str, int]] = {node: {} for node in ledger.accounts}
    for number, lease in ledger.leases.items():
        assert lease.number == number and lease.n > 0, f"lease {number} is empty or stands under another number"
        assert lease.node in ledger.accounts and lease.holder in ledger.accounts, f"lease {number} of no member"
        assert number in ledger.accounts[lease.node].on, f"lease {number} is not listed by its node"
        assert number in ledger.accounts[lease.holder].held, f"lease {number} is not listed by its holder"
        for kind, amount in lease.demand.items():
            leased[lease.node][kind] = leased[lease.node].get(kind, 0) + amount * lease.n
    for node, account in ledger.accounts.items():
        assert ledger.table[node] is account.candidate
        has_room = account.candidate.is_open and account.candidate.room.get("CPU")
        assert (node in ledger.roomy) == bool(has_room), f"node {node} is not listed by its room"
        assert all(ledger.leases[number].node == node for number in account.on), (
            f"node {node} lists a lease that is not on it"
        )
        assert all(ledger.leases[number].holder == node for number in account.held), (
            f"node {node} lists a lease that it does not hold"
        )
        sums = {kind: amount for kind, amount in account.leased.items() if amount}
        assert sums == {k: v for k, v in leased[node].items() if v}, f"what is leased on node {node} does not add up"
        assert min(account.candidate.room.values(), default=0) >= 0
    assert ledger.n_granted == sum(lease.n for lease in ledger.leases.values())
    assert len(ledger.asks) == sum(len(account.asks) for account in ledger.accounts.values())
    assert ledger.n_asked == sum(ask.n for ask in ledger.asks.values())
    lined = {key for line in ledger.lines.values() for key in line}
    assert lined | ledger.groups.keys() == ledger.asks.keys(), "an ask stands in no line"
    assert not lined & ledger.groups.keys(), "an ask stands in two lines"
    for ask in ledger.asks.values():
        assert ask.n > 0 and ask.number in ledger.accounts[ask.node].asks
        if not ask.bundles:
            assert not placement.place(
                ledger.table, ask.demand, 1, ask.strategy, near=ask.near, avoid=ask.avoid, home=ask.node
            ), f"node {ask.node} waits for room that is there"
