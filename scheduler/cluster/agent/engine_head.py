"""What a head would say, to the agent of a session whose only other machine is an engine. Pure.

The agent's core speaks with a head: it registers, reports, asks for leases, uses them and gives them back. Here an
engine's scheduler places tasks, and all that is left of a head's decisions is how many may be under way there, the
*window*: enough that the engine always has some that it can begin, few enough that what waits can be cancelled at home
at once, and that the rest of a flood never leaves.

Asks get equal parts of what is left of the window; a lease is never called back, as what is sent ends. A machine of the
session is a member by a number, a key and an address; the engine has a number of its own for each life of its process,
and the others are never used.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field, structs

from ....objstore._core import RESOURCE_UNIT
from .. import placement
from ..engine import EngineNode
from ..messages import (
    Ask,
    AskGroup,
    Came,
    FromHead,
    Grant,
    GrantedLease,
    Heard,
    Infeasible,
    Lost,
    Member,
    NodeStatus,
    Register,
    Registered,
    Report,
    Return,
    Shares,
    Status,
    StatusRequest,
    ToHead,
)

LEAST_WINDOW, WINDOW_PER_CPU = 1000, 64
SILENT_S = 1e9  # nothing here is silent for so long
REST_S = 3600.0
NO_GROUPS = "bundles are reserved on this machine alone, and it has not so much"
N_FORMER = 10  # lives of an engine that people are told of
TOO_LARGE = "no machines of {} have so much, spread in that way, however long one waits"


class EngineHead(Struct):
    """Changed by the functions of this module alone. `lent`: leases on the engine, by number; `here`: on the session's
    own machine, for tasks that have to be told where."""

    me: Member | None = None
    engine: Member | None = None
    nodes: tuple[EngineNode, ...] = ()
    grows: bool = False
    has_groups: bool = False
    used: Shares = {}  # there, of what the engine has
    lost: str = ""  # why there is no engine; "": there is one, or it is about to come
    former: list[NodeStatus] = []  # lives of it that are over, for people
    window: int = LEAST_WINDOW
    lent: dict[int, int] = {}
    here: dict[int, int] = {}
    asks: dict[int, Ask] = {}
    groups: dict[int, AskGroup] = {}  # that wait for room on the session's own machine
    told: set[int] = set()  # asks that were called infeasible
    n_leases: int = 0
    report: Report = field(default_factory=lambda: Report(1, 0, {}))

    @property
    def n_left(self) -> int:
        """How many more tasks may be under way."""
        return max(0, self.window - sum(self.lent.values()))


# ---------------------------------------------------------------- the engine
def up(
    head: EngineHead, engine: Member, nodes: Iterable[EngineNode], grows: bool, has_groups: bool = False
) -> list[FromHead]:
    """It takes tasks, or other machines are in it. `has_groups`: it puts bundles aside."""
    head.engine, head.nodes, head.grows, head.lost = engine, tuple(nodes), grows, ""
    head.window = max(LEAST_WINDOW, WINDOW_PER_CPU * engine.total.get("CPU", 0) // RESOURCE_UNIT)
    head.has_groups = has_groups
    head.told.clear()
    return [Came(engine), *_grant(head), *_place_groups(head)]


def down(head: EngineHead, reason: str) -> list[FromHead]:
    """It has gone, and what ran there with it."""
    engine, head.engine, head.nodes, head.lost = head.engine, None, (), reason
    head.lent.clear()
    head.used = {}
    if engine is None:
        return _grant(head)
    head.former = [*head.former, NodeStatus(engine, "dead", {}, 0, 0, 0, -1.0, reason)][-N_FORMER:]
    return [Lost(engine.node, reason), *_grant(head)]


# ---------------------------------------------------------------- the agent
def heard(head: EngineHead, message: ToHead) -> list[FromHead]:
    """The agent says something; what a head would answer. Requests to the control store are not for this one."""
    match message:
        case Register(member):
            head.me = member
            members = [who for who in (member, head.engine) if who is not None]
            return [Registered("engine", message.epoch + 1, members, 1.0, SILENT_S, SILENT_S)]
        case Report():
            head.report = message
            return [Heard(message.number, wanted=bool(head.asks), rest_s=REST_S), *_place_groups(head)]
        case Ask():
            head.told.discard(message.number)
            if message.n:
                head.asks[message.number] = message
            else:
                head.asks.pop(message.number, None)
            return _grant(head)
        case AskGroup():
            head.told.discard(message.number)
            head.groups[message.number] = message
            if not message.bundles:
                del head.groups[message.number]
            return _place_groups(head)
        case Return(leases):
            for number, n in leases.items():
                for lent in (head.lent, head.here):
                    if number in lent:
                        lent[number] -= n
                        if lent[number] <= 0:
                            del lent[number]
            return _grant(head)
        case StatusRequest(number):
            return [_status(head, number)]
        case _:
            return []


def _grant(head: EngineHead) -> list[FromHead]:
    said: list[FromHead] = []
    for number, ask in list(head.asks.items()):
        if _may_run_there(head, ask):
            continue
        if head.me is not None and placement.n_fitting(head.me.total, ask.demand, 1) and _is_allowed(ask, head.me):
            if not ask.strategy.leaves_home:
                del head.asks[number]
                said.append(Grant(number, [_lease(head, head.here, head.me.node, ask.n)]))
        elif number not in head.told and (head.engine is not None or head.lost):
            head.told.add(number)
            said.append(Infeasible(number, _why_not(head, ask)))
    wanting = [(number, ask) for number, ask in head.asks.items() if _may_run_there(head, ask)]
    wanting.sort(key=lambda one: one[1].n)  # what the small ones leave is for the others
    for i, (number, ask) in enumerate(wanting):
        n = min(ask.n, -(-head.n_left // (len(wanting) - i)))
        if n <= 0 or head.engine is None:
            break
        said.append(Grant(number, [_lease(head, head.lent, head.engine.node, n)]))
        if n == ask.n:
            del head.asks[number]
        else:
            head.asks[number] = structs.replace(ask, n=ask.n - n)
    return said


def _place_groups(head: EngineHead) -> list[FromHead]:
    """Bundles are put aside at home, or all on the engine, which waits for room there itself."""
    said: list[FromHead] = []
    for number, ask in list(head.groups.items()):
        one_machine = ask.mode != "STRICT_SPREAD" or len(ask.bundles) == 1
        if head.me is not None and one_machine and _fit_together(ask.bundles, head.me.total):
            if _fit_together(ask.bundles, head.report.free):
                del head.groups[number]
                said.append(Grant(number, [_lease(head, head.here, head.me.node, 1) for _ in ask.bundles]))
        elif head.engine is not None and head.has_groups and _may_be_there(head, ask):
            del head.groups[number]
            said.append(Grant(number, [_lease(head, head.lent, head.engine.node, 1) for _ in ask.bundles]))
        elif number not in head.told and (head.engine is not None or head.lost):
            head.told.add(number)
            engine = head.engine if head.has_groups else None
            said.append(Infeasible(number, NO_GROUPS if engine is None else TOO_LARGE.format(engine.called)))
    return said


def _may_be_there(head: EngineHead, ask: AskGroup) -> bool:
    """Whether the engine's machines could hold the bundles if nothing else was there. Which machine has which bundle
    is the engine's to find, so this says no where it is certain alone."""
    if head.grows:
        return True
    totals = [node.total for node in head.nodes]
    if ask.mode == "STRICT_PACK":
        return any(_fit_together(ask.bundles, total) for total in totals)
    if ask.mode == "STRICT_SPREAD" and len(ask.bundles) > len(totals):
        return False
    each_fits = all(any(placement.n_fitting(total, bundle, 1) for total in totals) for bundle in ask.bundles)
    return each_fits and _fit_together(ask.bundles, _sum_of(totals))


def _fit_together(bundles: Iterable[Shares], room: Shares) -> bool:
    return placement.n_fitting(room, _sum_of(bundles), 1) > 0


def _sum_of(amounts: Iterable[Shares]) -> Shares:
    found: Shares = {}
    for each in amounts:
        for name, amount in each.items():
            found[name] = found.get(name, 0) + amount
    return found


def _lease(head: EngineHead, lent: dict[int, int], node: int, n: int) -> GrantedLease:
    head.n_leases += 1
    lent[head.n_leases] = n
    return GrantedLease(head.n_leases, node, n)


def _may_run_there(head: EngineHead, ask: Ask) -> bool:
    engine = head.engine
    if engine is None or engine.node in ask.avoid or not _is_allowed(ask, engine):
        return False
    return head.grows or any(placement.n_fitting(node.total, ask.demand, 1) for node in head.nodes)


def _is_allowed(ask: Ask, member: Member) -> bool:
    strategy = ask.strategy
    if strategy.kind == "node" and strategy.node != member.node and not strategy.soft:
        return False
    return all(placement.holds(wanted, member.labels.get(name)) for name, wanted in strategy.labels.items())


def _why_not(head: EngineHead, ask: Ask) -> str:
    if head.engine is None:
        return f"the engine is not there: {head.lost}"
    if not _is_allowed(ask, head.engine):
        return f"no machine of {head.engine.called} has what the task asks for by name"
    largest: Shares = {}
    for node in head.nodes:
        for name, amount in node.total.items():
            largest[name] = max(largest.get(name, 0), amount)
    lacking = {name: n for name, n in ask.demand.items() if n > largest.get(name, 0)} or ask.demand
    there = {name: largest.get(name, 0) for name in lacking}
    return (
        f"a task asks for {placement.in_amounts(lacking)}, and no machine of {head.engine.called} has more than "
        f"{placement.in_amounts(there)}"
    )


def _status(head: EngineHead, number: int) -> Status:
    rows: list[NodeStatus] = []
    if head.me is not None:
        seen = head.report
        rows.append(
            NodeStatus(
                head.me, "alive", seen.free, seen.n_queued, seen.used_bytes, seen.size_bytes, 0.0, usage=seen.usage
            )
        )
    if head.engine is not None:
        free = {name: max(0, n - head.used.get(name, 0)) for name, n in head.engine.total.items()}
        rows.append(NodeStatus(head.engine, "alive", free, 0, 0, 0, 0.0))
    rows += head.former
    asked = sum(ask.n for ask in head.asks.values())
    return Status(number, "engine", 1, rows, asked, sum(head.lent.values()))
