"""The shell of an agent: it makes events for the core of what it sees, and performs the core's actions.

There is one shell, for the agent's process, for the simulation of a cluster and for the tests that have several nodes
in one process; so whatever is tested there runs here, too. It knows the rest of the node by three interfaces only:

    Segment  the node's segment: what waits there, what becomes of it, and the processes that use it
    Network  the connections with the head and with the other nodes
    Peer     what goes on between this node and one other, over such a connection

and a clock. The order in which things are looked at, and how often, is decided here; what follows from what is seen, in
the core.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeVar, assert_never

from ....objstore._core import StoreError
from ...ipc.messages import HAS_LEFT, ClusterReply, EngineState, NodeEvent
from ..messages import GrantedLease, Member, Message, Reset, Returned, Shares, StatusRequest, StoreReply, ToHead, ToPeer
from ..net.reliable import Overrun
from ..peer.capacity import is_full, why_full
from ..peer.objects import ForeignFault
from . import core, events
from .events import Action, Event, Waiting
from .groups import GroupKey
from .status_feed import StatusFeed

SWEEP_S = 0.2  # how often to look how far tasks of others are, and for what is not referred to any more
REST_SWEEP_S = 1.6  # and at most, twice as long each time, while there are no such tasks and nothing happens

T = TypeVar("T")


class TasksOut(Protocol):
    """Tasks of this node that were sent somewhere.

    Attributes
    ----------
    ended : Counter
        By lease: how many run there no more; for the shell to count and to replace.
    waiting : dict
        News, by lease: how many wait there for room; likewise.
    """

    ended: Counter[int]
    waiting: dict[int, int]


class PeerTasksOut(TasksOut, Protocol):
    """Those that were sent to one other node."""

    def __len__(self) -> int: ...

    def send_tasks(self, resource_class: int, most: int, demand: Shares, lease: int, by_place: bool = False) -> int:
        """Send up to `most` waiting tasks of a class, `by_place` those first whose arguments lie there; how many there
        were."""
        ...

    def take_back(self, lease: int, n: int) -> None:
        """Ask for up to `n` of those that wait there under a lease."""
        ...


class Peer(Protocol):
    """This node's side of what it has to do with one other, see `peer.peer`."""

    is_congested: bool

    @property
    def tasks_out(self) -> PeerTasksOut: ...

    @property
    def is_quiet(self) -> bool:
        """Whether `sweep` would find nothing to do."""
        ...

    @property
    def is_at_work(self) -> bool:
        """Whether tasks of the peer are here."""
        ...

    @property
    def is_guest(self) -> bool:
        """Whether tasks of the peer are here, or objects that it is reading."""
        ...

    @property
    def has_bundles(self) -> bool:
        """Whether placement groups of this node have bundles there."""
        ...

    def receive(self, message: ToPeer, frame: Any, has_room: Callable[[], bool]) -> None:
        """Take in what the other node says."""
        ...

    def look(self) -> None:
        """The segment has news."""
        ...

    def sweep(self, now: float) -> None:
        """Some time has passed."""
        ...

    def close(self) -> None:
        """What is between the two has ended."""
        ...


class LocalTasks(TasksOut, Protocol):
    """Tasks for which the head has granted a lease on this very node."""

    def send_tasks(self, resource_class: int, most: int, lease: int) -> int:
        """Have up to `most` waiting tasks of a class begin here; returns how many there were."""
        ...

    def look(self) -> object:
        """See what has ended."""
        ...

    def sweep(self) -> None:
        """Note what waits for longer than from one sweep to the next."""
        ...

    def take_back(self, lease: int, n: int) -> None:
        """Up to `n` of those that wait under a lease ask again where to begin."""
        ...


class Segment(Protocol):
    """The node's segment, and what the agent does for the processes that use it."""

    @property
    def local_tasks(self) -> LocalTasks: ...

    @property
    def deadline(self) -> float:
        """When to call `look_at_groups`, whatever happens."""
        ...

    def survey(self, now: float) -> events.Looked:
        """What the core is to know of the segment."""
        ...

    def begin(self, node: int, send: Callable[[Message, bytes | None], None]) -> Peer:
        """What goes on with a node from now on; `send` takes what is for it."""
        ...

    def look(self) -> bool:
        """The segment has news, and the peers have looked. True: there may be more already."""
        ...

    def look_at_groups(self, now: float) -> None:
        """See what has become of placement groups. After `survey`: from then on changes are notified."""
        ...

    def sweep(self, now: float) -> None:
        """Some time has passed."""
        ...

    def place_here(self, index: int, n: int, staying: bool) -> None:
        """Perform `PlaceHere`."""
        ...

    def fail_unrouted(self, index: int, staying: bool) -> None:
        """Perform `FailUnrouted`."""
        ...

    def direct(self, directs: bool) -> None:
        """Perform `Direct`."""
        ...

    def group_placed(self, key: GroupKey, leases: tuple[GrantedLease, ...], now: float) -> None:
        """Perform `GroupPlaced`."""
        ...

    def ended(self, node: int) -> None:
        """What was between this node and that one has ended, and the peer is closed."""
        ...

    def answered(self, reply: StoreReply) -> None:
        """The control store answers a request that was made here."""
        ...

    def refuse(self, reason: str) -> None:
        """The head cannot be asked, for that reason; "": it can again."""
        ...

    def post(self, message: NodeEvent | ClusterReply | EngineState) -> None:
        """For the drivers of this node."""
        ...

    def say(self, text: str) -> None:
        """A line for the agent's log."""
        ...


class Network(Protocol):
    """The connections of a node. What arrives is given to the shell: `step`, `receive`, `congested`."""

    @property
    def deadline(self) -> float:
        """When to call `tick` at the latest."""
        ...

    def tick(self, now: float) -> None:
        """Some time has passed."""
        ...

    def connect(self, attempt: int) -> None:
        """Perform `Connect`."""
        ...

    def tell(self, message: ToHead) -> None:
        """Send to the head, if there is a connection."""
        ...

    def add(self, member: Member) -> None:
        """That node may be sent to, and heard."""
        ...

    def remove(self, node: int) -> None:
        """Not any more."""
        ...

    def send(self, node: int, message: Message, frame: bytes | None = None) -> None:
        """Send to a node; raises `Overrun` when it has not read for long."""
        ...

    def room(self, node: int) -> int:
        """How many bytes go to a node at once. After a 0 the network says when there is room again."""
        ...

    def probe(self, node: int, endpoint: str) -> None:
        """Perform `Probe`."""
        ...


class Shell:
    """The shell of one agent.

    Parameters
    ----------
    agent_core : Core
        As `core.start` makes it.
    clock : callable () -> float
        Seconds, monotonic.
    segment : Segment
    network : Network

    Attributes
    ----------
    over : str
        Why the node is no member any more; "" as long as it is.
    peers : dict
        By node, where there has been something to say.
    has_news : bool
        Whether the segment has to be looked at; to be set when its wake fd is readable.
    """

    def __init__(self, agent_core: core.Core, clock: Callable[[], float], segment: Segment, network: Network) -> None:
        self.core, self._clock, self._segment, self._network = agent_core, clock, segment, network
        self.peers: dict[int, Peer] = {}
        self.status_feed = StatusFeed(agent_core.me)
        self.over = ""
        self.has_news = True
        self._names: dict[int, str] = {}  # of members, for people
        self._rows: dict[int, Waiting] = {}  # what waited when this node was looked at last, by class
        self._sweep_at, self._sweep_s = 0.0, SWEEP_S

    # ---- time
    @property
    def deadline(self) -> float:
        """When to call `work` at the latest."""
        if self.has_news:
            return self._clock()
        due = [
            core.next_deadline(self.core),
            core.next_look(self.core),
            self._network.deadline,
            self.status_feed.deadline,
            self._segment.deadline,
        ]
        if any(not peer.is_quiet for peer in self.peers.values()):
            due.append(self._sweep_at)
        return min(due)

    def work(self) -> None:
        """Do what is to be done after something has happened, or when time has passed."""
        now = self._clock()
        looks_at_groups = self.has_news or now >= self._segment.deadline
        if looks_at_groups:
            self.has_news = False
            self._sweep_s, self._sweep_at = SWEEP_S, min(self._sweep_at, now + SWEEP_S)
            for node, peer in list(self.peers.items()):
                self.guarded(node, peer.look)
            self.has_news |= self._segment.look()
        self._segment.local_tasks.look()
        self._count_ended()
        if now >= self._sweep_at:
            self.sweep(now)
        self._network.tick(now)
        self._tell_waiting()
        self._look(now)
        if looks_at_groups:
            self._segment.look_at_groups(now)
        if now >= core.next_deadline(self.core):
            self.step(events.Tick())
        self._tell_status(now)

    def sweep(self, now: float) -> None:
        """Do what is due now and then."""
        is_at_work = any(peer.is_at_work for peer in self.peers.values())
        self._sweep_s = SWEEP_S if is_at_work else min(2 * self._sweep_s, REST_SWEEP_S)
        self._sweep_at = now + self._sweep_s
        self._segment.local_tasks.sweep()
        for node, peer in list(self.peers.items()):
            self.guarded(node, peer.sweep, now)
        self._segment.sweep(now)

    def _look(self, now: float) -> None:
        looked = self._segment.survey(now)
        self._rows = {row.index: row for row in looked.waiting}
        self.step(looked)

    def _count_ended(self) -> None:
        here = self._segment.local_tasks
        for tasks in (here, *(peer.tasks_out for peer in self.peers.values())):
            ended, tasks.ended = tasks.ended, Counter()
            for lease, n in ended.items():
                self.step(events.Ended(lease, n, tasks is not here))

    def _tell_waiting(self) -> None:
        """Which of our tasks wait where they were sent."""
        for tasks in (self._segment.local_tasks, *(peer.tasks_out for peer in self.peers.values())):
            waiting, tasks.waiting = tasks.waiting, {}
            for lease, n in waiting.items():
                self.step(events.Waits(lease, n))

    # ---- decisions
    def step(self, event: Event) -> None:
        """Have the core take in an event, and perform what it decides."""
        for action in core.step(self.core, event, self._clock()):
            self.perform(action)

    def perform(self, action: Action) -> None:
        """Carry out one action."""
        match action:
            case events.Tell(message):
                self._network.tell(message)
            case events.Send():
                self._send(action)
            case events.SendToBundles(index, n):
                self._send_to_bundles(index, n)
            case events.TakeBack(lease, node, _, n):
                self._take_back(lease, node, n)
            case events.PlaceHere(index, n, staying):
                self._segment.place_here(index, n, staying)
            case events.FailUnrouted(index, staying):
                self._segment.fail_unrouted(index, staying)
            case events.Direct(directs):
                self._segment.direct(directs)
            case events.GroupPlaced(key, leases):
                assert isinstance(key, GroupKey)
                self._segment.group_placed(key, leases, self._clock())
            case events.MemberCame(who):
                self._network.add(who)
                self._names[who.node] = who.called
                self.status_feed.news(self._clock())
            case events.MemberLost(node, reason):
                self._lose(node, reason)
            case events.EndPeer(node):
                self._end(node)
            case events.SayReset(node, reset):
                self._say_reset(node, reset)
            case events.Probe(node, endpoint):
                self._network.probe(node, endpoint)
            case events.Connect(attempt):
                self._network.connect(attempt)
            case events.BeginDrain(reason):
                self._segment.say(f"this node is drained: {reason}")
            case events.Warn(GroupKey(number), reason):
                self.tell_drivers(
                    f"Placement group {number} waits, as no machines of the cluster can hold its bundles: {reason}"
                )
            case events.Warn(_, reason):
                self.tell_drivers(f"Tasks wait that no machine of the cluster can run: {reason}")
            case events.Pass(message):
                if isinstance(message, StoreReply):
                    self._segment.answered(message)
                else:
                    self.status_feed.answered(message)
            case events.HeadGone(reason):
                self._segment.refuse(reason)
                self.tell_drivers(f"Nothing new goes to other machines: {reason}. What runs goes on.")
            case events.HeadBack():
                self._segment.refuse("")
                self.tell_drivers("The head of the cluster is back.")
            case events.Say(text):
                self._segment.say(text)
            case events.Stop(_, reason):
                self.over = reason
            case _:
                assert_never(action)

    def _send(self, action: events.Send) -> None:
        index, _ = action.shape
        row, sent = self._rows.get(index), 0
        if action.node == self.core.me.node:
            sent = self._segment.local_tasks.send_tasks(index, action.n, action.lease)
        elif row is not None and (peer := self.peer(action.node)) is not None:  # else none of them wait any more
            terms = index, action.n, row.demand, action.lease, bool(row.near)
            sent = self.guarded(action.node, peer.tasks_out.send_tasks, *terms)
        self.step(events.Sent(action.lease, action.n, sent or 0))

    def _send_to_bundles(self, index: int, n: int) -> None:
        row = self._rows[index]
        for node, peer in list(self.peers.items()):
            if peer.has_bundles and not peer.is_congested:
                self.guarded(node, peer.tasks_out.send_tasks, index, n, row.demand, 0)

    def _take_back(self, lease: int, node: int, n: int) -> None:
        if node == self.core.me.node:
            self._segment.local_tasks.take_back(lease, n)
        elif (peer := self.peers.get(node)) is not None:
            self.guarded(node, peer.tasks_out.take_back, lease, n)
        self.has_news = True

    # ---- people
    def log(self, text: str) -> None:
        """A line for the agent's log."""
        self._segment.say(text)

    def tell_engine(self, state: EngineState) -> None:
        """What is known of the engine, for drivers."""
        self._segment.post(state)

    def tell_drivers(self, text: str) -> None:
        """A sentence for the people at this node."""
        self._segment.say(text)
        self._segment.post(NodeEvent("cluster", text))

    def _tell_status(self, now: float) -> None:
        """Answer those who look at the cluster from here: by the head, or by this agent where the head does not
        answer."""
        for reply in self.status_feed.due(now, self.core.members.values()):
            self._segment.post(reply)
        if self.core.link == "up" and (number := self.status_feed.question()):
            self._network.tell(StatusRequest(number))

    # ---- the others
    def peer(self, node: int) -> Peer | None:
        """What there is with a node; None: it is no member, or of no use."""
        mine = self.core
        if node in self.peers or mine.reach.is_cut(node) or node not in mine.members or node == mine.me.node:
            return self.peers.get(node)

        def begin() -> None:
            self.peers[node] = peer = self._segment.begin(node, partial(self._send_to, node))
            peer.is_congested = node in mine.reach.choked

        self.guarded(node, begin)
        return self.peers.get(node)

    def _send_to(self, node: int, message: Message, frame: bytes | None = None) -> None:
        self._network.send(node, message, frame)
        if not self._network.room(node):
            self.congested(node, True)

    def guarded(self, node: int, call: Callable[..., T], *arguments: Any) -> T | None:
        """What the other node says, or does not read, is its fault alone; what finds no room here ends with it."""
        try:
            return call(*arguments)
        except ForeignFault as fault:
            self.step(events.PeerFaulty(node, str(fault), for_good=True))
        except Overrun as error:
            self.step(events.PeerFaulty(node, str(error), for_good=False))
        except StoreError as error:
            if not is_full(error):
                raise
            self.step(events.PeerFaulty(node, why_full(error), for_good=True))
        return None

    def has_room(self) -> bool:
        """Whether tasks of others may begin here."""
        return self.core.is_open

    def receive(self, node: int, message: ToPeer, frame: Any = b"") -> None:
        """A node says something."""
        if isinstance(message, Reset):
            self.step(events.ResetHeard(node, message))
            return
        peer = self.peer(node)
        if peer is not None:
            self.guarded(node, peer.receive, message, frame, self.has_room)
        if isinstance(message, Returned):
            self.step(events.SentBack(node))
        self.has_news = True

    def congested(self, node: int, is_congested: bool) -> None:
        """What is sent to a node waits, or does not any more."""
        if node in self.peers:
            self.peers[node].is_congested = is_congested
            self.has_news |= not is_congested
        self.step(events.Congested(node, is_congested))

    def _say_reset(self, node: int, reset: Reset) -> None:
        try:
            self._send_to(node, reset)
        except Overrun:
            return  # once it reads again; until then it hears of it from its own silence
        self.step(events.ResetSaid(node))

    def _lose(self, node: int, reason: str) -> None:
        peer, name = self.peers.get(node), self._names.pop(node, "")
        n = len(peer.tasks_out) if peer is not None else 0
        name += f" ({node:x})" if name else f"{node:x}"
        what = f" {n} of our tasks ran there, which run again where that is allowed." if n else ""
        if reason != HAS_LEFT:
            self.tell_drivers(f"Node {name} of the cluster is lost: {reason}.{what}")
        elif (
            what
        ):  # else a notebook somewhere has been closed, or a node is drained, and no task of this node is concerned
            self.tell_drivers(f"Node {name} has left the cluster.{what}")
        self._network.remove(node)
        self._end(node)
        self.status_feed.lost(node, reason)
        self.status_feed.news(self._clock())

    def _end(self, node: int) -> None:
        peer = self.peers.pop(node, None)
        if peer is not None:
            peer.close()
            self.has_news = True
        self._segment.ended(node)

    def close(self) -> None:
        """The agent ends: so does what it has begun."""
        for peer in self.peers.values():
            peer.close()
        self._segment.direct(False)
