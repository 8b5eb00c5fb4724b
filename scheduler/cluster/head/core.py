"""The global scheduler: `step(head, event, now) -> actions`. No clock, no socket and no store in here.

It knows who is a member, and grants leases on members' machines to members that ask (`ledger`). Tasks do not pass it:
an agent sends them straight to the node that it was granted, again and again, until it has none left. What cannot be
learnt again from the agents is kept in the control store before any agent is told: the members, the nodes that were
declared dead, the number of lives that the head has had.

Life of a head. It starts with the members that its store knows, and waits for them to register again; until all have,
or are lost, it believes no report more than is safe (`ledger.is_careful`) and calls nothing infeasible.

Death. A node that is declared dead is so for ever: its number is refused, what lived with it is forgotten, all are
told. The system sees to it that a connection ends with its process, and when the other machine has not answered for
`BREAKS_AFTER_S`. That alone is no death, as anything between the two may break a connection. So a node without a
connection is probed, and is dead

- when nothing listens there any more, where it has been found before, and it has not come back within `GRACE_S`: its
  process has ended;
- when it has neither registered nor answered a probe for what is left of `dead_after_s`: its machine is off, or its
  cable;
- when it says nothing for `Node.mute_s`, whatever its machine answers: it is stopped, or hangs.

Silence counts only while the head itself is awake. An event that comes long after `next_deadline` means that the head
was stopped, or its machine was asleep, and every node gets the whole time again. Silence is judged in `Tick` alone, and
the shell sends it only after having taken in everything that has arrived: a head that is behind with its reading must
not take its own slowness for the silence of nodes.

Connections. The shell chooses what a `Connection` is; the core only compares. A node is spoken for by the
connection on which it registered last; what comes on another is answered by `RegisterFirst`.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Container, Hashable, Iterable
from math import inf
from typing import Any, Literal

from msgspec import Struct, field, structs

from ...ipc.messages import HAS_LEFT
from ..leases import ledger
from ..leases.ledger import Grants, Ledger, Waiting
from ..messages import (
    CLUSTER_VERSION,
    MAX_ASKS,
    MAX_HELD,
    MAX_NODES,
    Ask,
    AskGroup,
    Came,
    Drain,
    End,
    FromHead,
    Grant,
    Heard,
    Infeasible,
    Leave,
    Lost,
    Member,
    NodeStatus,
    Recall,
    Refused,
    Register,
    Registered,
    RegisterFirst,
    Report,
    Return,
    Status,
    StatusRequest,
    StoreRequest,
    ToHead,
)
from ..net.probe import GRACE_S

LONGEST_HOST = 240  # characters of a host's name, in the name of a node
N_STORY = 200  # events kept for reports
MOST_DEAD = 100_000  # remembered, as the control store does
N_DEAD_SHOWN = 100  # of those that are gone, the latest are listed by `status`
LEASES_PER_LIFE = 1 << 40
BEATS_ASLEEP = 1.5  # an event comes so many beats after `next_deadline`: the head was stopped
N_OFTEN = 3  # so many nodes at rest report as often as one does; of more all together
MOST_RARELY = 5  # times rarer than one, at most
BREAKS_AFTER_S = (
    2.5  # so long a machine is silent when its connection breaks of that (`sockets`) and we hear of it, at most
)

Connection = Hashable


class Settings(Struct, frozen=True):
    """How often agents report while they have news, and after how long a silence of its machine a node is declared
    dead. `gone_after_s`: for agents, see `agent.core`."""

    beat_s: float = 1.0
    dead_after_s: float = 5.0
    gone_after_s: float = 60.0

    @property
    def tick_s(self) -> float:
        return self.beat_s / 2

    def rest_s(self, n_nodes: int) -> float:
        """How often agents report that have no news: the more there are, the rarer, so that the head rests, too."""
        return 1.2 * self.dead_after_s * min(max(1.0, n_nodes / N_OFTEN), MOST_RARELY)

    @property
    def away_s(self) -> float:
        """What is left of `dead_after_s` when a connection has broken."""
        return max(GRACE_S, self.dead_after_s - BREAKS_AFTER_S)


USUAL = Settings()


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


class Probed(Struct, frozen=True):
    """The machine has answered a `Probe`. `is_there`: a process listens at the node's address; False: there is none."""

    node: int
    is_there: bool


class Tick(Struct, frozen=True):
    """`next_deadline` has passed, and everything that had arrived by then has been taken in."""


Event = Received | Closed | Probed | Tick


# ---- actions
class Send(Struct, frozen=True):
    """One message to each of these connections. To one that has ended meanwhile: nothing."""

    to: tuple[Connection, ...]
    message: FromHead


class Remember(Struct, frozen=True):
    """Keep a member in the control store, before any later action."""

    member: Member
    draining: bool
    is_found: bool


class Evict(Struct, frozen=True):
    """Keep in the control store, before any later action, that a node is gone for ever, and delete the entries that
    lived with it."""

    node: int
    reason: str


class Perform(Struct, frozen=True):
    """Do a request to the control store, and send the reply to `to`."""

    to: Connection
    request: StoreRequest


class Probe(Struct, frozen=True):
    """See whether anything listens at a node's address; `Probed`, if there is an answer. Forget an earlier probe
    there."""

    node: int
    endpoint: str


class Say(Struct, frozen=True):
    """A line for the people who run the cluster."""

    text: str


class Stop(Struct, frozen=True):
    """Every agent has been told: end this process once that is sent."""

    reason: str


Action = Send | Remember | Evict | Perform | Probe | Say | Stop


# ---- state
class Node(Struct):
    """A member. `number`: of its last registration; -1: in this life it has not registered. `away`: since when it has
    no connection, if it has none; `answered`: when it last had one or answered a probe; `probed`: when it was last
    probed. `is_found`: the head has once found it at its address, so a refusal there is no firewall's. `rest_s`:
    how rarely it may report, the most that it has been told."""

    member: Member
    connection: Connection | None
    rest_s: float
    heard: float
    away: float
    answered: float
    probed: float = -inf
    is_found: bool = False
    number: int = -1
    report: Report | None = None
    draining: bool = False

    def overdue_s(self, settings: Settings) -> float:
        """After how long without a report the head looks often: so it knows whether it was awake itself before it
        judges."""
        return self.rest_s + settings.dead_after_s / 2

    def mute_s(self, settings: Settings) -> float:
        """How long it may say nothing although its machine answers: a node that has missed the last report may be
        stopped for `dead_after_s`."""
        return self.rest_s + settings.dead_after_s


class Head(Struct):
    """The global scheduler's state. Changed by `step` alone; made by `start`."""

    cluster: str
    epoch: int
    settings: Settings
    ledger: Ledger
    nodes: dict[int, Node]
    dead: dict[int, str]  # the last `MOST_DEAD`; the reason
    stepped: float  # time of the last event
    ticked: float  # time of the last `Tick`
    # no node is declared dead before, as the head was asleep
    judge_from: float
    # no node's report is overdue before
    overdue_at: float
    by_connection: dict[Connection, int] = {}
    awaited: set[int] = set()  # members of an earlier life that have not registered
    evicted: deque[Node] = field(default_factory=lambda: deque(maxlen=N_DEAD_SHOWN))
    ended: bool = False
    story: deque[tuple[float, object]] = field(default_factory=lambda: deque(maxlen=N_STORY))


def start(
    cluster: str,
    epoch: int,
    now: float,
    settings: Settings = USUAL,
    members: Iterable[tuple[Member, bool]] = (),
    dead: dict[int, str] | None = None,
    found: Container[int] = (),
) -> Head:
    """A new life.

    Parameters
    ----------
    cluster : str
        Its name.
    epoch : int
        Greater than in any earlier life; the control store counts.
    members : iterable of (Member, bool)
        The members when the earlier life ended, and whether each was draining.
    dead : dict of int to str
        Numbers that were declared dead or have left, and why; the oldest first.
    found : container of int
        Numbers of members that an earlier life has found at their addresses.
    """
    head = Head(cluster, epoch, settings, Ledger(epoch * LEASES_PER_LIFE), {}, dict(dead or {}), now, now, now, now)
    for member, draining in members:
        head.nodes[member.node] = Node(
            member, None, settings.rest_s(1), now, now, now, draining=draining, is_found=member.node in found
        )
        ledger.add_node(head.ledger, member.node, member.total, member.labels)
        head.ledger.table[member.node].is_leaving = draining
        ledger.open_node(head.ledger, member.node, False)
        head.awaited.add(member.node)
    head.ledger.is_careful = bool(head.awaited)
    head.overdue_at = _overdue_at(head, now)
    return head


def step(head: Head, event: Event, now: float) -> list[Action]:
    """Take in one event at time `now` (seconds, monotonic) and return what is to be done, in that order."""
    if head.ended:
        return []
    late_s = now - max(next_deadline(head), head.stepped)  # what has been due since the last event is no sign of sleep
    if late_s > head.settings.beat_s * BEATS_ASLEEP:
        head.judge_from = max(head.judge_from, now + head.settings.dead_after_s)
        head.story.append((now, f"was asleep for {late_s:.1f} s"))
    head.story.append((now, event))
    head.stepped = now
    grants: Grants = {}
    actions = _EVENTS[type(event)](head, event, now, grants)
    for (node, number), leases in grants.items():
        actions += _to(head, [node], Grant(number, leases))
    return actions


def next_deadline(head: Head) -> float:
    """When to send `Tick` at the latest. While no ask waits and all nodes are connected: when a report could be
    overdue."""
    if len(head.by_connection) < len(head.nodes):
        return min(head.ticked + min(head.settings.tick_s, GRACE_S / 2), max(head.ticked, head.overdue_at))
    if head.ledger.asks:
        return head.ticked + head.settings.tick_s
    return max(head.ticked + head.settings.tick_s, head.overdue_at)


# ---- events
def _received(head: Head, event: Received, now: float, grants: Grants) -> list[Action]:
    message, connection = event.message, event.connection
    if isinstance(message, Register):
        return _register(head, connection, event.key, message, now, grants)
    if isinstance(message, _FROM_ANYBODY):
        return _MESSAGES[type(message)](head, connection, message, now, grants)
    node = head.nodes.get(head.by_connection.get(connection, 0))
    if node is None and isinstance(message, Leave) and message.node in head.nodes:
        # A goodbye counts although its connection's end was seen first: the key says whose it is, and no node leaves
        # twice.
        node = head.nodes[message.node] if head.nodes[message.node].member.key == event.key else None
    if node is None:
        said = message.node if not isinstance(message, Return) else 0
        reason = head.dead.get(said)
        return [Send((connection,), RegisterFirst() if reason is None else Lost(said, reason))]
    if not isinstance(message, Return) and message.node != node.member.node:
        return [
            Send(
                (connection,),
                Refused(f"This connection speaks for node {node.member.node:x}, not for {message.node:x}."),
            )
        ]
    node.heard = now
    return _MESSAGES[type(message)](head, connection, message, now, grants)


def _closed(head: Head, event: Closed, now: float, grants: Grants) -> list[Action]:
    number = head.by_connection.pop(event.connection, None)
    if number is None:
        return []
    _disconnect(head, head.nodes[number], now)
    return [_probe(head.nodes[number], now)]


def _probe(node: Node, now: float) -> Probe:
    node.probed = now
    return Probe(node.member.node, node.member.endpoint)


def _probed(head: Head, event: Probed, now: float, grants: Grants) -> list[Action]:
    node = head.nodes.get(event.node)
    if node is None:
        return []
    if event.is_there:
        node.answered, was_found, node.is_found = now, node.is_found, True
        return [] if was_found else [_remember(node)]
    if node.connection is None and node.is_found and now - node.away >= GRACE_S and now >= head.judge_from:
        return _lose(
            head, event.node, f"its processes have ended: nobody listens at {node.member.endpoint}", now, grants
        )
    return []


def _remember(node: Node) -> Remember:
    return Remember(node.member, node.draining, node.is_found)


def _disconnect(head: Head, node: Node, now: float) -> None:
    """Nothing is given to it or on it until it registers again, when it also asks again."""
    if node.connection is not None:
        head.by_connection.pop(node.connection, None)
        node.away = node.answered = now
    node.connection = None
    ledger.forget_asks(head.ledger, node.member.node)
    ledger.open_node(head.ledger, node.member.node, False)


def _tick(head: Head, event: Tick, now: float, grants: Grants) -> list[Action]:
    head.ticked = now
    actions: list[Action] = []
    if now >= head.judge_from:
        for number in sorted(number for number, node in head.nodes.items() if _is_silent(head, node, now)):
            actions += _lose(head, number, f"silent for {_silence_s(head.nodes[number], now):.0f} s", now, grants)
    head.overdue_at = _overdue_at(head, now)
    if len(head.by_connection) < len(head.nodes):
        actions += [
            _probe(node, now)
            for node in head.nodes.values()
            if node.connection is None and now - node.probed >= GRACE_S
        ]
    ledger.serve_groups(head.ledger, grants)
    ledger.give_on_credit(head.ledger, now, grants)
    for holder, keep in ledger.recalls(head.ledger, now).items():
        actions += _to(head, [holder], Recall(keep))
    return actions


def _overdue_at(head: Head, now: float) -> float:
    settings = head.settings
    if len(head.by_connection) < len(head.nodes):
        lost_at = min(_away_until(head, node) for node in head.nodes.values() if node.connection is None)
        return max(lost_at, head.judge_from)
    return min(
        (node.heard + node.overdue_s(settings) for node in head.nodes.values()), default=now + settings.rest_s(1)
    )


def _silence_s(node: Node, now: float) -> float:
    if node.connection is not None or node.answered <= node.heard:
        return now - node.heard
    return min(now - node.heard, now - node.answered + BREAKS_AFTER_S)


def _is_silent(head: Head, node: Node, now: float) -> bool:
    settings = head.settings
    if now >= max(node.heard, node.away) + node.mute_s(settings):
        return True
    return node.connection is None and now >= _away_until(head, node)


def _away_until(head: Head, node: Node) -> float:
    """When a node without a connection is lost, if it says nothing before and its machine does not answer."""
    # One that this life has never heard may take longer to find it.
    away_s = head.settings.dead_after_s if node.member.node in head.awaited else head.settings.away_s
    return max(node.answered, node.heard) + away_s


# ---- membership
def _register(
    head: Head, connection: Connection, key: bytes, message: Register, now: float, grants: Grants
) -> list[Action]:
    member, number = message.member, message.member.node
    node = head.nodes.get(number)
    answer = _why_not(head, node, key, message)
    if answer is not None:
        return [
            Send((connection,), answer),
            Say(f"{member.hostname}, node {number:x}, was not let in: {answer.reason}"),
        ]
    if node is not None and message.number <= node.number:
        return []  # it came late, on a connection that the agent has left
    actions: list[Action] = []
    is_known = node is not None and node.member.hostname == member.hostname
    member = structs.replace(
        member, name=node.member.name if node is not None and is_known else _free_name(head, member.hostname)
    )
    if node is None or node.member != member:
        actions.append(Remember(member, node is not None and node.draining, node is not None and node.is_found))
        others = tuple(c for n, other in head.nodes.items() if n != number and (c := other.connection) is not None)
        if others:
            actions.append(Send(others, Came(member)))
    if node is None:
        actions.append(Say(f"Node {number:x} has joined: {member.called} at {member.endpoint}."))
        node = head.nodes[number] = Node(member, None, head.settings.rest_s(1), now, now, now)
        ledger.add_node(head.ledger, number, member.total, member.labels)
    else:
        _disconnect(head, node, now)
        head.ledger.table[number].total, head.ledger.table[number].labels = member.total, member.labels
    previous = head.by_connection.get(connection)
    if previous is not None:
        _disconnect(head, head.nodes[previous], now)
    node.member, node.connection, node.number, node.heard, node.report = member, connection, message.number, now, None
    head.by_connection[connection] = number
    ledger.hold_exactly(head.ledger, number, message.held, now, grants)
    ledger.open_node(head.ledger, number, not node.draining)
    for other in [
        other
        for n, other in head.nodes.items()
        if n != number and other.connection is None and other.member.endpoint == member.endpoint
    ]:
        actions += _lose(head, other.member.node, f"another node is at its address, {member.endpoint}", now, grants)
    members = [other.member for other in head.nodes.values()]
    actions.append(
        Send(
            (connection,),
            Registered(
                head.cluster,
                head.epoch,
                members,
                head.settings.beat_s,
                head.settings.dead_after_s,
                head.settings.gone_after_s,
            ),
        )
    )
    if not node.is_found:
        actions.append(_probe(node, now))
    if node.draining:
        actions.append(Send((connection,), Drain(number)))
    return [*actions, *_arrived(head, number, now, grants)]


def _free_name(head: Head, hostname: str) -> str:
    """For a node that joins: "" if no member is called like its host, else that with the first number that is free."""
    taken = {node.member.called for node in head.nodes.values()}
    names = itertools.chain(("",), (f"{hostname[:LONGEST_HOST]}-{i}" for i in itertools.count(2)))
    return next(name for name in names if (name or hostname) not in taken)


def _why_not(head: Head, node: Node | None, key: bytes, message: Register) -> Refused | Lost | None:
    member = message.member
    if message.version != CLUSTER_VERSION:
        return Refused(
            f"This cluster speaks version {CLUSTER_VERSION} of its protocol and {member.hostname} speaks "
            f"{message.version}: "
            "install the same version of cellmesh on both."
        )
    if member.key != key:
        return Refused("The key in the registration is not the one that the connection is encrypted with.")
    if member.node in head.dead:
        return Lost(member.node, head.dead[member.node])
    if node is not None and node.member.key != key:
        return Refused(f"Node {member.node:x} is another machine's.")
    if message.epoch > head.epoch:
        return Refused(
            f"{member.hostname} has seen life {message.epoch} of the head, and this is {head.epoch}: "
            "its control store is an old copy."
        )
    if node is None and message.epoch:
        return Lost(
            member.node, "this head does not know it: its control store is another one, or lacks its last entries"
        )
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
    ledger.trust_reports(head.ledger, now, grants)
    return _tell_hopeless(head, list(head.ledger.asks.values()))


def _lose(head: Head, number: int, reason: str, now: float, grants: Grants) -> list[Action]:
    """A node is no member any more; all are told, itself too."""
    node = head.nodes.pop(number)
    head.dead[number] = reason
    if len(head.dead) > MOST_DEAD:
        del head.dead[next(iter(head.dead))]
    head.evicted.append(node)
    told = tuple(c for c in [*(n.connection for n in head.nodes.values()), node.connection] if c is not None)
    actions: list[Action] = [
        Evict(number, reason),
        Say(f"Node {number:x} ({node.member.called}) is no member any more: {reason}."),
    ]
    if told:
        actions.append(Send(told, Lost(number, reason)))
    if node.connection is not None:
        del head.by_connection[node.connection]
    ledger.remove_node(head.ledger, number, now, grants)
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
    ledger.open_node(head.ledger, message.node, False)
    head.ledger.table[message.node].is_leaving = True
    actions: list[Action] = [
        _remember(node),
        Say(f"Node {message.node:x} ({node.member.called}) drains."),
        *_to(head, [message.node], message),
    ]
    for holder, keep in ledger.recall_all(head.ledger, message.node).items():
        actions += _to(head, [holder], Recall(keep))
    return [*actions, *_tell_hopeless(head, list(head.ledger.asks.values()))]


def _end(head: Head, connection: Connection, message: End, now: float, grants: Grants) -> list[Action]:
    head.ended = True
    return [Say(f"The cluster ends: {message.reason}."), *_to(head, list(head.nodes), message), Stop(message.reason)]


# ---- leases
def _report(head: Head, connection: Connection, message: Report, now: float, grants: Grants) -> list[Action]:
    node = head.nodes[message.node]
    node.report = message
    ledger.report(head.ledger, message, now, grants)
    node.rest_s = max(node.rest_s, head.settings.rest_s(len(head.nodes)))
    return [Send((connection,), Heard(message.number, head.ledger.is_wanted, node.rest_s))]


def _ask(head: Head, connection: Connection, message: Ask | AskGroup, now: float, grants: Grants) -> list[Action]:
    number, key = message.node, (message.node, message.number)
    if key not in head.ledger.asks and len(head.ledger.accounts[number].asks) >= MAX_ASKS:
        return [
            Send(
                (connection,), Infeasible(message.number, f"This node has {MAX_ASKS} open asks, and may have no more.")
            )
        ]
    if isinstance(message, AskGroup):
        asked = Waiting(
            number,
            message.number,
            int(bool(message.bundles)),
            {},
            now,
            avoid=frozenset(message.avoid),
            bundles=tuple(message.bundles),
            mode=message.mode,
        )
    else:
        asked = Waiting(
            number,
            message.number,
            message.n,
            message.demand,
            now,
            message.strategy,
            message.near,
            frozenset(message.avoid),
        )
    ledger.ask(head.ledger, asked, now, grants)
    still = head.ledger.asks.get(key)
    return _tell_hopeless(head, [still] if still is not None else [])


def _tell_hopeless(head: Head, asks: list[Waiting]) -> list[Action]:
    return [
        action
        for ask, why in ledger.hopeless(head.ledger, asks)
        for action in _to(head, [ask.node], Infeasible(ask.number, why))
    ]


def _return(head: Head, connection: Connection, message: Return, now: float, grants: Grants) -> list[Action]:
    for lease, n in message.leases.items():
        ledger.give_back(head.ledger, head.by_connection[connection], lease, n, now, grants)
    return []


# ---- looking, the store
def _store_request(
    head: Head, connection: Connection, message: StoreRequest, now: float, grants: Grants
) -> list[Action]:
    return [Perform(connection, message)]


def _status_request(
    head: Head, connection: Connection, message: StatusRequest, now: float, grants: Grants
) -> list[Action]:
    return [Send((connection,), status(head, message.number, now))]


def status(head: Head, number: int, now: float) -> Status:
    """What the cluster looks like."""
    rows = [
        _row(
            node, "draining" if node.draining else "alive", now, "" if node.connection is not None else "not connected"
        )
        for node in head.nodes.values()
    ]
    rows += [_row(node, "dead", now, head.dead[node.member.node]) for node in head.evicted]
    return Status(number, head.cluster, head.epoch, rows, head.ledger.n_asked, head.ledger.n_granted)


def _row(node: Node, state: Literal["alive", "draining", "dead"], now: float, reason: str) -> NodeStatus:
    said = node.report
    if said is None:
        return NodeStatus(node.member, state, {}, 0, 0, 0, max(0.0, now - node.heard), reason)
    return NodeStatus(
        node.member,
        state,
        said.free,
        said.n_queued,
        said.used_bytes,
        said.size_bytes,
        max(0.0, now - node.heard),
        reason,
        said.usage,
    )


def _to(head: Head, nodes: Iterable[int], message: FromHead) -> list[Action]:
    to = tuple(
        c for number in nodes if (node := head.nodes.get(number)) is not None and (c := node.connection) is not None
    )
    return [Send(to, message)] if to else []


_Handler = Callable[[Head, Any, Any, float, Grants], list[Action]]
_EVENTS: dict[type, Callable[[Head, Any, float, Grants], list[Action]]] = {
    Received: _received,
    Closed: _closed,
    Probed: _probed,
    Tick: _tick,
}
_MESSAGES: dict[type, _Handler] = {
    Report: _report,
    Ask: _ask,
    AskGroup: _ask,
    Return: _return,
    Leave: _leave,
    Drain: _drain,
    StoreRequest: _store_request,
    StatusRequest: _status_request,
    End: _end,
}
_FROM_ANYBODY = (Drain, StatusRequest, End)  # commands come on connections of their own


def check(head: Head) -> None:
    """The invariants, as assertions; raises AssertionError with the first that does not hold."""
    ledger.check(head.ledger)
    assert head.nodes.keys() == head.ledger.accounts.keys() == head.ledger.table.keys(), "members and accounts differ"
    assert not head.nodes.keys() & head.dead.keys(), "a node is a member and dead"
    assert head.by_connection == {node.connection: n for n, node in head.nodes.items() if node.connection is not None}
    assert head.awaited <= head.nodes.keys()
    assert head.ledger.is_careful == bool(head.awaited), "the ledger is careful exactly while members are awaited"
    called = [node.member.called for node in head.nodes.values()]
    assert len({*called}) == len(called), "two members are called the same"
    for number, node in head.nodes.items():
        candidate = head.ledger.table[number]
        assert candidate.is_open == (node.connection is not None and not node.draining)
        assert candidate.is_leaving == node.draining
