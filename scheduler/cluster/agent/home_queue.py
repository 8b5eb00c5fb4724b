"""What waits at home, and when it may leave. Pure; `core` keeps a `Home`, and hands what is to leave to `holder`.

Tasks that may run anywhere begin at home by themselves. Those that find no room leave after `SETTLE_S`: what has just
been submitted may begin here within microseconds. Those that could never run here leave at once. Tasks with a
scheduling strategy ask, and the head says where. Until it has told which nodes there are, they wait, as no name of a
node could be judged.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from msgspec import Struct

from ..leases.holder import Demand
from ..messages import Member, Strategy
from ..placement import ANYWHERE
from . import strategies
from .events import Action, Direct, FailUnrouted, Looked, PlaceHere, SendToBundles, Waiting

SETTLE_S = 0.002  # tasks that could run at home, but for others that run there, go elsewhere after so long
LOOK_S = 1.0  # how often to look at what waits at home although nothing has changed
REST_LOOK_S = 2.5  # and when nothing waits
DRAINED_S = 1.0  # after its last task, and the last that was read of what lies here, a drained node leaves


class Home(Struct):
    """`directs`: tasks that ask where to begin wait for the head's answer. `crowded`: resource classes, since when
    their tasks find no room. `n_elsewhere`: tasks of this node that have ended elsewhere. `leave_at`: for a drained
    node, if nothing of it is used until then."""

    directs: bool = False
    crowded: dict[int, float] = {}
    n_elsewhere: int = 0
    look_at: float = -inf
    leave_at: float = inf


def direct(home: Home, directs: bool) -> list[Action]:
    """Whether tasks that ask are told where to begin, from now on."""
    if home.directs == directs:
        return []
    home.directs = directs
    return [Direct(directs)]


def look(
    home: Home, me: Member, looked: Looked, members: Iterable[Member], now: float
) -> tuple[list[Demand], int, list[Action]]:
    """What wants to leave, how many tasks wait for room, and what else is to be done with what waits."""
    wants: list[Demand] = []
    actions: list[Action] = []
    crowded: dict[int, float] = {}
    n_waiting = 0
    for row in looked.waiting:
        if row.in_group:
            actions.append(SendToBundles(row.index, row.n))
            continue
        if row.asks:
            if home.directs:
                wants += _ask_where(row, me, members, actions)
            continue
        n = max(0, row.n - row.n_startable)  # tasks that cannot travel may start, too
        n_waiting += n
        if n:
            crowded[row.index] = since = home.crowded.get(row.index, now)
            if now >= since + SETTLE_S or not row.fits:  # as `look_at` is reckoned, or it would be missed by a rounding
                wants.append(_demand(row, n))
    home.crowded = crowded
    soon = (since + SETTLE_S for since in crowded.values() if since + SETTLE_S > now)
    home.look_at = min((*soon, now + (LOOK_S if looked.waiting else REST_LOOK_S)))
    return wants, n_waiting, actions


def is_drained(home: Home, has_guests: bool, now: float) -> bool:
    """Whether a node that drains may leave. To be asked at every look."""
    home.leave_at = inf if has_guests else min(home.leave_at, now + DRAINED_S)
    return now >= home.leave_at


def next_look(home: Home) -> float:
    """When to look again, whatever happens."""
    return min(home.look_at, home.leave_at)


def _ask_where(row: Waiting, me: Member, members: Iterable[Member], actions: list[Action]) -> list[Demand]:
    """What the head is to be asked for tasks that do not begin at home by themselves."""
    try:
        strategy = strategies.resolve(strategies.from_text(row.wish), members)
    except ValueError:
        strategy = None  # a task has written into the segment what the API would not
    if strategy is None:
        actions.append(FailUnrouted(row.index, False))
        return []
    if row.n_staying and strategies.may_run_on(strategy, me):
        actions.append(PlaceHere(row.index, row.n_staying, True))
    elif row.n_staying:
        actions.append(FailUnrouted(row.index, True))
    # What could never run here is asked for all the same, as it is the head that says so to people.
    if strategy.kind == "node" and strategy.node == me.node and not strategy.soft and row.fits:
        actions.append(PlaceHere(row.index, row.n, False))
        return []
    return [_demand(row, row.n, strategy)] if row.n else []


def _demand(row: Waiting, n: int, strategy: Strategy = ANYWHERE) -> Demand:
    return Demand((row.index, strategy.node), row.demand, n, strategy, row.near, row.brings_much)
