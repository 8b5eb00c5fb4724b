"""`python -m cellmesh.scheduler.cluster.agent SEGMENT CONFIG PARENT`: speaks for a session in its cluster.

Started by the local scheduler, with descriptors of the segment and of the `SessionConfig`. Ends with status 0 when the session is not
part of the cluster any more, see `local_scheduler.core.AgentExited`. If it dies, what ran elsewhere is retried, and another one begins:
as another node, for whom the others have nothing.

This is the shell: what is asked of the head, and which task goes where, `member` decides; what goes on with each other node is the
affair of an `exchange`. Here are the sockets, the clock and the segment's bell.
"""
from __future__ import annotations

import os
import secrets
import select
import signal
import socket
import sys
import time
from collections import Counter
from typing import Any

from ...objstore import _core
from .. import processes, transport
from ..machine_load import MachineLoad
from ..messages import HAS_LEFT, ClusterRequest, FromScheduler, Hello, NodeEvent, SessionConfig, WorkerOutput
from ..transport import Unreadable
from . import address, member, messages, sockets, strategies
from .broadcast import Tree
from .desk import Desk, DeskHooks
from .exchange import Exchange
from .farewells import Farewells
from .groups import GroupKey, Groups, Place
from .here import Here
from .keys import Cluster
from .lineage import Lineage
from .messages import Farewell
from .objects import ForeignFault
from .onlookers import Onlookers
from .origins import Origins
from .places import Demand, GroupPlaced, Send, TakeBack, Tell, Warn
from .prefetch import prefetch
from .records import Records
from .room import is_full, why_full
from .stream import Overrun
from .wire import HEAD, Connected, Disconnected, Faulty, HeadLink, Peers, Received, Rejected, Room

LINGER_S = 1.0        # for the goodbye to get out, at most
DRAINED_S = 1.0       # after its last task, and the last that was read of what lies here, a drained node leaves
SETTLE_S = 0.002      # tasks that could run at home, but for others that run there, go elsewhere after so long
SWEEP_S = 0.2         # how often to look for what is not referred to any more
LOOK_S = 1.0          # how often at what waits at home although nobody has rung
LATER_S = 1.0         # than the head calls a silent member dead: who cannot be reached for so long by us alone is of no use to us
UNIT = 10_000         # of amounts in messages
MOST_SHAPES = 1024    # of tasks of others are remembered

Amounts = tuple[tuple[str, int], ...]


class Agent:
    """This node's part in the cluster.

    Attributes
    ----------
    cluster : Cluster
    me : messages.Member
    over : str
        Why the session is no member any more; "" as long as it is.
    """

    def __init__(self, config: SessionConfig, client: _core.Client) -> None:
        assert config.cluster is not None
        self._client = client
        self.cluster = Cluster(config.cluster.folder)
        self._keys = sockets.new_pair()
        self._hostname = socket.gethostname()[:256]
        self._peers = Peers(self._keys, config.cluster.host, messages.ToPeer, config.cluster.port)
        total, _ = client.resources()
        self.me = messages.Member(secrets.randbits(62) | 1, self._peers.endpoint, self._keys.public, self._hostname, _shares(total),
                                  {messages.SESSION_LABEL: config.session, **config.cluster.labels})
        self._member = member.start(self.me, time.monotonic(), member.Settings(has_driver=not config.stays))
        self._head: HeadLink | None = None
        self._attempt = 0
        self._exchanges: dict[int, Exchange] = {}
        self._here = Here(client)
        self._lineage = Lineage(client, self._bring)
        self._runs = _core.Runs(client)
        self._tree = Tree()
        self._onlookers = Onlookers(self.me)
        self._load, self._usage, self._usage_at = MachineLoad(), messages.Usage(), 0.0
        self._origins = Origins()
        self._home = transport.connect(config.address, FromScheduler)   # what drivers hear
        self._home.send(Hello("agent", os.getpid()))
        self._farewells = Farewells()                     # members that are of no use for now
        self._unreachable: dict[int, float] = {}          # members -> since when
        self._refusing: set[int] = set()                  # members that have sent tasks back; until the next sweep
        self._demands: dict[int, dict[str, int]] = {}     # resource class -> what a task of it needs
        self._shapes: dict[tuple[Amounts, Amounts | None, int, Place], bytes] = {}
        self._by_place: set[int] = set()                  # classes some of whose tasks have large arguments
        self._directs = False                             # tasks that ask where to begin wait for the head's answer
        self._crowded: dict[int, float] = {}              # resource class -> since when its tasks find no room at home
        self._n_elsewhere = 0                             # tasks of ours that have ended elsewhere
        self._draining = False
        self._drained_from = 0.0
        self._has_news = True
        self._sweep_at = self._look_at = 0.0
        self._desk = Desk(client, self.me.node, lambda request: self._step(member.Request(request)), self._exchange, self._guarded,
                          lambda number: self._onlookers.asked(number, time.monotonic()))
        self._records = Records(client, self.me, 0 if config.stays else config.driver_pid, self._desk.tell, lambda: self._n_elsewhere)
        self._groups = Groups(client, self.me.node, self._step, self._exchange, self._guarded)
        self._poll = select.poll()
        self.over = ""

    # ---- the loop
    def run(self, stop: int) -> None:
        """Serve until that descriptor is readable, or there is nothing to be part of any more."""
        bell = self._client.bell()
        for fd in (stop, bell, self._peers.fileno(), self._home.fileno()):
            self._poll.register(fd, select.POLLIN)
        self._step(member.Tick())
        while not self.over:
            ready = {fd for fd, _ in self._poll.poll(self._pause_ms(time.monotonic()))}
            if stop in ready:
                self._records.close()
                self._step(member.Drained())
                break
            if bell in ready:
                os.read(bell, 8)
                self._has_news = True
            if self._home.fileno() in ready:
                self._hear_home()
            for event in self._peers.receive_ready():
                self._peer_event(event)
            for head_event in self._head.receive_ready() if self._head is not None else ():
                self._head_event(head_event)
            self._work(time.monotonic())
        for exchange in self._exchanges.values():
            exchange.close()
        if self._head is not None:
            self._head.close(LINGER_S)
        self._peers.close()
        self._direct(False)

    def _pause_ms(self, now: float) -> float:
        due = [member.next_deadline(self._member), self._look_at, *(since + SETTLE_S for since in self._crowded.values() if since + SETTLE_S > now),
               *(since + self._unreachable_s for since in self._unreachable.values()), self._onlookers.deadline, self._groups.deadline]
        if any(not exchange.is_quiet for exchange in self._exchanges.values()):
            due.append(self._sweep_at)
        return 0 if self._has_news else max(0.0, min(due) - now) * 1000

    def _work(self, now: float) -> None:
        looks_at_groups = self._has_news or now >= self._groups.deadline
        if looks_at_groups:
            self._has_news = False
            for node, exchange in list(self._exchanges.items()):
                self._guarded(node, exchange.look)
            self._has_news |= self._lineage.look()
            self._desk.look()
            prefetch(self._exchanges.values(), self._client.stats)
        self._here.look()
        self._count_ended()
        if now >= self._sweep_at:
            self._sweep_at = now + SWEEP_S
            self._peers.retry()
            self._say_farewells()
            for node in self._refusing:
                self._congested(node, node in self._exchanges and self._exchanges[node].is_congested)
            self._refusing.clear()
            self._here.sweep()
            for node, exchange in list(self._exchanges.items()):
                self._guarded(node, exchange.sweep, now)
            self._lineage.sweep()
            self._desk.sweep(now)
            self._records.look(now)
        for node in [node for node, since in self._unreachable.items() if now - since >= self._unreachable_s]:
            self._cut(node, f"it could not be reached for {self._unreachable_s:g} s")
        self._tell_waiting()
        self._look(now)
        if looks_at_groups:
            self._look_at_groups(now)
        if now >= member.next_deadline(self._member):
            self._step(member.Tick())
        self._tell_onlookers(now)
        if self._draining:
            if any(exchange.accepted or exchange.transfers.is_leaving for exchange in self._exchanges.values()):
                self._drained_from = now
            elif now - self._drained_from >= DRAINED_S:
                self._step(member.Drained())

    @property
    def _unreachable_s(self) -> float:
        return self._member.dead_after_s + LATER_S

    def _look_at_groups(self, now: float) -> None:
        """After `_look`, from which on we are told of what becomes of groups: what comes in between would be missed."""
        for node, exchange in list(self._exchanges.items()):
            self._guarded(node, exchange.bundles.look)
            heard, exchange.bundles.heard = exchange.bundles.heard, []
            for message in heard:
                self._groups.heard(node, message.group, message.indexes, message.given, now)
        self._groups.look(now)

    # ---- what waits at home
    def _look(self, now: float) -> None:
        self._look_at = now + LOOK_S
        if not self._directs and self._member.link == "up":
            self._direct(True)
        wants: list[Demand] = []
        waiting = 0
        crowded = {}
        self._by_place.clear()
        self._demands.clear()
        for index, n_ready, n_startable, demand, n_staying, asks, text, in_group, fits, near in self._client.surplus():
            self._demands[index] = demand
            if in_group:
                self._send_to_bundles(index, n_ready)
                continue
            if near:
                self._by_place.add(index)
            if asks:
                if self._directs:  # before the head has told who is there, nobody knows which nodes are not
                    wants += self._ask_where(index, n_ready, n_staying, text, near)
                continue
            n = n_ready - n_startable
            waiting += n
            if n > 0:
                crowded[index] = since = self._crowded.get(index, now)
                if now - since >= SETTLE_S or not fits:
                    wants.append(Demand((index, 0), demand, n, near=self._by_node(near), brings_much=self._brings_much(index)))
        self._crowded = crowded
        free, lent = self._client.room()
        stats = self._client.stats()
        self._step(member.Looked(tuple(wants), free, {name: min(amount, self.me.total.get(name, 0)) for name, amount in lent.items()}, waiting,
                                  stats["used_bytes"], stats["capacity_bytes"], stats["n_finished"] - self._n_elsewhere, self._usage_now(now)))

    def _send_to_bundles(self, index: int, n: int) -> None:
        """Tasks of a placement group go to those machines that have bundles of it, as many as there is room for."""
        for node, exchange in list(self._exchanges.items()):
            if exchange.bundles.has_ours and not exchange.is_congested:
                self._guarded(node, exchange.sent.send_tasks, index, n, self._demands[index], 0)

    def _usage_now(self, now: float) -> messages.Usage:
        if now >= self._usage_at + self._member.beat_s / 2:
            self._usage, self._usage_at = messages.Usage(self._load.processors(), *self._load.memory()), now
        return self._usage

    def _ask_where(self, index: int, n_ready: int, n_staying: int, text: str, near: dict[int, int]) -> list[Demand]:
        """What is to be asked for tasks that do not begin at home by themselves. `n_staying`: of them that cannot travel, besides."""
        try:
            strategy = strategies.resolve(strategies.from_text(text), self._member.members.values())
        except ValueError:
            strategy = None  # a task has written into the segment what the API would not
        if strategy is None:
            self._client.fail_unrouted(index, False)
            return []
        if n_staying and strategies.may_run_on(strategy, self.me):
            self._client.place_here(index, n_staying, True)
        elif n_staying:
            self._client.fail_unrouted(index, True)
        if strategy.kind == "node" and strategy.node == self.me.node and not strategy.soft:
            self._client.place_here(index, n_ready, False)
            return []
        return [Demand((index, strategy.node), self._demands[index], n_ready, strategy, self._by_node(near), self._brings_much(index))] if n_ready else []

    def _brings_much(self, index: int) -> bool:
        """Whether the last tasks of a class that were sent brought large arguments along."""
        return any(index in exchange.sent.heavy for exchange in self._exchanges.values())

    def _by_node(self, near: dict[int, int]) -> dict[int, int]:
        """Bytes by node instead of by proxy."""
        if not near:
            return {}
        nodes = {exchange.proxy.index: node for node, exchange in self._exchanges.items()} | {-1: self.me.node}
        return {nodes[index]: n for index, n in near.items() if index in nodes}

    def _direct(self, directs: bool) -> None:
        """Tasks that ask where to begin wait for the head's answer, or, if they may run anywhere, not any more."""
        self._directs = directs
        self._client.direct(_core.ROUTE_DIRECTED if directs else _core.ROUTE_UNDIRECTED)

    def _shape_of(self, demand: dict[str, int], hold: dict[str, int] | None, env: int, place: Place) -> bytes:
        key = tuple(sorted(demand.items())), None if hold is None else tuple(sorted(hold.items())), env, place
        if key not in self._shapes:
            if len(self._shapes) >= MOST_SHAPES:
                self._shapes.clear()
            self._shapes[key], _ = self._client.resource_class(_amounts(demand), None if hold is None else _amounts(hold), env, *place)
        return self._shapes[key]

    # ---- decisions
    def _step(self, event: member.Event) -> None:
        for action in member.step(self._member, event, time.monotonic()):
            self._perform(action)

    def _perform(self, action: member.Action) -> None:
        match action:
            case Tell(message):
                if self._head is not None:
                    self._head.send(message)
            case Send(lease, node, shape, n):
                self._send(lease, node, shape, n)
            case TakeBack(lease, node, _, n):
                self._take_back(lease, node, n)
            case GroupPlaced(GroupKey() as key, places):
                self._groups.placed(key, places, time.monotonic())
            case member.MemberCame(who):
                self._peers.add(who)
                self._onlookers.asked(0, time.monotonic())
            case member.MemberLost(node, reason):
                self._lose(node, reason)
            case member.Connect(attempt):
                self._connect(attempt)
            case member.BeginDrain(reason):
                self._draining, self._drained_from = True, time.monotonic()
                _say(f"this node is drained: {reason}")
            case Warn(GroupKey(number), reason):
                self._tell_drivers(f"Placement group {number} waits, as no machines of the cluster can hold its bundles: {reason}")
            case Warn(_, reason):
                self._tell_drivers(f"Tasks wait that no machine of the cluster can run: {reason}")
            case member.Pass(messages.StoreReply() as reply):
                self._desk.reply(reply)
            case member.HeadGone(reason):
                self._desk.refuse(reason)
                self._direct(False)
                self._tell_drivers(f"Nothing new goes to other machines: {reason}. What runs goes on.")
            case member.HeadBack():
                self._desk.refuse("")
                self._tell_drivers("The head of the cluster is back.")
            case member.Stop(_, reason):
                self.over = reason
            case member.Pass(messages.Status() as status):
                self._onlookers.answered(status)

    def _send(self, lease: int, node: int, shape: Any, n: int) -> None:
        index, _ = shape
        exchange = self._exchange(node)
        sent = 0
        if node == self.me.node:
            sent = self._here.send_tasks(index, n, lease)
        elif exchange is not None and index in self._demands:  # else none of them wait any more
            sent = self._guarded(node, exchange.sent.send_tasks, index, n, self._demands[index], lease, index in self._by_place) or 0
        self._step(member.Sent(lease, n, sent))
        if node in self._farewells:  # the head may grant it again and again
            self._step(member.PeerFailed(node))

    def _take_back(self, lease: int, node: int, n: int) -> None:
        if node == self.me.node:
            self._here.take_back(lease, n)
        elif node in self._exchanges:
            self._guarded(node, self._exchanges[node].sent.take_back, lease, n)
        self._has_news = True

    def _tell_waiting(self) -> None:
        """Which of our tasks wait where they were sent."""
        for place in (self._here, *(exchange.sent for exchange in self._exchanges.values())):
            waiting, place.waiting = place.waiting, {}
            for lease, n in waiting.items():
                self._step(member.Waits(lease, n))

    # ---- what tasks print
    def _hear_home(self) -> None:
        """What tasks of others have printed here goes to them. What is ours is none of our business, nor what has come from them."""
        try:
            for message, _ in self._home.arriving():
                if isinstance(message, ClusterRequest):
                    self._onlookers.asked(message.request, time.monotonic())
                where = self._origins.there(message.origin) if isinstance(message, WorkerOutput) else None
                exchange = self._exchanges.get(where[0]) if where is not None else None
                if where is not None and exchange is not None and self._peers.room(where[0]):
                    self._guarded(where[0], exchange.accepted.tell_output, message, where[1])
        except Unreadable as error:
            _say(f"a message of the local scheduler is lost: {error}")

    def _tell_drivers(self, text: str) -> None:
        _say(text)
        self._home.post(NodeEvent("cluster", text), droppable=True)

    def _tell_onlookers(self, now: float) -> None:
        """Whoever looks at the cluster from here is told by the head, or by us where that does not answer."""
        if self._head is not None and self._member.link == "up" and (number := self._onlookers.question()):
            self._head.send(messages.StatusRequest(number))
        for reply in self._onlookers.due(now, self._member.members.values()):
            (self._desk.nodes if reply.request < 0 else self._home.post)(reply)

    # ---- the others
    def _exchange(self, node: int) -> Exchange | None:
        """What there is with a node; None: it is no member, or of no use."""
        if node in self._exchanges or node in self._farewells or node not in self._member.members or node == self.me.node:
            return self._exchanges.get(node)

        def send(message: messages.Message, frame: bytes | None) -> None:
            self._peers.send(node, message, *(() if frame is None else (frame,)))
            if not self._peers.room(node):
                self._congested(node, True)

        def begin() -> None:
            self._exchanges[node] = Exchange(self._client, send, self._shape_of, self._bring, self._lineage, self._runs, node, self._tree,
                                             self._exchange, lambda number: self._origins.here(node, number),
                                             lambda number: self._origins.told(node, number))
        self._guarded(node, begin)
        return self._exchanges.get(node)

    def _congested(self, node: int, is_congested: bool) -> None:
        if node in self._exchanges:
            self._exchanges[node].is_congested = is_congested
            self._has_news |= not is_congested
        self._step(member.Congested(node, is_congested))

    def _guarded(self, node: int, call: object, *arguments: object) -> object:
        """What the other node says, or does not read, is its fault alone; what finds no room here ends with it."""
        try:
            return call(*arguments)  # type: ignore[operator]
        except ForeignFault as fault:
            self._cut(node, str(fault), for_good=True)
        except Overrun as error:
            self._cut(node, str(error))
        except _core.StoreError as error:
            if not is_full(error):
                raise
            self._cut(node, why_full(error), for_good=True)
        return None

    def _bring(self, slot: int) -> None:
        for node, exchange in list(self._exchanges.items()):
            self._guarded(node, exchange.transfers.fetch, slot)

    def _peer_event(self, event: object) -> None:
        match event:
            case Received(_, messages.Output(task, origin, stream, pid, text, bundle, name)):
                self._home.post(WorkerOutput(task, origin, stream, pid, text, bundle, name), droppable=True)
            case Received(node, Farewell() as farewell):
                self._part(node, farewell)
            case Received(node, message, payload):
                exchange = self._exchange(node)
                if exchange is not None:
                    self._guarded(node, exchange.receive, message, payload[0] if payload else b"", self._has_room)
                if isinstance(message, messages.Returned):
                    self._refusing.add(node)
                    self._step(member.Congested(node, True))
                self._has_news = True
            case Connected(node):
                self._unreachable.pop(node, None)
            case Disconnected(node, reason):
                _say(f"node {node:x} cannot be reached: {reason}")
                self._unreachable.setdefault(node, time.monotonic())
            case Room(node):
                self._congested(node, False)
            case Faulty(node, reason):
                self._cut(node, reason, for_good=True)

    def _has_room(self) -> bool:
        return not self._draining

    def _count_ended(self) -> None:
        for place in (self._here, *(exchange.sent for exchange in self._exchanges.values())):
            ended, place.ended = place.ended, Counter()
            self._n_elsewhere += ended.total() if place is not self._here else 0
            for lease, n in ended.items():
                self._step(member.Ended(lease, n))

    def _cut(self, node: int, reason: str, for_good: bool = False) -> None:
        """A member that this node can do nothing with now: what is between the two ends, on both sides."""
        self._unreachable.pop(node, None)
        if node in self._farewells:
            return
        _say(f"node {node:x} is cut off: {reason}")
        is_member = node in self._member.members
        if is_member:
            self._farewells.begin(node, Farewell(reason[:1000], for_good))
        self._end(node)
        if is_member:
            self._say_farewells()
            self._step(member.PeerFailed(node))

    def _say_farewells(self) -> None:
        for node, farewell in self._farewells.owed():
            try:
                self._peers.send(node, farewell)
            except Overrun:
                continue  # once it reads again; until then it hears of it from its own silence
            if self._farewells.said(node):
                _say(f"node {node:x} can be used again")

    def _part(self, node: int, farewell: Farewell) -> None:
        """It has ended what is between us."""
        self._cut(node, f"it says: {farewell.reason}", farewell.for_good)
        if node in self._farewells and self._farewells.heard(node, farewell):
            _say(f"node {node:x} can be used again")

    def _lose(self, node: int, reason: str) -> None:
        exchange = self._exchanges.get(node)
        n = len(exchange.sent) if exchange is not None else 0
        what = f" {n} of our tasks ran there, which run again where that is allowed." if n else ""
        if reason != HAS_LEFT:
            self._tell_drivers(f"Node {node:x} of the cluster is lost: {reason}.{what}")
        elif what:  # else a notebook somewhere has been closed, or a node is drained, and nobody here is concerned
            self._tell_drivers(f"Node {node:x} has left the cluster.{what}")
        self._peers.remove(node)
        self._unreachable.pop(node, None)
        self._farewells.forget(node)
        self._end(node)
        self._onlookers.lost(node, reason)
        self._onlookers.asked(0, time.monotonic())

    def _end(self, node: int) -> None:
        exchange = self._exchanges.pop(node, None)
        if exchange is not None:
            exchange.close()
            self._has_news = True
        self._groups.lost(node)
        self._desk.lost(node)

    # ---- the head
    def _connect(self, attempt: int) -> None:
        if self._head is not None:
            self._poll.unregister(self._head.fileno())
            self._head.close()
        self._attempt = attempt
        where = address.endpoint(*address.parse(self.cluster.address))
        self._head = HeadLink(self._keys, self.cluster.head_key, where, self.cluster.own_pair(), self._hostname)
        self._poll.register(self._head.fileno(), select.POLLIN)

    def _head_event(self, event: object) -> None:
        match event:
            case Connected():
                self._step(member.Connected(self._attempt))
            case Disconnected():
                self._step(member.Disconnected(self._attempt))
            case Rejected(reason, True):
                self.over = reason
            case Rejected(reason, False):
                _say(reason)
                self._step(member.Disconnected(self._attempt))
            case Received(node, message) if node == HEAD:
                self._step(member.HeadSaid(self._attempt, message))


def _amounts(shares: messages.Shares) -> dict[str, float]:
    return {name: amount / UNIT for name, amount in shares.items()}


def _shares(amounts: dict[str, float]) -> messages.Shares:
    return {name: int(amount * UNIT) for name, amount in amounts.items() if amount > 0}


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def main(segment_fd: int, config_fd: int, parent: int) -> int:
    """Run the agent; the exit status."""
    processes.die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _core.set_process_name("cellmesh-agent")
    os.umask(0o077)
    stop, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writer)
    signal.signal(signal.SIGTERM, lambda signum, frame: None)  # the byte in the pipe is what counts
    config = SessionConfig.from_bytes(processes.read_all(config_fd))
    agent = Agent(config, _core.Client(segment_fd, _core.ROLE_PROXY, DeskHooks()))
    agent.run(stop)
    if agent.over:
        _say(f"this session is not part of its cluster any more: {agent.over}")
        if config.stays:
            agent.cluster.note_end(config.session, agent.over)
    return 0


if __name__ == "__main__":
    sys.exit(main(*(int(argument) for argument in sys.argv[1:])))
