"""A simulated node: the shell and the core of an agent, as they ship, on as much of a segment as they see.

`Machine` is the node, with a clock and a network that are not real; `SimulatedSegment` what its agent sees of it, and
`SimulatedPeer` what goes on between it and one other node. Both follow the rules of the real ones (`agent.segment`,
`peer.peer`) as far as decisions depend on them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from math import inf
from typing import TYPE_CHECKING, Any

from cellmesh.scheduler.cluster import placement
from cellmesh.scheduler.cluster.agent import core, events, strategies
from cellmesh.scheduler.cluster.agent.groups import GroupKey
from cellmesh.scheduler.cluster.agent.shell import Shell
from cellmesh.scheduler.cluster.agent.strategies import Wish
from cellmesh.scheduler.cluster.messages import (
    SESSION_LABEL,
    GiveBack,
    GrantedLease,
    Member,
    Queued,
    Returned,
    StoreReply,
    StoreRequest,
    Strategy,
)
from cellmesh.scheduler.ipc.messages import ClusterReply, NodeEvent
from cluster.simulated.network import SimulatedNetwork
from cluster.simulated.world import Process, Wire
from msgspec import Struct

if TYPE_CHECKING:
    from cluster.simulated.simulation import Cluster

ANYWHERE = Wish()
RING_S = 0.005  # from a change in the segment to when its agent looks


def session_of(node: int) -> str:
    """The session of a node, by which its tasks' wishes name it."""
    return f"session-{node}"


class Work(Struct):
    """What tasks of one resource class need. `stays`: they cannot travel."""

    index: int
    demand: dict[str, int]
    wish: Wish
    near: dict[int, int]
    stays: bool

    @property
    def asks(self) -> bool:
        """Whether the head is to say where they run, if it can."""
        return self.wish != ANYWHERE

    @property
    def waits(self) -> bool:
        """Whether they run nowhere else, even if nobody says so."""
        return bool(self.wish.labels) or (self.wish.kind == "node" and not self.wish.soft)


class Task:
    """One task of a driver. `attempt` grows with every loss; `is_placed`: told to begin at home, without a lease."""

    __slots__ = ("attempt", "duration_s", "is_placed", "lease", "node", "number", "origin", "state", "work")

    def __init__(self, number: int, origin: Machine, work: Work, duration_s: float) -> None:
        self.number, self.origin, self.work, self.duration_s = number, origin, work, duration_s
        self.attempt, self.state, self.lease, self.node, self.is_placed = 0, "waiting", 0, 0, False

    @property
    def key(self) -> int:
        """Of this attempt, among all that there are."""
        return self.number * 1000 + self.attempt


class Entry:
    """A task in a node's queue, or running there. `peer`: from whom it came; None: it is this node's own."""

    __slots__ = ("key", "lease", "peer", "task")

    def __init__(self, task: Task, lease: int, peer: SimulatedPeer | None) -> None:
        self.task, self.key, self.lease, self.peer = task, task.key, lease, peer

    @property
    def is_lent(self) -> bool:
        return self.peer is not None or self.lease != 0 or self.task.is_placed


class Run(Struct):
    """One peer to the other: run these."""

    tasks: list[tuple[Task, int]]  # and its key


class Done(Struct):
    """And back: they have ended."""

    keys: list[int]


class TasksOut:
    """See `agent.shell.TasksOut`."""

    def __init__(self) -> None:
        self.ended: Counter[int] = Counter()
        self.waiting: dict[int, int] = {}


class SimulatedLocalTasks(TasksOut):
    """See `local_tasks.LocalTasks`."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self._machine = machine
        self._waited: set[int] = set()
        self._told: Counter[int] = Counter()

    def send_tasks(self, resource_class: int, most: int, lease: int) -> int:
        taken = self._machine.take(resource_class, most)
        for task in taken:
            task.state, task.lease = "placed", lease
            self._machine.queue.append(Entry(task, lease, None))
        self._machine.schedule()
        return len(taken)

    def look(self) -> object:
        return None

    def sweep(self) -> None:
        waiting = {entry.key: entry.lease for entry in self._machine.queue if entry.peer is None and entry.lease}
        leases = Counter(lease for key, lease in waiting.items() if key in self._waited)
        self._waited = set(waiting)
        self.waiting = {lease: leases[lease] for lease in {*leases, *self._told}}
        self._told = leases

    def take_back(self, lease: int, n: int) -> None:
        machine = self._machine
        for entry in [entry for entry in machine.queue if entry.peer is None and entry.lease == lease][:n]:
            machine.queue.remove(entry)
            machine.again(entry.task)
            self.ended[lease] += 1
        machine.cluster.n_taken_back += n


class SimulatedTasksOut(TasksOut):
    """See `tasks_out.TasksOut`."""

    def __init__(self, peer: SimulatedPeer) -> None:
        super().__init__()
        self._peer = peer
        self.tasks: dict[int, tuple[Task, int]] = {}  # by key; and the lease
        self._queued: dict[int, None] = {}
        self._crowded: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self.tasks)

    def send_tasks(
        self, resource_class: int, most: int, demand: dict[str, int], lease: int, by_place: bool = False
    ) -> int:
        machine = self._peer.machine
        machine.world.must(not self._peer.is_closed, f"{machine} sends to {self._peer.node}, which it has given up")
        line = machine.network.lines[self._peer.node]
        machine.world.must(
            line.full_since >= machine.world.now, f"{machine} sends tasks to {self._peer.node}, which does not read"
        )
        taken = machine.take(resource_class, most)
        for task in taken:
            task.state, task.lease, task.node = "away", lease, self._peer.node
            self.tasks[task.key] = task, lease
        if taken:
            self._peer.send(Run([(task, lease) for task in taken]))
        return len(taken)

    def take_back(self, lease: int, n: int) -> None:
        keys = [key for key in self._queued if key in self.tasks and self.tasks[key][1] == lease][-n:]
        for key in keys:
            del self._queued[key]
        self._peer.machine.cluster.n_taken_back += len(keys)
        if keys:
            self._peer.send(GiveBack(keys))

    def done(self, keys: list[int]) -> None:
        for key in keys:
            task = self._pop(key)
            self._peer.machine.seal(task, is_away=True)

    def returned(self, keys: list[int]) -> None:
        for key in keys:
            self._peer.machine.again(self._pop(key))

    def _pop(self, key: int) -> Task:
        machine = self._peer.machine
        machine.world.must(
            key in self.tasks, f"{machine} hears of task {key} from {self._peer.node}, which has none such"
        )
        task, lease = self.tasks.pop(key)
        self._queued.pop(key, None)
        machine.world.must(task.key == key and task.state == "away", f"{machine} has run task {key} again, and sent it")
        self.ended[lease] += 1
        return task

    def note_queued(self, keys: list[int]) -> None:
        self._queued = dict.fromkeys(key for key in keys if key in self.tasks)
        before, self._crowded = self._crowded, Counter(self.tasks[key][1] for key in self._queued)
        self.waiting = {lease: self._crowded[lease] for lease in {*before, *self._crowded}}


class SimulatedPeer:
    """See `peer.peer.Peer`."""

    has_bundles = False

    def __init__(self, machine: Machine, node: int, send: Callable[[Any, None], None]) -> None:
        self.machine, self.node, self._send = machine, node, send
        self.is_congested = self.is_closed = False
        self.tasks_out = SimulatedTasksOut(self)
        self.n_here = 0
        self._done: list[int] = []
        self._waited: set[int] = set()
        self._has_told = False

    def send(self, message: Any) -> None:
        self._send(message, None)

    @property
    def is_at_work(self) -> bool:
        return self.n_here > 0

    is_guest = is_at_work

    @property
    def is_quiet(self) -> bool:
        return not self.n_here and not self._has_told

    def receive(self, message: Any, frame: Any, has_room: Callable[[], bool]) -> None:
        if isinstance(message, Run):
            if not has_room():
                self.send(Returned([task.key for task, _ in message.tasks]))
                return
            self.n_here += len(message.tasks)
            self.machine.queue += [Entry(task, lease, self) for task, lease in message.tasks]
            self.machine.schedule()
        elif isinstance(message, Done):
            self.tasks_out.done(message.keys)
        elif isinstance(message, Returned):
            self.tasks_out.returned(message.numbers)
        elif isinstance(message, Queued):
            self.tasks_out.note_queued(message.numbers)
        elif isinstance(message, GiveBack):
            back = [entry for entry in self.machine.queue if entry.peer is self and entry.key in message.numbers]
            for entry in back:
                self.machine.queue.remove(entry)
            self.n_here -= len(back)
            if back:
                self.send(Returned([entry.key for entry in back]))

    def ended(self, key: int) -> None:
        """A task of the peer has ended here."""
        self._done.append(key)

    def look(self) -> None:
        done, self._done = self._done, []
        self.n_here -= len(done)
        if done:
            self.send(Done(done))

    def sweep(self, now: float) -> None:
        waiting = {entry.key for entry in self.machine.queue if entry.peer is self}
        keys = sorted(waiting & self._waited)
        self._waited = waiting
        if keys or self._has_told:
            self.send(Queued(keys))
        self._has_told = bool(keys)

    def close(self) -> None:
        self.is_closed = True
        for task, _ in self.tasks_out.tasks.values():
            self.machine.again(task)
        self.machine.forget(self)


class SimulatedSegment:
    """See `agent.shell.Segment`."""

    deadline = inf

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.local_tasks = SimulatedLocalTasks(machine)

    def survey(self, now: float) -> events.Looked:
        machine = self._machine
        free = machine.free()
        waiting: dict[int, list[Task]] = {}
        for task in machine.waiting():
            waiting.setdefault(task.work.index, []).append(task)
        rows = []
        for index, tasks in waiting.items():
            work = tasks[0].work
            asks = work.waits or (work.asks and machine.is_directed)
            if work.stays and not asks:
                continue
            n = 0 if work.stays else len(tasks)
            n_startable = 0 if asks else placement.n_fitting(free, work.demand, len(tasks))
            fits = placement.n_fitting(machine.me.total, work.demand, 1) > 0
            text = strategies.to_text(work.wish)
            rows.append(
                events.Waiting(index, work.demand, n, n_startable, len(tasks) - n, asks, text, False, fits, work.near)
            )
        running = machine.running.values()
        return events.Looked(
            tuple(rows),
            free,
            {kind: amount for kind, amount in machine.lent.items() if amount},
            n_running=len(running),
            n_lent=sum(entry.is_lent for entry in running),
            n_ended=machine.n_ended,
            has_guests=any(peer.is_guest for peer in machine.shell.peers.values()),
        )

    def begin(self, node: int, send: Callable[[Any, Any], None]) -> SimulatedPeer:
        return SimulatedPeer(self._machine, node, send)

    def look(self) -> bool:
        return False

    def look_at_groups(self, now: float) -> None:
        pass

    def sweep(self, now: float) -> None:
        pass

    def place_here(self, index: int, n: int, staying: bool) -> None:
        machine = self._machine
        for task in [t for t in machine.waiting() if t.work.index == index and t.work.stays == staying][:n]:
            machine.must_run_here(task)
            task.is_placed = True
        machine.schedule()

    def fail_unrouted(self, index: int, staying: bool) -> None:
        machine = self._machine
        for task in [t for t in machine.waiting() if t.work.index == index and t.work.stays >= staying]:
            machine.fail(task)

    def direct(self, directs: bool) -> None:
        self._machine.is_directed = directs
        self._machine.schedule()

    def group_placed(self, key: GroupKey, leases: tuple[GrantedLease, ...], now: float) -> None:
        self._machine.group_placed(leases)

    def ended(self, node: int) -> None:
        assert node not in self._machine.shell.peers

    def answered(self, reply: StoreReply) -> None:
        machine = self._machine
        machine.world.must(reply.number in machine.pending_requests, f"{machine} was answered twice")
        machine.pending_requests.discard(reply.number)
        machine.replies[reply.number] = reply.done

    def refuse(self, reason: str) -> None:
        self._machine.has_gone = bool(reason)

    def post(self, message: NodeEvent | ClusterReply) -> None:
        if isinstance(message, ClusterReply) and message.request:
            self._machine.told.append(message)

    def say(self, text: str) -> None:
        self._machine.world.tell(f"{self._machine}: {text}")


class WatchedShell(Shell):
    """The shell, under the eyes of an oracle."""

    def __init__(self, machine: Machine, agent_core: core.Core) -> None:
        super().__init__(agent_core, lambda: machine.world.now, machine.segment, machine.network)
        self._machine = machine

    def perform(self, action: events.Action) -> None:
        self._machine.judge(action)
        super().perform(action)


class Machine(Process):
    """A node."""

    def __init__(self, cluster: Cluster, is_driver: bool, total: dict[str, int] | None = None) -> None:
        cluster.n_machines += 1
        number = cluster.n_machines
        super().__init__(cluster, number)
        rng = self.world.rng
        self.key = number.to_bytes(32, "big")
        if total is None:
            total = {"CPU": rng.choice((10_000, 20_000, 40_000)), "memory": 10_000}
            if rng.random() < 0.3:
                total["GPU"] = 10_000
        labels = {"zone": rng.choice("ab"), SESSION_LABEL: session_of(number)}
        self.me = Member(number, f"tcp://{number}", self.key, "host", total, labels)
        self.is_driver = is_driver
        self.speed = 1.0
        self.wire: Wire | None = None
        self.own: dict[int, Task] = {}  # unfinished
        self.works: dict[str, Work] = {}
        self.queue: list[Entry] = []
        self.running: dict[int, Entry] = {}  # by key
        self.used: dict[str, int] = {}
        self.lent: dict[str, int] = {}
        self.warned: set[int] = set()  # classes
        self.is_directed = self.has_gone = self.is_ringing = False
        self.n_requests = self.n_ended = self.n_occupants = self.n_groups = 0
        self.pending_requests: set[int] = set()
        self.replies: dict[int, bool] = {}  # what the control store has answered
        self.told: list[ClusterReply] = []
        self.stopped = ""
        self.before: tuple[set[int], set[int]] = set(), set()
        self.network = SimulatedNetwork(self)
        self.segment = SimulatedSegment(self)
        self.core = core.start(self.me, self.world.now, core.Settings(has_driver=is_driver))
        self.shell = WatchedShell(self, self.core)
        self.on(events.Tick())
        self.ring()

    def __repr__(self) -> str:
        return f"node {self.me.node}"

    # ---- the agent's process
    def deadline(self) -> float:
        return self.shell.deadline

    def tick(self) -> None:
        self.enter(self.shell.work)

    def enter(self, what: Callable[..., None], *args: Any) -> None:
        """The process does something, and then what there is to do."""
        if not self.is_alive:
            return
        self.world.n_steps += 1
        leases = self.core.leases
        self.before = set(leases.congested), set(leases.avoided)
        what(*args)
        if not self.stopped and what != self.shell.work:
            self.shell.work()
        core.check(self.core)
        if self.stopped:
            self.die()
            if self.stopped == "fenced":
                self.cluster.came_back(self)
            return
        self.set_timer()

    def on(self, event: events.Event) -> None:
        self.enter(self.shell.step, event)

    def hear(self, node: int, message: Any) -> None:
        """What another node says; from who has been removed nothing arrives."""
        if node in self.network.lines:
            self.enter(self.shell.receive, node, message)

    def room(self, node: int) -> None:
        self.enter(self.shell.congested, node, False)

    def fault(self, node: int, reason: str) -> None:
        """It turns out that nothing can be done with a node for now."""
        self.on(events.PeerFaulty(node, reason, for_good=False))

    def arrived(self, wire: Wire, message: Any) -> None:
        if wire is self.wire:
            self.on(events.HeadSaid(self.core.attempt, message))

    def lost_wire(self, wire: Wire) -> None:
        if wire is self.wire:
            self.on(events.Disconnected(self.core.attempt))

    def ring(self) -> None:
        """Something in the segment has changed."""
        if not self.is_ringing:
            self.is_ringing = True
            self.world.at(RING_S, self.post, self._rang)

    def _rang(self) -> None:
        self.is_ringing = False
        self.shell.has_news = True
        self.enter(self.shell.work)

    # ---- the oracle
    def judge(self, action: events.Action) -> None:
        """What an agent may do."""
        world = self.world
        if isinstance(action, events.Send):
            leases, node = self.core.leases, action.node
            congested, avoided = self.before
            world.must(node in self.core.members, f"{self} sends to {node}, which is no member for it")
            world.must(node not in avoided & leases.avoided.keys(), f"{self} sends to {node}, which it cannot reach")
            world.must(node not in congested & leases.congested, f"{self} sends to {node}, which is congested")
            work = next(work for work in self.works.values() if work.index == action.shape[0])
            labels = self.cluster.machines[node].me.labels
            world.must(work.wish.labels.items() <= labels.items(), f"{self} sends to {node}, which has other labels")
            named = work.wish.kind == "node" and not work.wish.soft
            world.must(not named or work.wish.node == session_of(node), f"{self} sends to {node}, not {work.wish.node}")
        elif isinstance(action, events.Warn) and not isinstance(action.shape, GroupKey):
            self.warned.add(action.shape[0])
        elif isinstance(action, events.Stop):
            world.tell(f"{self} stops: {action.kind}, {action.reason}")
            is_used = any(peer.is_guest for peer in self.shell.peers.values())
            world.must(
                not (action.kind in ("left", "head_gone") and is_used),
                f"{self} leaves, and what others have here is lost",
            )
            self.stopped = action.kind

    def must_run_here(self, task: Task) -> None:
        """The agent alone has said so: it must be right."""
        wish, me = task.work.wish, self.me
        is_right = wish.labels.items() <= me.labels.items() and (
            wish.kind != "node" or wish.soft or wish.node == session_of(me.node)
        )
        self.world.must(is_right, f"task {task.number} of {self} is to begin here, and wants {wish}")

    def fail(self, task: Task) -> None:
        """The agent says that it has nowhere to run."""
        wish = task.work.wish
        there = {who.labels[SESSION_LABEL] for who in self.core.members.values()}
        here = wish.labels.items() <= self.me.labels.items() and wish.node in ("", session_of(self.me.node))
        is_right = (wish.kind == "node" and not wish.soft and wish.node not in there) or (
            task.work.stays and not here and not wish.soft
        )
        self.world.must(is_right, f"task {task.number} of {self} fails, and wants {wish}")
        self.queue = [entry for entry in self.queue if entry.task is not task]
        del self.own[task.number]
        task.state = "failed"
        self.cluster.n_failed += 1

    # ---- the session
    def submit(self, demand: dict[str, int], duration_s: float, wish: Wish = ANYWHERE, **more: Any) -> None:
        name = f"{sorted(demand.items())} {wish} {more}"
        terms: dict[str, Any] = {"near": {}, "stays": False, **more}
        work = self.works.setdefault(name, Work(len(self.works) + 1, demand, wish, **terms))
        self.cluster.n_tasks += 1
        task = Task(self.cluster.n_tasks, self, work, duration_s)
        self.own[task.number] = task
        self.queue.append(Entry(task, 0, None))
        self.schedule()

    def waiting(self) -> Iterator[Task]:
        """Tasks of this node's own that wait and have been told nothing."""
        return (
            entry.task for entry in self.queue if entry.peer is None and not entry.lease and not entry.task.is_placed
        )

    def take(self, index: int, most: int) -> list[Task]:
        """The first of those of a class that can travel, which wait here no more."""
        taken = [task for task in self.waiting() if task.work.index == index and not task.work.stays][:most]
        self.queue = [entry for entry in self.queue if entry.task not in taken or entry.peer is not None]
        return taken

    def again(self, task: Task) -> None:
        """What was sent somewhere is to run again."""
        task.attempt += 1
        task.state, task.lease, task.node, task.is_placed = "waiting", 0, 0, False
        self.queue.append(Entry(task, 0, None))
        self.schedule()

    def forget(self, peer: SimulatedPeer) -> None:
        """What came from a node ends."""
        for key in [key for key, entry in self.running.items() if entry.peer is peer]:
            self._end(key)
        self.queue = [entry for entry in self.queue if entry.peer is not peer]
        self.schedule()

    def free(self) -> dict[str, int]:
        return {kind: max(0, amount - self.used.get(kind, 0)) for kind, amount in self.me.total.items()}

    def schedule(self) -> None:
        """Start what fits, in order; of what asks, only what has been told to."""
        for entry in list(self.queue):
            work = entry.task.work
            is_own = entry.peer is None and not entry.lease and not entry.task.is_placed
            if is_own and (work.waits or (work.asks and self.is_directed)):
                continue
            if placement.n_fitting(self.free(), work.demand, 1):
                self.queue.remove(entry)
                if entry.peer is None:
                    entry.task.state = "running"
                self._count(work.demand, 1, entry.is_lent)
                self.running[entry.key] = entry
                self.world.at(entry.task.duration_s * self.speed, self.post, self._finish, entry)
        self.ring()

    def occupy(self, for_s: float) -> None:
        """Something else takes all that there is, such as an actor of its own."""
        self.n_occupants += 1
        self._count(self.me.total, 1, False)
        self.world.at(for_s, self.post, self._leave)

    def _leave(self) -> None:
        self.n_occupants -= 1
        self._count(self.me.total, -1, False)
        self.schedule()

    def _count(self, demand: dict[str, int], sign: int, is_lent: bool) -> None:
        for kind, amount in demand.items():
            self.used[kind] = self.used.get(kind, 0) + sign * amount
            if is_lent:
                self.lent[kind] = self.lent.get(kind, 0) + sign * amount

    def _end(self, key: int) -> Entry:
        entry = self.running.pop(key)
        self._count(entry.task.work.demand, -1, entry.is_lent)
        return entry

    def _finish(self, entry: Entry) -> None:
        if self.running.get(entry.key) is not entry:
            return
        self._end(entry.key)
        if entry.peer is not None:
            self.n_ended += 1
            entry.peer.ended(entry.key)
        else:
            if entry.lease:
                self.segment.local_tasks.ended[entry.lease] += 1
            self.seal(entry.task, is_away=False)
        self.schedule()

    def seal(self, task: Task, is_away: bool) -> None:
        """One of this node's own has its result."""
        self.world.must(task.number in self.own, f"task {task.number} has a second result")
        del self.own[task.number]
        task.state = "done"
        self.n_ended += 1
        self.cluster.n_done += 1
        self.cluster.n_away += is_away

    # ---- what else its processes want
    def request(self) -> None:
        self.claim(f"name{self.world.rng.randrange(4)}")

    def claim(self, name: str) -> None:
        self.n_requests += 1
        self.pending_requests.add(self.n_requests)
        number = self.n_requests
        self.on(events.Request(StoreRequest(number, self.me.node, "names", "claim", name, b"", lives_with=True)))

    def group(self) -> None:
        """Want a placement group, and remove it after a while, whether it has been placed or not."""
        rng = self.world.rng
        bundles = tuple({"CPU": rng.choice((5_000, 10_000, 20_000))} for _ in range(rng.randint(1, 4)))
        key = self.want_group(bundles, rng.choice(("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")))
        self.world.at(rng.uniform(0.5, 5), self.post, self.on, events.WantGroup(key, ()))

    def want_group(self, bundles: tuple[dict[str, int], ...], mode: placement.Mode) -> GroupKey:
        """Want one, which is called by the result."""
        self.bundles, self.mode = bundles, mode
        self.n_groups += 1
        key = GroupKey(self.n_groups, 1)
        self.on(events.WantGroup(key, bundles, mode))
        return key

    def group_placed(self, leases: tuple[GrantedLease, ...]) -> None:
        nodes = [lease.node for lease in leases]
        self.cluster.n_groups += 1
        self.world.must(len(nodes) == len(self.bundles), f"{len(nodes)} of {len(self.bundles)} bundles were placed")
        self.world.must(self.mode != "STRICT_SPREAD" or len(set(nodes)) == len(nodes), f"STRICT_SPREAD on {nodes}")
        self.world.must(self.mode != "STRICT_PACK" or len(set(nodes)) == 1, f"STRICT_PACK on {nodes}")

    def strategy(self, work: Work, members: list[Member]) -> Strategy | None:
        """What a wish comes to, for who knows these nodes."""
        return strategies.resolve(work.wish, members)

    def die(self) -> None:
        self.cluster.troubled(self.me.node)
        self.is_alive = False
        self.own.clear()
        self.cluster.gone(self)
