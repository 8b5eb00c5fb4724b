"""The global scheduler: `step(head, event, now) -> actions`. No clock, no socket and no store in here.

It knows who is a member, and gives places on members' machines to members that ask (`ledger`). Tasks do not pass it: an
agent sends them straight to the node that it was granted, again and again, until it has none left. What cannot be
learnt again from the agents is kept in the control store before anybody is told: who is a member, who has been declared
dead, how many lives the head has had.

Life of a head. It starts with the members that its store knows, and waits for them to register again; until all have,
or `dead_after_s` is over, it believes no report more than is safe (`ledger.is_careful`), calls nothing infeasible and
judges nobody.

Death. A node that is silent for `dead_after_s` is declared dead, for ever: its number is refused, what lived with it is
forgotten, all are told. Silence counts only while the head itself is awake. `Tick`s come every `tick_s`; a gap of
several means that the head was stopped, or its machine was asleep, and everybody gets the whole time again. Judgement
is in `Tick` alone, and the shell sends it only after having taken in everything that has arrived: a head that is behind
with its reading must not take its own slowness for others' silence.

Connections. `Connection` is whatever the shell calls one; the core only compares. A node is spoken for by the
connection on which it registered last; what comes on another is answered by `RegisterFirst`. A connection that closes
is no death, the agent has time to come back.
"""
from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Literal

from msgspec import Struct, field

from ..messages import HAS_LEFT
from . import ledger as books
from .ledger import Grants, Ledger, Waiting
from .messages import (CLUSTER_VERSION, MAX_ASKS, MAX_HELD, MAX_NODES, Ask, AskGroup, Came, Drain, End, FromHead, Grant,
                       Heard, Infeasible, Leave, Lost, Member, NodeStatus, Recall, Refused, Register, RegisterFirst,
                       Registered, Report, Return, Status, StatusRequest, StoreRequest, ToHead)

N_STORY = 200           # events kept for reports
MOST_DEAD = 100_000     # remembered, as the control store does
N_DEAD_SHOWN = 100      # of those that are gone, the latest are listed by `status`
LEASES_PER_LIFE = 1 << 40
BEATS_ASLEEP = 2.0      # no event for so many beats although ticks come every half: the head was stopped

Connection = Hashable


class Settings(Struct, frozen=True):
    """How often agents report, and after how long a silence one is declared dead: ten missed reports are no chance.
    `gone_after_s`: for agents, see `member`."""
    beat_s: float = 1.0
    dead_after_s: float = 10.0
    gone_after_s: float = 60.0

    @property
    def tick_s(self) -> float:
        return self.beat_s / 2


# ---- events
class Received(Struct, frozen=True):
    """A message of a peer. `key`: with which its connection is encrypted, known to the shell and not from the
    message."""
    connection: Connection
    key: bytes
    message: ToHead


class Closed(Struct, frozen=True):
    """A connection has ended, as far as the shell can tell."""
    connection: Connection


class Tick(Struct, frozen=True):
    """`next_deadline` has passed, and everything that had arrived by then has been taken in."""


Event = Received | Closed | Tick


# ---- actions
class Send(Struct, frozen=True):
    """One message to each of these connections. To one that has ended meanwhile: nothing."""
    to: tuple[Connection, ...]
    message: FromHead


class Remember(Struct, frozen=True):
    """Keep a member in the control store, before any later action."""
    member: Member
    draining: bool


class Bury(Struct, frozen=True):
    """Keep in the control store, before any later action, that a node is gone for ever, and delete the entries that
    lived with it."""
    node: int
    reason: str


class Perform(Struct, frozen=True):
    """Do a request to the control store, and send the reply to `to`."""
    to: Connection
    request: StoreRequest


class Say(Struct, frozen=True):
    """A line for the people who run the cluster."""
    text: str


class Stop(Struct, frozen=True):
    """Every agent has been told: end this process once that is sent."""
    reason: str


Action = Send | Remember | Bury | Perform | Say | Stop


# ---- state
class Node(Struct):
    """A member. `number`: of its last registration; -1: in this life it has not registered."""
    member: Member
    connection: Connection | None
    heard: float
    number: int = -1
    report: Report | None = None
    draining: bool = False


class Head(Struct):
    """The global scheduler's state. Changed by `step` alone; made by `start`."""
    cluster: str
    epoch: int
    settings: Settings
    ledger: Ledger
    nodes: dict[int, Node]
    dead: dict[int, str]                                           # the last `MOST_DEAD`; the reason
    stepped: float                                                 # time of the last event
    ticked: float                                                  # time of the last `Tick`
    # nobody is declared dead before, as the head was asleep
    judge_from: float
    by_connection: dict[Connection, int] = field(default_factory=dict)
    awaited: set[int] = field(default_factory=set)                 # members of an earlier life that have not registered
    buried: deque[Node] = field(default_factory=lambda: deque(maxlen=N_DEAD_SHOWN))
    ended: bool = False
    story: deque[tuple[float, object]] = field(default_factory=lambda: deque(maxlen=N_STORY))


def start(cluster: str, epoch: int, now: float, settings: Settings = Settings(),
          members: Iterable[tuple[Member, bool]] = (),
          dead: dict[int, str] | None = None) -> Head:
    """A new life.

    Parameters
    ----------
    cluster : str
        Its name.
    epoch : int
        Greater than in any earlier life; the control store counts.
    members : iterable of (Member, bool)
        Who was a member when the earlier life ended, and whether it was draining.
    dead : dict of int to str
        Numbers that were declared dead or have left, and why; the oldest first.
    """
    head = Head(cluster, epoch, settings, Ledger(epoch * LEASES_PER_LIFE), {}, dict(dead or {}), now, now, now)
    for member, draining in members:
        head.nodes[member.node] = Node(member, None, now, draining=draining)
        books.add_node(head.ledger, member.node, member.total, member.labels)
        head.ledger.table[member.node].is_leaving = draining
        books.open_node(head.ledger, member.node, False)
        head.awaited.add(member.node)
    head.ledger.is_careful = bool(head.awaited)
    return head


def step(head: Head, event: Event, now: float) -> list[Action]:
    """Take in one event at time `now` (seconds, monotonic) and return what is to be done, in that order."""
    if head.ended:
        return []
    if now - head.stepped > head.settings.beat_s * BEATS_ASLEEP:
        head.judge_from = max(head.judge_from, now + head.settings.dead_after_s)
        head.story.append((now, f"was asleep for {now - head.stepped:.1f} s"))
    head.story.append((now, event))
    head.stepped = now
    grants: Grants = {}
    actions = _EVENTS[type(event)](head, event, now, grants)
    for (node, number), places in grants.items():
        actions += _to(head, [node], Grant(number, places))
    return actions


def next_deadline(head: Head) -> float:
    """When to send `Tick` at the latest."""
    return head.ticked + head.settings.tick_s


# ---- events
def _received(head: Head, event: Received, now: float, grants: Grants) -> list[Action]:
    message, connection = event.message, event.connection
    if isinstance(message, Register):
        return _register(head, connection, event.key, message, now, grants)
    if isinstance(message, _FROM_ANYBODY):
        return _MESSAGES[type(message)](head, connection, message, now, grants)
    node = head.nodes.get(head.by_connection.get(connection, 0))
    if node is None and isinstance(message, Leave) and message.node in head.nodes:
        # A goodbye counts although its connection's end was seen first: the key says whose it is, and nobody leaves twice.
        node = head.nodes[message.node] if head.nodes[message.node].member.key == event.key else None
    if node is None:
        said = message.node if not isinstance(message, Return) else 0
        reason = head.dead.get(said)
        return [Send((connection,), RegisterFirst() if reason is None else Lost(said, reason))]
    if not isinstance(message, Return) and message.node != node.member.node:
        return [Send((connection,),
                     Refused(f"This connection speaks for node {node.member.node:x}, not for {message.node:x}."))]
    node.heard = now
    return _MESSAGES[type(message)](head, connection, message, now, grants)


def _closed(head: Head, event: Closed, now: float, grants: Grants) -> list[Action]:
    number = head.by_connection.pop(event.connection, None)
    if number is not None:
        _disconnect(head, head.nodes[number])
    return []


def _disconnect(head: Head, node: Node) -> None:
    """Nothing is given to it or on it until it registers again, when it also asks again."""
    if node.connection is not None:
        head.by_connection.pop(node.connection, None)
    node.connection = None
    books.forget_asks(head.ledger, node.member.node)
    books.open_node(head.ledger, node.member.node, False)


def _tick(head: Head, event: Tick, now: float, grants: Grants) -> list[Action]:
    head.ticked = now
    actions: list[Action] = []
    if now >= head.judge_from:
        silent = [n for n, node in head.nodes.items() if now - node.heard > head.settings.dead_after_s]
        for number in sorted(silent):
            silence = now - head.nodes[number].heard
            actions += _lose(head, number, f"silent for {silence:.0f} s", now, grants)
    books.serve_groups(head.ledger, grants)
    for holder, keep in books.recalls(head.ledger, now).items():
        actions += _to(head, [holder], Recall(keep))
    return actions


# ---- membership
def _register(head: Head, connection: Connection, key: bytes, message: Register, now: float,
              grants: Grants) -> list[Action]:
    member, number = message.member, message.member.node
    node = head.nodes.get(number)
    answer = _why_not(head, node, key, message)
    if answer is not None:
        return [Send((connection,), answer),
                Say(f"{member.hostname}, node {number:x}, was not let in: {answer.reason}")]
    if node is not None and message.number <= node.number:
        return []  # it came late, on a connection that the agent has left
    actions: list[Action] = []
    if node is None or node.member != member:
        actions.append(Remember(member, node is not None and node.draining))
        others = tuple(c for n, other in head.nodes.items() if n != number and (c := other.connection) is not None)
        if others:
            actions.append(Send(others, Came(member)))
    if node is None:
        actions.append(Say(f"Node {number:x} has joined: {member.hostname} at {member.endpoint}."))
        node = head.nodes[number] = Node(member, None, now)
        books.add_node(head.ledger, number, member.total, member.labels)
    else:
        _disconnect(head, node)
        head.ledger.table[number].total, head.ledger.table[number].labels = member.total, member.labels
    previous = head.by_connection.get(connection)
    if previous is not None:
        _disconnect(head, head.nodes[previous])
    node.member, node.connection, node.number, node.heard, node.report = member, connection, message.number, now, None
    head.by_connection[connection] = number
    books.hold_exactly(head.ledger, number, message.held, now, grants)
    books.open_node(head.ledger, number, not node.draining)
    members = [other.member for other in head.nodes.values()]
    actions.append(Send((connection,), Registered(head.cluster, head.epoch, members, head.settings.beat_s,
                                                  head.settings.dead_after_s, head.settings.gone_after_s)))
    if node.draining:
        actions.append(Send((connection,), Drain(number)))
    return [*actions, *_arrived(head, number, now, grants)]


def _why_not(head: Head, node: Node | None, key: bytes, message: Register) -> Refused | Lost | None:
    member = message.member
    if message.version != CLUSTER_VERSION:
        return Refused(f"This cluster speaks version {CLUSTER_VERSION} of its protocol and {member.hostname} speaks "
                       f"{message.version}: "
                       "install the same version of cellmesh on both.")
    if member.key != key:
        return Refused("The key in the registration is not the one that the connection is encrypted with.")
    if member.node in head.dead:
        return Lost(member.node, head.dead[member.node])
    if node is not None and node.member.key != key:
        return Refused(f"Node {member.node:x} is another machine's.")
    if message.epoch > head.epoch:
        return Refused(f"{member.hostname} has seen life {message.epoch} of the head, and this is {head.epoch}: "
                       "its control store is an old copy.")
    if node is None and message.epoch:
        return Lost(member.node,
                    "this head does not know it: its control store is another one, or lacks its last entries")
    if node is None and len(head.nodes) >= MAX_NODES:
        return Refused(f"The cluster has {MAX_NODES} nodes, and that is as many as it can have.")
    if len(message.held) > MAX_HELD:
        return Refused(f"{member.hostname} says that it holds {len(message.held)} leases; {MAX_HELD} are possible.")
    return None


def _arrived(head: Head, number: int, now: float, grants: Grants) -> list[Action]:
    """One that the head has been waiting for since its start is here, or is gone for good."""
    if number not in head.awaited:
        return []
    head.awaited.discard(number)
    if head.awaited:
        return []
    books.trust_reports(head.ledger, now, grants)
    return _tell_hopeless(head, list(head.ledger.asks.values()))


def _lose(head: Head, number: int, reason: str, now: float, grants: Grants) -> list[Action]:
    """A node is no member any more; all are told, itself too."""
    node = head.nodes.pop(number)
    head.dead[number] = reason
    if len(head.dead) > MOST_DEAD:
        del head.dead[next(iter(head.dead))]
    head.buried.append(node)
    told = tuple(c for c in [*(n.connection for n in head.nodes.values()), node.connection] if c is not None)
    actions: list[Action] = [Bury(number, reason),
                             Say(f"Node {number:x} ({node.member.hostname}) is no member any more: {reason}.")]
    if told:
        actions.append(Send(told, Lost(number, reason)))
    if node.connection is not None:
        del head.by_connection[node.connection]
    books.remove_node(head.ledger, number, now, grants)
    return [*actions, *_arrived(head, number, now, grants), *_tell_hopeless(head, list(head.ledger.asks.values()))]


def _leave(head: Head, connection: Connection, message: Leave, now: float, grants: Grants) -> list[Action]:
    return _lose(head, message.node, HAS_LEFT, now, grants)


def _drain(head: Head, connection: Connection, message: Drain, now: float, grants: Grants) -> list[Action]:
    node = head.nodes.get(message.node)
    if node is None:
        return [Send((connection,), Refused(f"Node {message.node:x} is no member of the cluster."))]
    if node.draining:
        return []
    node.draining = True
    books.open_node(head.ledger, message.node, False)
    head.ledger.table[message.node].is_leaving = True
    actions: list[Action] = [Remember(node.member, True),
                             Say(f"Node {message.node:x} ({node.member.hostname}) drains."),
                             *_to(head, [message.node], message)]
    for holder, keep in books.recall_all(head.ledger, message.node).items():
        actions += _to(head, [holder], Recall(keep))
    return [*actions, *_tell_hopeless(head, list(head.ledger.asks.values()))]


def _end(head: Head, connection: Connection, message: End, now: float, grants: Grants) -> list[Action]:
    head.ended = True
    return [Say(f"The cluster ends: {message.reason}."), *_to(head, list(head.nodes), message), Stop(message.reason)]


# ---- places
def _report(head: Head, connection: Connection, message: Report, now: float, grants: Grants) -> list[Action]:
    node = head.nodes[message.node]
    node.report = message
    books.report(head.ledger, message.node, message.free, message.lent, now, grants)
    return [Send((connection,), Heard(message.number, head.ledger.is_wanted))]


def _ask(head: Head, connection: Connection, message: Ask | AskGroup, now: float, grants: Grants) -> list[Action]:
    number, key = message.node, (message.node, message.number)
    if key not in head.ledger.asks and len(head.ledger.accounts[number].asks) >= MAX_ASKS:
        return [Send((connection,), Infeasible(message.number,
                                               f"This node has {MAX_ASKS} open asks, and may have no more."))]
    if isinstance(message, AskGroup):
        asked = Waiting(number, message.number, int(bool(message.bundles)), {}, now, avoid=frozenset(message.avoid),
                        bundles=tuple(message.bundles), mode=message.mode)
    else:
        asked = Waiting(number, message.number, message.n, message.demand, now, message.strategy, message.near,
                        frozenset(message.avoid))
    books.ask(head.ledger, asked, now, grants)
    still = head.ledger.asks.get(key)
    return _tell_hopeless(head, [still] if still is not None else [])


def _tell_hopeless(head: Head, asks: list[Waiting]) -> list[Action]:
    return [action for ask, why in books.hopeless(head.ledger, asks)
            for action in _to(head, [ask.node], Infeasible(ask.number, why))]


def _return(head: Head, connection: Connection, message: Return, now: float, grants: Grants) -> list[Action]:
    for lease, n in message.places.items():
        books.give_back(head.ledger, head.by_connection[connection], lease, n, now, grants)
    return []


# ---- looking, the store
def _store_request(head: Head, connection: Connection, message: StoreRequest, now: float,
                   grants: Grants) -> list[Action]:
    return [Perform(connection, message)]


def _status_request(head: Head, connection: Connection, message: StatusRequest, now: float,
                    grants: Grants) -> list[Action]:
    return [Send((connection,), status(head, message.number, now))]


def status(head: Head, number: int, now: float) -> Status:
    """What the cluster looks like."""
    rows = [_row(node, "draining" if node.draining else "alive", now,
                 "" if node.connection is not None else "not connected")
            for node in head.nodes.values()]
    rows += [_row(node, "dead", now, head.dead[node.member.node]) for node in head.buried]
    return Status(number, head.cluster, head.epoch, rows, head.ledger.n_asked, head.ledger.n_granted)


def _row(node: Node, state: Literal["alive", "draining", "dead"], now: float, reason: str) -> NodeStatus:
    said = node.report
    if said is None:
        return NodeStatus(node.member, state, {}, 0, 0, 0, max(0.0, now - node.heard), reason)
    return NodeStatus(node.member, state, said.free, said.n_queued, said.used_bytes, said.size_bytes,
                      max(0.0, now - node.heard), reason, said.usage)


def _to(head: Head, nodes: Iterable[int], message: FromHead) -> list[Action]:
    to = tuple(c for number in nodes if (node := head.nodes.get(number)) is not None
               and (c := node.connection) is not None)
    return [Send(to, message)] if to else []


_Handler = Callable[[Head, Any, Any, float, Grants], list[Action]]
_EVENTS: dict[type, Callable[[Head, Any, float, Grants], list[Action]]] = {
    Received: _received, Closed: _closed, Tick: _tick}
_MESSAGES: dict[type, _Handler] = {Report: _report, Ask: _ask, AskGroup: _ask, Return: _return, Leave: _leave,
                                   Drain: _drain,
                                   StoreRequest: _store_request, StatusRequest: _status_request, End: _end}
_FROM_ANYBODY = (Drain, StatusRequest, End)   # commands come on connections of their own


def check(head: Head) -> None:
    """The invariants, as assertions; raises AssertionError with the first that does not hold."""
    books.check(head.ledger)
    assert head.nodes.keys() == head.ledger.accounts.keys() == head.ledger.table.keys(), "members and accounts differ"
    assert not head.nodes.keys() & head.dead.keys(), "somebody is a member and dead"
    assert head.by_connection == {node.connection: n for n, node in head.nodes.items() if node.connection is not None}
    assert head.awaited <= head.nodes.keys()
    assert head.ledger.is_careful == bool(head.awaited), "the books are careful exactly while members are awaited"
    for number, node in head.nodes.items():
        candidate = head.ledger.table[number]
        assert candidate.is_open == (node.connection is not None and not node.draining)
        assert candidate.is_leaving == node.draining
