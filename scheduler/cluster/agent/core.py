"""The agent's decisions: `step(core, event, now) -> actions`. No clock, no socket and no segment in here.

This file has the connection with the head, the list of members, the times of reports, and what a lost head means.
`home_queue` has what waits at home and when it may leave, `reachability` which members can be reached, `holder` what to
ask for and what to send where, `events` the events and actions.

**How the shell uses it.** `start` makes a `Core`; `Tick` is the first event. From then on every event is stepped as it
happens, and the actions are performed in order; when `next_deadline` has passed, `Tick`. Whenever something at home has
changed that matters (tasks that find no room, what is free), at most every few milliseconds, and when `next_look` has
passed: `Looked`, the whole picture each time. `shell` does all that.

**The head dies, or the connection does.** Leases stay good: what is granted is used on. On a new connection everything
held is told again and everything wanted is asked again; requests to the control store are repeated, which does them
once. A head of an earlier life than one already seen is not obeyed. One that cannot be reached for `gone_after_s` is
gone for good: a node without a driver drains and stops.

**Silence.** The head answers every report, so a connection on which a report has had no answer for half of
`dead_after_s` is useless, in whichever direction, and is replaced, whatever else the head says on it: it may not hear
this node. Time during which this process itself did not run does not count as silence.

**Rest.** While nothing changes here, a report goes every `rest_s`, and nothing else happens: that this machine is there
is what the operating systems tell each other, see `net/sockets.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, Literal

from msgspec import Struct, field, structs

from ..leases import holder
from ..leases.holder import Leases
from ..messages import (
    Ask,
    Came,
    Drain,
    End,
    Grant,
    Heard,
    Infeasible,
    Leave,
    Lost,
    Member,
    Recall,
    Refused,
    Register,
    Registered,
    RegisterFirst,
    Report,
    Status,
    StoreReply,
    StoreRequest,
)
from . import home_queue, reachability
from .events import (
    Action,
    BeginDrain,
    Congested,
    Connect,
    Connected,
    Disconnected,
    Ended,
    Event,
    HeadBack,
    HeadGone,
    HeadSaid,
    Looked,
    MemberCame,
    MemberLost,
    Pass,
    PeerDown,
    PeerFaulty,
    PeerProbed,
    PeerUp,
    Request,
    ResetHeard,
    ResetSaid,
    Sent,
    SentBack,
    SessionEnds,
    Stop,
    Tell,
    Tick,
    Waits,
    WantGroup,
)
from .home_queue import Home
from .reachability import Reach

EARLY_S = 0.05  # between reports out of turn
MAX_REQUESTS = 256  # to the control store, unanswered; the shell waits beyond
FIRST_RETRY_S, MAX_RETRY_S = 0.1, 2.0
_NEWS = ("free", "lent", "kept", "n_running", "n_lent", "n_queued", "used_bytes")  # of what `Report` says
# At most, once the head is gone; less than the time that a new life of it waits for a member that cannot be probed.
GONE_RETRY_S = 4.0
BEATS_ASLEEP = 1.5  # as in `head.core`


class Settings(Struct, frozen=True):
    """`has_driver`: the node lives on without a head. `answer_s`: for a connection to come up, and for a registration
    to be answered."""

    has_driver: bool = False
    answer_s: float = 5.0


USUAL = Settings()


# ---- state
class Core(Struct):
    """The agent's state. Changed by `step` alone; made by `start`.

    Link: "down" until `retry_at`; "connecting" and "registering" until `answer_by`; "up"; "over" after `Stop`.
    """

    me: Member
    settings: Settings
    leases: Leases
    load: Report  # of this node; until the shell has looked there is no room
    stepped: float
    ticked: float
    # the head's last answer on this connection; since it is not "up": when it last was
    heard: float
    retry_at: float
    link: Literal["down", "connecting", "registering", "up", "over"] = "down"
    attempt: int = 0
    retry_s: float = FIRST_RETRY_S
    answer_by: float = 0.0
    n_registrations: int = 0
    epoch: int = 0
    beat_s: float = 1.0
    rest_s: float = 1.0
    dead_after_s: float = 5.0
    gone_after_s: float = 60.0
    members: dict[int, Member] = {}
    is_gone: bool = False  # the head: has been told
    draining: str = ""  # why
    home: Home = field(default_factory=Home)
    reach: Reach = field(default_factory=Reach)
    reported: Report | None = None
    reported_at: float = 0.0
    unanswered: float = inf  # since when a report has had no answer
    n_reports: int = 0
    requests: dict[int, StoreRequest] = {}

    @property
    def is_open(self) -> bool:
        """Whether tasks of others may begin here."""
        return not self.draining

    @property
    def called(self) -> str:
        """What this node is called by now."""
        return self.members.get(self.me.node, self.me).called


def start(me: Member, now: float, settings: Settings = USUAL) -> Core:
    """An agent that has not spoken to any head; `step` it with `Tick` at once."""
    return Core(
        me,
        settings,
        Leases(me.node, me.total),
        Report(me.node, 0, {}),
        stepped=now,
        ticked=now,
        heard=now,
        retry_at=now,
    )


def step(core: Core, event: Event, now: float) -> list[Action]:
    """Take in one event at time `now` (seconds, monotonic) and return what is to be done, in that order."""
    if core.link == "over":
        return []
    late_s = now - max(next_deadline(core), core.stepped)
    if late_s > core.beat_s * BEATS_ASLEEP:  # no message could be heard meanwhile
        core.heard += late_s
        core.answer_by += late_s
        core.unanswered += late_s
    core.stepped = now
    actions = _EVENTS[type(event)](core, event, now)
    if _is_over(core):
        return actions
    # A node that may be given itself says how it is before it asks: the head's last reports of the others are at most a
    # beat old, too.
    first = _report(core, now, any(isinstance(action, Tell) and _may_stay(action.message) for action in actions))
    return [*first, *actions, *_mind_the_head(core, now), *_report(core, now)]


def next_deadline(core: Core) -> float:
    """When to send `Tick` at the latest: often while leases are held, else when a report is due, or an answer too
    late."""
    if core.link == "over":
        return inf
    if core.link == "up":
        due = min(_report_at(core), core.unanswered + core.dead_after_s / 2)
    else:
        due = core.retry_at if core.link == "down" else core.answer_by
        due = due if core.is_gone else min(due, core.heard + core.gone_after_s)
    due = min(due, reachability.next_deadline(core.reach, core.dead_after_s))
    if core.leases.is_idle:
        return due
    return min(due, core.ticked + (holder.WANTED_LINGER_S if core.leases.is_wanted else holder.LINGER_S))


def next_look(core: Core) -> float:
    """When the shell is to look at home again, whatever happens."""
    return home_queue.next_look(core.home)


def _is_over(core: Core) -> bool:
    return core.link == "over"


# ---------------------------------------------------------------- the connection
def _connected(core: Core, event: Connected, now: float) -> list[Action]:
    if event.attempt != core.attempt or core.link != "connecting":
        return []
    return _register(core, now)


def _register(core: Core, now: float) -> list[Action]:
    core.link, core.answer_by = "registering", now + core.settings.answer_s
    core.n_registrations += 1
    holder.connected(core.leases, False, now)
    return [Tell(Register(core.me, core.n_registrations, core.epoch, holder.for_register(core.leases)))]


def _disconnected(core: Core, event: Disconnected, now: float) -> list[Action]:
    return _hang_up(core, now) if event.attempt == core.attempt else []


def _hang_up(core: Core, now: float) -> list[Action]:
    """Wait, then connect again. Each wait is longer, until a registration succeeds."""
    if core.link != "down":
        holder.connected(core.leases, False, now)
        core.link, core.retry_at = "down", now + core.retry_s
        core.retry_s = min(2 * core.retry_s, GONE_RETRY_S if core.is_gone else MAX_RETRY_S)
    return []


def _mind_the_head(core: Core, now: float) -> list[Action]:
    actions: list[Action] = []
    if core.link == "up" and now >= core.unanswered + core.dead_after_s / 2:
        _hang_up(core, now)
    if core.link in ("connecting", "registering") and now >= core.answer_by:
        _hang_up(core, now)
    if not core.is_gone and core.link != "up" and now >= core.heard + core.gone_after_s:
        core.is_gone = True
        reason = f"the head has not been reached for {core.gone_after_s:g} s"
        if core.settings.has_driver:
            actions += [HeadGone(reason), *home_queue.direct(core.home, False)]
        else:
            actions += _begin_drain(core, reason)
    if core.link == "down" and now >= core.retry_at:
        core.attempt += 1
        core.link, core.answer_by = "connecting", now + core.settings.answer_s
        actions.append(Connect(core.attempt))
    return actions


def _head_said(core: Core, event: HeadSaid, now: float) -> list[Action]:
    message = event.message
    if event.attempt != core.attempt or core.link not in ("registering", "up"):
        return []
    if core.link == "registering" and not isinstance(message, _BEFORE_REGISTERED):
        return []  # of the connection as it was before `RegisterFirst`
    return _MESSAGES[type(message)](core, message, now)


def _registered(core: Core, message: Registered, now: float) -> list[Action]:
    if message.epoch < core.epoch:
        return _hang_up(core, now)  # a head that has been replaced, and does not know it
    core.link, core.epoch, core.heard, core.retry_s = "up", message.epoch, now, FIRST_RETRY_S
    core.beat_s, core.dead_after_s, core.gone_after_s = message.beat_s, message.dead_after_s, message.gone_after_s
    core.reported, core.unanswered = None, inf
    actions: list[Action] = []
    present = {who.node: who for who in message.members}
    for node in [node for node in core.members if node not in present]:
        actions += _forget(core, node, "it was lost while this node could not hear the head", now)
    for who in present.values():
        actions += _came(core, Came(who), now)
    if core.is_gone and core.settings.has_driver:
        actions.append(HeadBack())
    core.is_gone = False
    if core.draining:
        actions.append(Tell(Drain(core.me.node)))
    actions += holder.connected(core.leases, True, now)
    actions += home_queue.direct(core.home, True)
    return [*actions, *(Tell(request) for request in core.requests.values())]


def _refused(core: Core, message: Refused, now: float) -> list[Action]:
    return _stop(core, "refused", message.reason) if core.link == "registering" else []


def _register_first(core: Core, message: RegisterFirst, now: float) -> list[Action]:
    return _register(core, now) if core.link == "up" else []


def _heard(core: Core, message: Heard, now: float) -> list[Action]:
    core.heard = now
    core.unanswered = inf if message.number >= core.n_reports else now
    core.leases.is_wanted, core.rest_s = message.wanted, message.rest_s
    return []


# ---------------------------------------------------------------- members
def _came(core: Core, message: Came, now: float) -> list[Action]:
    who = message.member
    if core.members.get(who.node) == who:
        return []
    core.members[who.node] = who
    return [MemberCame(who)] if who.node != core.me.node else []


def _lost(core: Core, message: Lost, now: float) -> list[Action]:
    if message.node == core.me.node:
        return _stop(core, "fenced", message.reason)
    return _forget(core, message.node, message.reason, now)


def _forget(core: Core, node: int, reason: str, now: float) -> list[Action]:
    if core.members.pop(node, None) is None:
        return []
    holder.node_lost(core.leases, node, now)
    reachability.forget(core.reach, node)
    return [MemberLost(node, reason)]


# ---------------------------------------------------------------- reports
def _looked(core: Core, event: Looked, now: float) -> list[Action]:
    wants, n_queued, actions = home_queue.look(core.home, core.me, event, core.members.values(), now)
    core.load = Report(
        core.me.node,
        0,
        event.free,
        {name: min(amount, core.me.total.get(name, 0)) for name, amount in event.lent.items()},
        event.kept,
        event.n_running,
        event.n_lent,
        n_queued,
        event.used_bytes,
        event.size_bytes,
        event.usage,
    )
    n_ended = event.n_ended - core.home.n_elsewhere
    actions += holder.look(core.leases, wants, {} if n_queued else event.free, n_ended, now)
    if core.draining and home_queue.is_drained(core.home, event.has_guests, now):
        actions += _leave(core)
    return actions


def _may_stay(message: object) -> bool:
    return isinstance(message, Ask) and message.n > 0 and not message.strategy.leaves_home


def _report(core: Core, now: float, asks: bool | None = None) -> list[Action]:
    """When it is due; at once after a registration, and when room has come up that others wait for, or before it is
    asked for (`asks`, else None)."""
    load, last = core.load, core.reported
    if core.link != "up" or asks is False:
        return []
    is_due = last is None or now >= _report_at(core)
    if not is_due and core.leases.is_wanted and not load.n_queued and now - core.reported_at >= EARLY_S:
        is_due = last is not None and any(amount > last.free.get(kind, 0) for kind, amount in load.free.items())
    if last is not None and asks and now - core.reported_at >= EARLY_S:
        is_due = (load.free, load.n_running) != (last.free, last.n_running)
    if not is_due:
        return []
    core.n_reports += 1
    core.reported_at, core.unanswered = now, min(now, core.unanswered)
    core.reported = structs.replace(load, number=core.n_reports)
    return [Tell(core.reported)]


def _report_at(core: Core) -> float:
    """When the next report is due: a beat after the last one if there is news for the head, at once after a
    registration."""
    load, last = core.load, core.reported
    if last is None:
        return -inf
    if (
        core.leases.is_wanted
        or not core.leases.is_idle
        or any(getattr(load, name) != getattr(last, name) for name in _NEWS)
    ):
        return core.reported_at + core.beat_s
    return core.reported_at + core.rest_s


# ---------------------------------------------------------------- leases, the store
def _sent(core: Core, event: Sent, now: float) -> list[Action]:
    return [*holder.sent(core.leases, event.lease, event.asked, event.n, now)]


def _ended(core: Core, event: Ended, now: float) -> list[Action]:
    core.home.n_elsewhere += event.n if event.is_elsewhere else 0
    return [*holder.ended(core.leases, event.lease, event.n, now)]


def _waits(core: Core, event: Waits, now: float) -> list[Action]:
    return [*holder.waits(core.leases, event.lease, event.n, now)]


def _want_group(core: Core, event: WantGroup, now: float) -> list[Action]:
    return [*holder.want_group(core.leases, event.group, event.bundles, event.mode, event.avoid)]


def _grant(core: Core, message: Grant, now: float) -> list[Action]:
    return [*holder.granted(core.leases, message, core.members, now)]


def _recall(core: Core, message: Recall, now: float) -> list[Action]:
    return [*holder.recalled(core.leases, message.keep, now)]


def _infeasible(core: Core, message: Infeasible, now: float) -> list[Action]:
    return [*holder.infeasible(core.leases, message.number, message.reason)]


def _request(core: Core, event: Request, now: float) -> list[Action]:
    assert len(core.requests) < MAX_REQUESTS, "the shell waits for answers before it makes more requests"
    core.requests[event.request.number] = event.request
    return [Tell(event.request)] if core.link == "up" else []


def _store_reply(core: Core, message: StoreReply, now: float) -> list[Action]:
    return [Pass(message)] if core.requests.pop(message.number, None) is not None else []


def _status(core: Core, message: Status, now: float) -> list[Action]:
    return [Pass(message)]


# ---------------------------------------------------------------- the others
def _peer_down(core: Core, event: PeerDown, now: float) -> list[Action]:
    return reachability.went_down(core.reach, event.node, event.reason, now) if event.node in core.members else []


def _peer_up(core: Core, event: PeerUp, now: float) -> list[Action]:
    reachability.came_up(core.reach, event.node)
    return []


def _peer_probed(core: Core, event: PeerProbed, now: float) -> list[Action]:
    fault = reachability.probed(core.reach, event.node, event.is_there, now)
    return [] if fault is None else _peer_faulty(core, fault, now)


def _peer_faulty(core: Core, event: PeerFaulty, now: float) -> list[Action]:
    is_member = event.node in core.members
    actions = reachability.cut(core.reach, event, is_member, now)
    if actions and is_member:
        actions += holder.peer_failed(core.leases, event.node, now)
    return actions


def _reset_said(core: Core, event: ResetSaid, now: float) -> list[Action]:
    return _begin_again(core, event.node, reachability.said(core.reach, event.node))


def _reset_heard(core: Core, event: ResetHeard, now: float) -> list[Action]:
    fault = PeerFaulty(event.node, f"it says: {event.reset.reason}", event.reset.for_good)
    actions = _peer_faulty(core, fault, now)
    return [*actions, *_begin_again(core, event.node, reachability.heard(core.reach, event.node, event.reset))]


def _begin_again(core: Core, node: int, actions: list[Action]) -> list[Action]:
    if not core.reach.is_cut(node):
        holder.peer_back(core.leases, node)
    return actions


def _congested(core: Core, event: Congested, now: float) -> list[Action]:
    (core.reach.choked.add if event.is_congested else core.reach.choked.discard)(event.node)
    return [*holder.congest(core.leases, event.node, core.reach.is_congested(event.node), now)]


def _sent_back(core: Core, event: SentBack, now: float) -> list[Action]:
    if event.node not in core.members:
        return []
    core.reach.refused[event.node] = now + reachability.REFUSED_S
    return [*holder.congest(core.leases, event.node, True, now)]


# ---------------------------------------------------------------- the end
def _begin_drain(core: Core, reason: str) -> list[Action]:
    if core.draining:
        return []
    core.draining = reason
    return [BeginDrain(reason)]


def _drain(core: Core, message: Drain, now: float) -> list[Action]:
    return _begin_drain(core, "it was told to drain") if message.node == core.me.node else []


def _session_ends(core: Core, event: SessionEnds, now: float) -> list[Action]:
    return _leave(core)


def _leave(core: Core) -> list[Action]:
    if core.is_gone and core.draining:
        return _stop(core, "head_gone", f"{core.draining}: this node has finished what it ran and stops")
    leave: list[Action] = [Tell(Leave(core.me.node))] if core.link == "up" else []
    return [*leave, *_stop(core, "left", core.draining or "its session has ended")]


def _end(core: Core, message: End, now: float) -> list[Action]:
    return _stop(core, "ended", message.reason)


def _tick(core: Core, event: Tick, now: float) -> list[Action]:
    core.ticked = now
    given_up, actions = reachability.due(core.reach, core.members, core.dead_after_s, now)
    for fault in given_up:
        actions += _peer_faulty(core, fault, now)
    for node in reachability.caught_up(core.reach, now):
        actions += holder.congest(core.leases, node, core.reach.is_congested(node), now)
    return [*actions, *holder.plan(core.leases, now)]


def _stop(core: Core, kind: Literal["fenced", "refused", "ended", "left", "head_gone"], reason: str) -> list[Action]:
    core.link = "over"
    return [Stop(kind, reason)]


_Handler = Callable[[Core, Any, float], list[Action]]
_EVENTS: dict[type, _Handler] = {
    Connected: _connected,
    Disconnected: _disconnected,
    HeadSaid: _head_said,
    Looked: _looked,
    Sent: _sent,
    Ended: _ended,
    Waits: _waits,
    WantGroup: _want_group,
    Request: _request,
    PeerDown: _peer_down,
    PeerUp: _peer_up,
    PeerProbed: _peer_probed,
    PeerFaulty: _peer_faulty,
    ResetSaid: _reset_said,
    ResetHeard: _reset_heard,
    Congested: _congested,
    SentBack: _sent_back,
    SessionEnds: _session_ends,
    Tick: _tick,
}
_MESSAGES: dict[type, _Handler] = {
    Registered: _registered,
    Refused: _refused,
    RegisterFirst: _register_first,
    Heard: _heard,
    Grant: _grant,
    Recall: _recall,
    Infeasible: _infeasible,
    Came: _came,
    Lost: _lost,
    Drain: _drain,
    StoreReply: _store_reply,
    Status: _status,
    End: _end,
}
_BEFORE_REGISTERED = (Registered, Refused, Lost, End)


def check(core: Core) -> None:
    """The invariants, as assertions; raises AssertionError with the first that does not hold."""
    holder.check(core.leases)
    if core.link == "over":
        return
    assert core.leases.is_up == (core.link == "up"), "leases are asked for exactly while the head listens"
    if core.link == "up":
        assert core.leases.cut == {node for node in core.members if core.reach.is_cut(node)}, (
            "cut off for one of the two only"
        )
        nodes = {lease.node for lease in core.leases.held.values()}
        assert nodes <= core.members.keys(), f"leases on {nodes - core.members.keys()}, which are no members"
