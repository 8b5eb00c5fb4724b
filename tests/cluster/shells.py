"""The shells around the pure cores, as far as a simulated cluster needs them: what the documents of `head` and `member`
ask of a shell.

`HeadProcess` is one life of the head and the oracle of what it says; `Machine` is a node with as much of a session as
its agent sees.
"""
from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cluster.world import Process, Wire, World

from cellmesh.scheduler.cluster import head as head_core
from cellmesh.scheduler.cluster import member as member_core
from cellmesh.scheduler.cluster import places as places_core
from cellmesh.scheduler.cluster.messages import (Grant, Held, Lost, Member, Place, Register, Registered, Status, StoreReply,
                                                 StoreRequest)

if TYPE_CHECKING:
    from cluster.simulation import Cluster

LOOK_S = 0.005           # between two looks at a session
TELL_S = 0.2             # between two messages about what waits


class HeadProcess(Process):
    """One life of the head."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster, "head")
        store = cluster.store
        store.epoch += 1
        self.head = head_core.start("sim", store.epoch, self.world.now, cluster.settings, store.members.values(),
                                    store.dead)
        self.received_at: dict[int, float] = {}
        self.held: dict[Wire, list[Held]] = {}                   # as the last registration says
        self.world.tell(f"{self} starts, awaits {len(store.members)}")
        self.set_timer()

    def __repr__(self) -> str:
        return f"head {self.cluster.store.epoch}"

    def deadline(self) -> float:
        return head_core.next_deadline(self.head)

    def tick(self) -> None:
        self.on(head_core.Tick())

    def arrived(self, wire: Wire, message: Any) -> None:
        if isinstance(message, Register):
            self.held[wire] = message.held
            before = self.head.nodes.get(message.member.node)
            number = before.number if before is not None else -1
        self.on(head_core.Received(wire, wire.ends[0].key, message))  # type: ignore[attr-defined]
        if isinstance(message, Register) and (node := self.head.nodes.get(message.member.node)) is not None:
            self.world.must(node.number >= number, f"registration {message.number} of {wire.ends[0]} came late, and {number} is forgotten for it")
        if wire in self.head.by_connection:
            self.received_at[self.head.by_connection[wire]] = self.world.now

    def lost_wire(self, wire: Wire) -> None:
        self.on(head_core.Closed(wire))

    def on(self, event: Any) -> None:
        self.world.n_steps += 1
        careful = self.head.ledger.is_careful
        actions = head_core.step(self.head, event, self.world.now)
        head_core.check(self.head)
        for action in actions:
            if isinstance(action, head_core.Send):
                self._judge(action, careful)
                for wire in action.to:
                    if isinstance(wire, Wire):  # else it was a command, which has read its answer
                        wire.send(self, action.message)
            elif isinstance(action, head_core.Remember):
                self.cluster.store.members[action.member.node] = (action.member, action.draining)
            elif isinstance(action, head_core.Bury):
                self._judge_burial(action)
                self.cluster.store.bury(action.node, action.reason)
            elif isinstance(action, head_core.Perform):
                reply = self.cluster.store.perform(action.request)
                action.to.send(self, reply)  # type: ignore[attr-defined]
            elif isinstance(action, head_core.Stop):
                self.cluster.head_ended(self)
                return
        self.set_timer()

    def _judge(self, action: head_core.Send, careful: bool) -> None:
        """The oracle of what a head may say."""
        world, message = self.world, action.message
        if not isinstance(message, (head_core.Heard, Registered)):
            world.tell(f"{self} says {message}")
        if isinstance(message, Registered):
            for wire in action.to:
                number = wire.ends[0].me.node  # type: ignore[attr-defined]
                world.must(number not in self.cluster.buried, f"node {number}, which is dead, was let in again")
                for held in self.held[wire]:  # type: ignore[index]
                    world.must(held.node not in self.head.nodes or held.lease in self.head.ledger.leases,
                               f"lease {held.lease}, which node {number} says that it holds, is not in the books")
        elif isinstance(message, Lost):
            world.must(message.node in self.cluster.store.dead, f"node {message.node} was said to be dead before that was stored")
            self.cluster.buried.add(message.node)
        elif isinstance(message, Grant):
            for place in message.places:
                self._judge_place(place)

    def _judge_burial(self, burial: head_core.Bury) -> None:
        world, node, dead_after_s = self.world, burial.node, self.cluster.settings.dead_after_s
        if not burial.reason.startswith("silent"):
            return
        age = world.now - max(self.born, self.woke)
        world.must(age >= dead_after_s - 1e-9, f"node {node} was declared dead {age:.2f} s after the head had woken or started")
        silence = world.now - self.received_at.get(node, self.born)
        world.must(silence > dead_after_s, f"node {node} was declared dead after a silence of {silence:.2f} s")
        is_well = self.cluster.machines[node].is_alive and world.now - self.cluster.trouble.get(node, -1e9) > dead_after_s + 8
        world.must(not is_well, f"node {node} was declared dead, and nothing was wrong with it")

    def _judge_place(self, place: Place) -> None:
        world, ledger = self.world, self.head.ledger
        world.must(place.node not in self.cluster.store.dead,
                   f"a place on node {place.node}, which is dead, was granted")
        world.must(not self.head.nodes[place.node].draining, f"a place on node {place.node}, which drains, was granted")
        leased: dict[str, int] = {}
        for lease in ledger.leases.values():
            if lease.node == place.node:
                for kind, amount in lease.demand.items():
                    leased[kind] = leased.get(kind, 0) + amount * lease.n
        total = self.head.nodes[place.node].member.total
        granted = ledger.leases[place.lease].demand  # of other kinds there may be more: who held them has come back after others had been given them
        world.must(all(leased[kind] <= total.get(kind, 0) for kind in granted),
                   f"node {place.node} has {total} and {leased} of it are leased")


class Store:
    """The control store as it should be: durable, and a request done once. The real ones pass tests of their own."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.epoch = 0
        self.members: dict[int, tuple[Member, bool]] = {}
        self.dead: dict[int, str] = {}
        self.entries: dict[tuple[str, str], tuple[bytes, int]] = {}
        self.done: dict[tuple[int, int], StoreReply] = {}

    def bury(self, node: int, reason: str) -> None:
        self.members.pop(node, None)
        self.dead[node] = reason
        self.entries = {key: entry for key, entry in self.entries.items() if entry[1] != node}

    def perform(self, request: StoreRequest) -> StoreReply:
        key = (request.node, request.number)
        if key not in self.done:
            there = (request.table, request.key) in self.entries
            if request.operation == "claim" and not there:
                self.entries[request.table, request.key] = (request.value, request.node if request.lives_with else 0)
            self.done[key] = StoreReply(request.number, not there)
        return self.done[key]


class Task:
    """One task of a driver. `attempt` grows with every loss; a result of an earlier one is not taken."""

    __slots__ = ("number", "origin", "shape", "duration_s", "attempt", "state", "lease", "node", "is_local")

    def __init__(self, number: int, origin: Machine, shape: str, duration_s: float) -> None:
        self.number, self.origin, self.shape, self.duration_s = number, origin, shape, duration_s
        self.attempt, self.state, self.lease, self.node, self.is_local = 0, "waiting", 0, 0, False


class Machine(Process):
    """A node: the agent's core, and as much of a session as the agent sees. `running` and `queue`: (task, attempt,
    lease, from whom)."""

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
        self.me = Member(number, f"tcp://{number}", self.key, f"host{number}", total, {"zone": rng.choice("ab")})
        settings = member_core.Settings(has_driver=is_driver)
        self.member = member_core.start(self.me, self.world.now, settings)
        self.is_driver = is_driver
        self.speed = 1.0
        self.wire: Wire | None = None
        self.own: dict[int, Task] = {}                               # unfinished
        self.queue: deque[tuple[Task, int, int, Machine]] = deque()
        self.running: dict[tuple[int, int], tuple[Task, int, Machine]] = {}
        self.used: dict[str, int] = {}
        self.lent: dict[str, int] = {}
        self.shapes: dict[str, places_core.Demand] = {}
        self.warned: set[str] = set()
        self.draining = self.has_gone = False
        self.is_looking = self.is_telling = False
        self.waited: set[tuple[int, int]] = set()                    # (task, attempt) of what waited when that was told last
        self.told: set[tuple[Machine, int]] = set()                  # (sender, lease) of what was said to wait
        self.n_requests = self.n_ended = self.n_occupants = 0
        self.pending_requests: set[int] = set()
        self.replies: dict[int, bool] = {}                           # what the control store has answered
        self.statuses: list[Status] = []
        self.stopped = ""
        self.on(member_core.Tick())
        self.look()

    def __repr__(self) -> str:
        return f"node {self.me.node}"

    # ---- the agent's shell
    def deadline(self) -> float:
        return member_core.next_deadline(self.member)

    def tick(self) -> None:
        self.on(member_core.Tick())

    def lost_wire(self, wire: Wire) -> None:
        if wire is self.wire:
            self.on(member_core.Disconnected(self.member.attempt))

    def arrived(self, wire: Wire, message: Any) -> None:
        if wire is self.wire:
            self.on(member_core.HeadSaid(self.member.attempt, message))

    def on(self, event: Any) -> None:
        if not self.is_alive:
            return
        self.world.n_steps += 1
        actions = member_core.step(self.member, event, self.world.now)
        member_core.check(self.member)
        for action in actions:
            _PERFORM[type(action)](self, action)
            if not self.is_alive:
                return
        self.set_timer()

    def _connect(self, action: member_core.Connect) -> None:
        if self.wire is not None:
            self.wire.cut()
        self.wire = None
        head = self.cluster.head
        if head is None or not head.is_alive:
            self.world.at(0.01, self.post, self.on, member_core.Disconnected(action.attempt))
        elif not {(self.place, "head"), ("head", self.place)} & self.world.is_blocked:
            self.wire = self.cluster.wire_type(self.cluster, (self, head))
            self.world.at(2 * self.cluster.delay_s(), self.post, self.on, member_core.Connected(action.attempt))

    def _tell(self, action: places_core.Tell) -> None:
        if self.wire is not None:
            self.wire.send(self, action.message)

    def _send(self, action: places_core.Send) -> None:
        self.world.must(action.node in self.member.members, f"{self} sends to {action.node}, which is no member for it")
        self.world.must(action.node not in self.member.places.avoided,
                        f"{self} sends to {action.node}, which it cannot reach")
        self.world.must(action.node not in self.member.places.congested,
                        f"{self} sends to {action.node}, which is congested")
        strategy, labels = self.shapes[str(action.shape)].strategy, self.cluster.machines[action.node].me.labels
        self.world.must(strategy.labels.items() <= labels.items(),
                        f"{self} sends to {action.node}, which has other labels")
        self.world.must(strategy.kind != "node" or strategy.soft or strategy.node == action.node,
                        f"{self} sends to {action.node}, not {strategy.node}")
        taken = [t for t in self.own.values() if t.state == "waiting" and t.shape == action.shape][:action.n]
        for task in taken:
            self.queue = deque(entry for entry in self.queue if entry[0] is not task)
            task.state, task.lease, task.node = "away", action.lease, action.node
            if action.node == self.me.node:
                task.is_local = True
                self.queue.append((task, task.attempt, action.lease, self))
            else:
                self.cluster.to_peer(self, action.node, "run", task, task.attempt, action.lease)
        self.on(member_core.Sent(action.lease, action.n, len(taken)))
        self.schedule()

    def _take_back(self, action: places_core.TakeBack) -> None:
        self.cluster.n_taken_back += action.n
        if action.node == self.me.node:
            back = [entry for entry in self.queue if entry[2] == action.lease and entry[3] is self][-action.n:]
            self.queue = deque(entry for entry in self.queue if entry not in back)
            for task, _, _, _ in back:
                self._again(task)
            self.on(member_core.Ended(action.lease, len(back)))
            self.look()
            return
        self.cluster.to_peer(self, action.node, "back", action.lease, action.n)

    def _member_lost(self, action: member_core.MemberLost) -> None:
        self._drop(action.node)

    def _drop(self, node: int) -> None:
        """Whatever was sent to a node runs again, whatever came from it is ended."""
        for task in self.own.values():
            if task.state == "away" and task.node == node and not task.is_local:
                self._again(task)
        for key, (task, _, sender) in list(self.running.items()):
            if sender.me.node == node and sender is not self:
                self._end(key)
        self.queue = deque(entry for entry in self.queue if entry[3] is self or entry[3].me.node != node)
        self.schedule()

    def _again(self, task: Task) -> None:
        task.attempt += 1
        task.state, task.lease, task.node, task.is_local = "waiting", 0, 0, False
        self.queue.append((task, task.attempt, 0, self))

    def _warn(self, action: places_core.Warn) -> None:
        self.warned.add(str(action.shape))

    def _pass(self, action: member_core.Pass) -> None:
        if isinstance(action.message, Status):
            self.statuses.append(action.message)
            return
        self.world.must(action.message.number in self.pending_requests, f"{self} was answered twice")
        self.pending_requests.discard(action.message.number)
        self.replies[action.message.number] = action.message.done

    def _begin_drain(self, action: member_core.BeginDrain) -> None:
        self.draining = True
        self.schedule()

    def _head_gone(self, action: member_core.HeadGone) -> None:
        self.has_gone = True

    def _head_back(self, action: member_core.HeadBack) -> None:
        self.has_gone = False

    def _stop(self, action: member_core.Stop) -> None:
        self.world.tell(f"{self} stops: {action.kind}, {action.reason}")
        self.stopped = action.kind
        self.die()
        if action.kind == "fenced":
            self.cluster.came_back(self)

    # ---- the session
    def submit(self, shape: str, want: places_core.Demand, duration_s: float) -> None:
        self.shapes[shape] = want
        self.cluster.n_tasks += 1
        task = Task(self.cluster.n_tasks, self, shape, duration_s)
        self.own[task.number] = task
        self.queue.append((task, 0, 0, self))
        self.schedule()

    def schedule(self) -> None:
        """Start what fits, in order; what came from elsewhere under its lease, what is one's own unless its strategy
        forbids."""
        for entry in list(self.queue):
            task, attempt, lease, sender = entry
            want = sender.shapes[task.shape]
            if not lease and not want.strategy.leaves_home:
                continue  # where it runs is the head's to say
            if all(self.me.total.get(kind, 0) - self.used.get(kind, 0) >= amount for kind,
                   amount in want.demand.items()):
                self.queue.remove(entry)
                if sender is self and not lease:
                    task.state = "running"
                self._count(want.demand, 1, bool(lease))
                self.running[task.number, attempt] = (task, lease, sender)
                self.world.at(task.duration_s * self.speed, self.post, self._finish, task.number, attempt)
        if self.draining and not self.own and not self.queue and not self.running:
            self.on(member_core.Drained())
        self._tell_later()
        self.look()

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

    def _end(self, key: tuple[int, int]) -> tuple[Task, int, Machine]:
        task, lease, sender = self.running.pop(key)
        self._count(sender.shapes[task.shape].demand, -1, bool(lease))
        return task, lease, sender

    def _finish(self, number: int, attempt: int) -> None:
        if (number, attempt) not in self.running:
            return
        task, lease, sender = self._end((number, attempt))
        self.n_ended += 1
        if sender is self:
            self._seal(task, attempt, lease)
        else:
            self.cluster.to_peer(self, sender.me.node, "done", task, attempt, lease)
        self.schedule()

    def _tell_waits(self) -> None:
        """Say what waits here under leases, and of which nothing does any more."""
        self.is_telling = False
        before, self.waited = self.waited, {(task.number, attempt) for task, attempt, lease, _ in self.queue if lease}
        waiting = Counter((sender, lease) for task, attempt, lease, sender in self.queue if lease and (task.number, attempt) in before)
        for sender, lease in {*waiting, *self.told}:
            if sender is self:
                self.on(member_core.Waits(lease, waiting[sender, lease]))
            else:
                self.cluster.to_peer(self, sender.me.node, "waits", lease, waiting[sender, lease])
        self.told = set(waiting)
        self._tell_later()

    def _tell_later(self) -> None:
        if not self.is_telling and (self.told or any(lease for _, _, lease, _ in self.queue)):
            self.is_telling = True
            self.world.at(TELL_S, self.post, self._tell_waits)

    def _seal(self, task: Task, attempt: int, lease: int) -> None:
        self.world.must(task.number in self.own, f"task {task.number} has a second result")
        del self.own[task.number]
        task.state = "done"
        self.cluster.n_done += 1
        self.cluster.n_away += bool(lease) and not task.is_local
        if lease:
            self.on(member_core.Ended(lease, 1))

    def from_peer(self, sender: Machine, what: str, *args: Any) -> None:
        """A message of another agent; what is no member is not obeyed."""
        if sender.me.node not in self.member.members:
            return
        if what == "run":
            task, attempt, lease = args
            self.queue.append((task, attempt, lease, sender))
            self.schedule()
        elif what == "done":
            task, attempt, lease = args
            if task.attempt == attempt and task.state == "away":
                self._seal(task, attempt, lease)
                self.schedule()
        elif what == "waits":
            self.on(member_core.Waits(*args))
        elif what == "back":
            lease, n = args
            back = [entry for entry in self.queue if entry[2] == lease][-n:]
            self.queue = deque(entry for entry in self.queue if entry not in back)
            if back:
                self.cluster.to_peer(self, sender.me.node, "came back", lease, [(t, a) for t, a, _, _ in back])
        elif what == "came back":
            lease, tasks = args
            current = [task for task, attempt in tasks if task.attempt == attempt and task.state == "away"]
            for task in current:
                self._again(task)
            if current:
                self.on(member_core.Ended(lease, len(current)))
            self.schedule()

    def peer_failed(self, node: int) -> None:
        self._drop(node)
        self.on(member_core.PeerFailed(node))

    def look(self) -> None:
        if not self.is_looking:
            self.is_looking = True
            self.world.at(LOOK_S, self.post, self._looked)

    def _looked(self) -> None:
        self.is_looking = False
        waiting: dict[str, int] = {}
        for task, _, lease, sender in self.queue:
            if sender is self and not lease:
                waiting[task.shape] = waiting.get(task.shape, 0) + 1
        wants = tuple(places_core.Demand(shape, w.demand, n, w.strategy, w.near) for shape, n in waiting.items()
                      if (w := self.shapes[shape]))
        free = {kind: max(0, amount - self.used.get(kind, 0)) for kind, amount in self.me.total.items()}
        lent = {kind: amount for kind, amount in self.lent.items() if amount}
        self.on(member_core.Looked(wants, free, lent, len(self.queue), n_ended=self.n_ended))

    def request(self) -> None:
        self.claim(f"name{self.world.rng.randrange(4)}")

    def claim(self, name: str) -> None:
        self.n_requests += 1
        self.pending_requests.add(self.n_requests)
        self.on(member_core.Request(StoreRequest(self.n_requests, self.me.node, "names", "claim", name, b"", lives_with=True)))

    def group(self) -> None:
        """Want a placement group, and remove it after a while, whether it has been placed or not."""
        rng = self.world.rng
        self.bundles = tuple({"CPU": rng.choice((5_000, 10_000, 20_000))} for _ in range(rng.randint(1, 4)))
        self.mode = rng.choice(("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"))
        self.on(member_core.WantGroup("group", self.bundles, self.mode))  # type: ignore[arg-type]
        self.world.at(rng.uniform(0.5, 5), self.post, self.on, member_core.WantGroup("group", ()))

    def _group_placed(self, action: places_core.GroupPlaced) -> None:
        nodes = [place.node for place in action.places]
        self.cluster.n_groups += 1
        self.world.must(len(nodes) == len(self.bundles), f"{len(nodes)} of {len(self.bundles)} bundles were placed")
        self.world.must(self.mode != "STRICT_SPREAD" or len(set(nodes)) == len(nodes), f"STRICT_SPREAD on {nodes}")
        self.world.must(self.mode != "STRICT_PACK" or len(set(nodes)) == 1, f"STRICT_PACK on {nodes}")

    def die(self) -> None:
        self.cluster.troubled(self.me.node)
        self.is_alive = False
        self.own.clear()
        self.cluster.gone(self)


_PERFORM: dict[type, Callable[[Machine, Any], None]] = {
    member_core.Connect: Machine._connect, places_core.Tell: Machine._tell, places_core.Send: Machine._send,
    places_core.TakeBack: Machine._take_back, member_core.MemberCame: lambda *_: None, member_core.MemberLost: Machine._member_lost,
    places_core.GroupPlaced: Machine._group_placed, places_core.Warn: Machine._warn, member_core.Pass: Machine._pass,
    member_core.BeginDrain: Machine._begin_drain, member_core.HeadGone: Machine._head_gone, member_core.HeadBack: Machine._head_back,
    member_core.Stop: Machine._stop}
