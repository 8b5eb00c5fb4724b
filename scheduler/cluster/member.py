"""The agent's decisions: `step(member, event, now) -> actions`. Its connection to the head, who else is a member, when
to report, and what a lost head means; what to ask and what to send where is in `places`. No clock, no socket and no
segment in here.

**How the shell uses it.** `start` makes a `Member`; `Tick` is the first event. From then on every event is stepped as
it happens, and the actions are performed in order; when `next_deadline` has passed, `Tick`. Whenever something at home
has changed that matters (tasks that find no room, what is free), `Looked`, at most every few milliseconds: it is the
whole picture each time.

    Connect(attempt)         drop the connection to the head, if any, and open another; then `Connected` or
                             `Disconnected` with that attempt
    Tell(message)            to the head, on the connection of the last `Connect`
    Send(lease, node, ...)   take up to `n` waiting tasks of that shape, send them to the node, which may be the own
                             one; then `Sent`, at once
    TakeBack(lease, ...)     ask the node for `n` of the tasks that wait there; `Ended` for those that came back
    MemberCame, MemberLost   who else there is; a lost one's tasks are run again by whoever sent them, and so appear in
                             `Looked`
    GroupPlaced(group, ...)  the bundles of a placement group are reserved
    Warn(shape, reason)      tasks of that shape can run nowhere, as things are: for the driver, once
    Pass(message)            the answer to a request of the shell's own
    BeginDrain(reason)       start nothing new that comes from elsewhere; `Drained` when nothing of it is left
    HeadGone, HeadBack       for a node with a driver: what needs the head fails with a typed error until it is back
    Stop(kind, reason)       the last action. "fenced": the node was declared dead, everything that it runs must end,
                             and it may come back only as another node; "refused"; "ended", with the cluster; "left";
                             "head_gone"

**The head dies, or the connection does.** Leases stay good: what is granted is used on. On a new connection everything
held is told again and everything wanted is asked again; requests to the control store are repeated, which does them
once. A head of an earlier life than one already seen is not obeyed. One that cannot be reached for `gone_after_s` is
gone for good: a node without a driver drains and stops.

**Silence.** The head answers every report, so a connection on which no answer has come for half of `dead_after_s` is
useless, in whichever direction, and is replaced, whatever else the head says on it: it may not hear this node. Time during which this process itself did not run counts for nobody's
silence.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct, field

from . import places as held_places
from . import policy
from .messages import (Came, Drain, End, FromHead, Grant, Heard, Infeasible, Leave, Lost, Recall, Refused, Register,
                       RegisterFirst, Registered, Report, Status, StoreReply, StoreRequest, Usage)
from .messages import Member as Who
from .places import Group, Places, Tell, Demand

EARLY_S = 0.05                 # between reports out of turn
MAX_REQUESTS = 256             # to the control store, unanswered; the shell waits beyond
FIRST_RETRY_S, MAX_RETRY_S = 0.1, 0.5
BEATS_ASLEEP = 2.0             # as in `head`


class Settings(Struct, frozen=True):
    """`has_driver`: the node lives on without a head. `answer_s`: for a connection to come up, and for a registration
    to be answered."""
    has_driver: bool = False
    answer_s: float = 5.0


# ---- events
class Connected(Struct, frozen=True):
    """The connection of that attempt is up."""
    attempt: int


class Disconnected(Struct, frozen=True):
    """The connection of that attempt has ended, or did not come up."""
    attempt: int


class HeadSaid(Struct, frozen=True):
    """The head says something on the connection of that attempt."""
    attempt: int
    message: FromHead


class Looked(Struct, frozen=True):
    """The whole picture at home: what tasks want to go elsewhere, how many have ended here ever, and what `Report`
    says."""
    wants: tuple[Demand, ...]
    free: dict[str, int]
    lent: dict[str, int] = {}
    n_queued: int = 0
    used_bytes: int = 0
    size_bytes: int = 0
    n_ended: int = 0
    usage: Usage = Usage()


class Sent(Struct, frozen=True):
    """Of the `asked` tasks of a `Send`, `n` were there and have been sent."""
    lease: int
    asked: int
    n: int


class Ended(Struct, frozen=True):
    """`n` tasks sent under a lease have ended, or came back."""
    lease: int
    n: int


class Waits(Struct, frozen=True):
    """As a node says: `n` of the tasks sent to it under a lease wait there for resources."""
    lease: int
    n: int


class WantGroup(Struct, frozen=True):
    """A placement group wants its bundles reserved, on none of the nodes to `avoid`; without bundles it is removed, and
    what it has goes back. When a node is lost that had some of them, they are gone: whoever wants them again wants a
    group of those bundles."""
    group: Group
    bundles: tuple[dict[str, int], ...]
    mode: policy.Mode = "PACK"
    avoid: tuple[int, ...] = ()


class PeerFailed(Struct, frozen=True):
    """A member cannot be reached from here, although the head may reach it. What was sent there is counted as ended."""
    node: int


class Congested(Struct, frozen=True):
    """A peer reads more slowly than is sent to it: nothing more for now; or it has caught up."""
    node: int
    is_congested: bool


class Request(Struct, frozen=True):
    """A request to the control store, whose number no other one of this node ever has. Answered by `Pass`, and repeated
    until it is."""
    request: StoreRequest


class Drained(Struct, frozen=True):
    """After `BeginDrain`, or because the session ends by itself: nothing is left to do."""


class Tick(Struct, frozen=True):
    """`next_deadline` has passed."""


Event = (Connected | Disconnected | HeadSaid | Looked | Sent | Ended | Waits | WantGroup | PeerFailed | Congested
         | Request | Drained | Tick)


# ---- actions; further ones in `places`
class Connect(Struct, frozen=True):
    """Open a connection to the head, dropping the one before: nothing of it may arrive any more."""
    attempt: int


class MemberCame(Struct, frozen=True):
    """A member, or what has changed of one."""
    member: Who


class MemberLost(Struct, frozen=True):
    """No member any more, whatever may still come from it."""
    node: int
    reason: str


class Pass(Struct, frozen=True):
    """For whoever made the request."""
    message: StoreReply | Status


class BeginDrain(Struct, frozen=True):
    """Nothing new that comes from elsewhere is to start here."""
    reason: str


class HeadGone(Struct, frozen=True):
    """What needs the head fails from now on."""
    reason: str


class HeadBack(Struct, frozen=True):
    """And now no more."""


class Stop(Struct, frozen=True):
    """The end of this node."""
    kind: Literal["fenced", "refused", "ended", "left", "head_gone"]
    reason: str


Action = held_places.Action | Connect | MemberCame | MemberLost | Pass | BeginDrain | HeadGone | HeadBack | Stop


# ---- state
class Member(Struct):
    """The agent's state. Changed by `step` alone; made by `start`.

    Link: "down" until `retry_at`; "connecting" and "registering" until `answer_by`; "up"; "over" after `Stop`.
    """
    me: Who
    settings: Settings
    places: Places
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
    dead_after_s: float = 10.0
    gone_after_s: float = 60.0
    members: dict[int, Who] = field(default_factory=dict)
    is_gone: bool = False                                        # the head: has been told
    draining: str = ""                                           # why
    looked: Looked = Looked((), {})                              # until the shell has looked there is no room
    reported: Report | None = None
    reported_at: float = 0.0
    n_reports: int = 0
    requests: dict[int, StoreRequest] = field(default_factory=dict)


def start(me: Who, now: float, settings: Settings = Settings()) -> Member:
    """An agent that has not spoken to any head; `step` it with `Tick` at once."""
    return Member(me, settings, Places(me.node, me.total), stepped=now, ticked=now, heard=now, retry_at=now)


def step(member: Member, event: Event, now: float) -> list[Action]:
    """Take in one event at time `now` (seconds, monotonic) and return what is to be done, in that order."""
    if member.link == "over":
        return []
    asleep = now - member.stepped
    if asleep > member.beat_s * BEATS_ASLEEP:  # nobody could be heard meanwhile
        member.heard += asleep
        member.answer_by += asleep
    member.stepped = now
    actions = _EVENTS[type(event)](member, event, now)
    return actions if _is_over(member) else [*actions, *_mind_the_head(member, now), *_report(member, now)]


def next_deadline(member: Member) -> float:
    """When to send `Tick` at the latest: every half beat, so that a pause of one's own is noticed, and more often while
    places are held."""
    if member.link == "over":
        return float("inf")
    pause = member.beat_s / 2
    if not member.places.is_idle:
        pause = held_places.WANTED_LINGER_S if member.places.is_wanted else held_places.LINGER_S
    due = member.ticked + pause
    return min(due, member.retry_at) if member.link == "down" else due


def _is_over(member: Member) -> bool:
    return member.link == "over"


# ---------------------------------------------------------------- the connection
def _connected(member: Member, event: Connected, now: float) -> list[Action]:
    if event.attempt != member.attempt or member.link != "connecting":
        return []
    return _register(member, now)


def _register(member: Member, now: float) -> list[Action]:
    member.link, member.answer_by = "registering", now + member.settings.answer_s
    member.n_registrations += 1
    held_places.connected(member.places, False, now)
    return [Tell(Register(member.me, member.n_registrations, member.epoch, held_places.held(member.places)))]


def _disconnected(member: Member, event: Disconnected, now: float) -> list[Action]:
    return _hang_up(member, now) if event.attempt == member.attempt else []


def _hang_up(member: Member, now: float) -> list[Action]:
    """Wait a little, then connect anew. Each time longer, until a registration succeeds."""
    if member.link != "down":
        held_places.connected(member.places, False, now)
        member.link, member.retry_at = "down", now + member.retry_s
        member.retry_s = min(2 * member.retry_s, MAX_RETRY_S)
    return []


def _mind_the_head(member: Member, now: float) -> list[Action]:
    actions: list[Action] = []
    if member.link == "up" and now - member.heard > member.dead_after_s / 2:
        _hang_up(member, now)
    if member.link in ("connecting", "registering") and now > member.answer_by:
        _hang_up(member, now)
    if not member.is_gone and member.link != "up" and now - member.heard >= member.gone_after_s:
        member.is_gone = True
        reason = f"the head has not been reached for {member.gone_after_s:g} s"
        actions += [HeadGone(reason)] if member.settings.has_driver else _begin_drain(member, reason)
    if member.link == "down" and now >= member.retry_at:
        member.attempt += 1
        member.link, member.answer_by = "connecting", now + member.settings.answer_s
        actions.append(Connect(member.attempt))
    return actions


def _head_said(member: Member, event: HeadSaid, now: float) -> list[Action]:
    message = event.message
    if event.attempt != member.attempt or member.link not in ("registering", "up"):
        return []
    if member.link == "registering" and not isinstance(message, _BEFORE_REGISTERED):
        return []  # of the connection as it was before `RegisterFirst`
    return _MESSAGES[type(message)](member, message, now)


def _registered(member: Member, message: Registered, now: float) -> list[Action]:
    if message.epoch < member.epoch:
        return _hang_up(member, now)  # a head that has been replaced, and does not know it
    member.link, member.epoch, member.heard, member.retry_s = "up", message.epoch, now, FIRST_RETRY_S
    member.beat_s, member.dead_after_s, member.gone_after_s = message.beat_s, message.dead_after_s, message.gone_after_s
    member.reported = None
    actions: list[Action] = []
    present = {who.node: who for who in message.members}
    for node in [node for node in member.members if node not in present]:
        actions += _forget(member, node, "it was lost while this node could not hear the head", now)
    for who in present.values():
        actions += _came(member, Came(who), now)
    if member.is_gone and member.settings.has_driver:
        actions.append(HeadBack())
    member.is_gone = False
    if member.draining:
        actions.append(Tell(Drain(member.me.node)))
    actions += held_places.connected(member.places, True, now)
    return [*actions, *(Tell(request) for request in member.requests.values())]


def _refused(member: Member, message: Refused, now: float) -> list[Action]:
    return _stop(member, "refused", message.reason) if member.link == "registering" else []


def _register_first(member: Member, message: RegisterFirst, now: float) -> list[Action]:
    return _register(member, now) if member.link == "up" else []


def _heard(member: Member, message: Heard, now: float) -> list[Action]:
    member.heard = now
    member.places.is_wanted = message.wanted
    return []


# ---------------------------------------------------------------- who is a member
def _came(member: Member, message: Came, now: float) -> list[Action]:
    who = message.member
    if member.members.get(who.node) == who:
        return []
    member.members[who.node] = who
    return [MemberCame(who)] if who.node != member.me.node else []


def _lost(member: Member, message: Lost, now: float) -> list[Action]:
    if message.node == member.me.node:
        return _stop(member, "fenced", message.reason)
    return _forget(member, message.node, message.reason, now)


def _forget(member: Member, node: int, reason: str, now: float) -> list[Action]:
    if member.members.pop(node, None) is None:
        return []
    held_places.node_lost(member.places, node, now)
    return [MemberLost(node, reason)]


# ---------------------------------------------------------------- reports
def _looked(member: Member, event: Looked, now: float) -> list[Action]:
    member.looked = event
    return [*held_places.look(member.places, event.wants, {} if event.n_queued else event.free, event.n_ended, now)]


def _report(member: Member, now: float) -> list[Action]:
    """Every beat; at once after a registration, and when room has come up that somebody waits for."""
    looked, last = member.looked, member.reported
    if member.link != "up":
        return []
    is_due = last is None or now - member.reported_at >= member.beat_s
    if not is_due and member.places.is_wanted and not looked.n_queued and now - member.reported_at >= EARLY_S:
        is_due = any(amount > last.free.get(kind, 0) for kind, amount in looked.free.items())
    if not is_due:
        return []
    member.n_reports += 1
    member.reported_at = now
    member.reported = Report(member.me.node, member.n_reports, looked.free, looked.lent, looked.n_queued,
                             looked.used_bytes, looked.size_bytes, looked.usage)
    return [Tell(member.reported)]


# ---------------------------------------------------------------- places, the store
def _sent(member: Member, event: Sent, now: float) -> list[Action]:
    return [*held_places.sent(member.places, event.lease, event.asked, event.n, now)]


def _ended(member: Member, event: Ended, now: float) -> list[Action]:
    return [*held_places.ended(member.places, event.lease, event.n, now)]


def _waits(member: Member, event: Waits, now: float) -> list[Action]:
    return [*held_places.waits(member.places, event.lease, event.n, now)]


def _want_group(member: Member, event: WantGroup, now: float) -> list[Action]:
    return [*held_places.want_group(member.places, event.group, event.bundles, event.mode, event.avoid)]


def _peer_failed(member: Member, event: PeerFailed, now: float) -> list[Action]:
    return [*held_places.peer_failed(member.places, event.node, now)]


def _congested(member: Member, event: Congested, now: float) -> list[Action]:
    return [*held_places.congest(member.places, event.node, event.is_congested, now)]


def _grant(member: Member, message: Grant, now: float) -> list[Action]:
    return [*held_places.granted(member.places, message, member.members, now)]


def _recall(member: Member, message: Recall, now: float) -> list[Action]:
    return [*held_places.recalled(member.places, message.keep, now)]


def _infeasible(member: Member, message: Infeasible, now: float) -> list[Action]:
    return [*held_places.infeasible(member.places, message.number, message.reason)]


def _request(member: Member, event: Request, now: float) -> list[Action]:
    assert len(member.requests) < MAX_REQUESTS, "the shell waits for answers before it makes more requests"
    member.requests[event.request.number] = event.request
    return [Tell(event.request)] if member.link == "up" else []


def _store_reply(member: Member, message: StoreReply, now: float) -> list[Action]:
    return [Pass(message)] if member.requests.pop(message.number, None) is not None else []


def _status(member: Member, message: Status, now: float) -> list[Action]:
    return [Pass(message)]


# ---------------------------------------------------------------- the end
def _begin_drain(member: Member, reason: str) -> list[Action]:
    if member.draining:
        return []
    member.draining = reason
    return [BeginDrain(reason)]


def _drain(member: Member, message: Drain, now: float) -> list[Action]:
    return _begin_drain(member, "it was told to drain") if message.node == member.me.node else []


def _drained(member: Member, event: Drained, now: float) -> list[Action]:
    if member.is_gone and member.draining:
        return _stop(member, "head_gone", f"{member.draining}: this node has finished what it ran and stops")
    leave = [Tell(Leave(member.me.node))] if member.link == "up" else []
    return [*leave, *_stop(member, "left", member.draining or "its session has ended")]


def _end(member: Member, message: End, now: float) -> list[Action]:
    return _stop(member, "ended", message.reason)


def _tick(member: Member, event: Tick, now: float) -> list[Action]:
    member.ticked = now
    return [*held_places.plan(member.places, now)]


def _stop(member: Member, kind: Literal["fenced", "refused", "ended", "left", "head_gone"],
          reason: str) -> list[Action]:
    member.link = "over"
    return [Stop(kind, reason)]


_Handler = Callable[[Member, Any, float], list[Action]]
_EVENTS: dict[type, _Handler] = {
    Connected: _connected, Disconnected: _disconnected, HeadSaid: _head_said, Looked: _looked, Sent: _sent,
    Ended: _ended, Waits: _waits, WantGroup: _want_group, PeerFailed: _peer_failed, Congested: _congested,
    Request: _request, Drained: _drained, Tick: _tick}
_MESSAGES: dict[type, _Handler] = {
    Registered: _registered, Refused: _refused, RegisterFirst: _register_first, Heard: _heard, Grant: _grant,
    Recall: _recall, Infeasible: _infeasible, Came: _came, Lost: _lost, Drain: _drain, StoreReply: _store_reply,
    Status: _status, End: _end}
_BEFORE_REGISTERED = (Registered, Refused, Lost, End)


def check(member: Member) -> None:
    """The invariants, as assertions; raises AssertionError with the first that does not hold."""
    held_places.check(member.places)
    if member.link == "over":
        return
    assert member.places.is_up == (member.link == "up"), "places are asked for exactly while the head listens"
    if member.link == "up":
        nodes = {lease.node for lease in member.places.leases.values()}
        assert nodes <= member.members.keys(), f"places on {nodes - member.members.keys()}, which are no members"
