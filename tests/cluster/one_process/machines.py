"""Several nodes in one process: real segments and the shell of an agent on each, with queues instead of sockets and
one thread for all of them. There is no head: which tasks go where is the test's to say.
"""

from __future__ import annotations

import os
import select
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from typing import Any

import msgspec
from cellmesh.objstore import _core
from cellmesh.scheduler.cluster import messages
from cellmesh.scheduler.cluster.agent import core
from cellmesh.scheduler.cluster.agent.events import (
    Connected,
    EndPeer,
    Event,
    HeadSaid,
    Looked,
    PeerFaulty,
    ResetHeard,
    ResetSaid,
    Tick,
    Waits,
)
from cellmesh.scheduler.cluster.agent.groups import GroupKey
from cellmesh.scheduler.cluster.agent.local_tasks import LocalTasks
from cellmesh.scheduler.cluster.agent.shell import Shell
from cellmesh.scheduler.cluster.peer.broadcast import Tree
from cellmesh.scheduler.cluster.peer.bundles import Pool
from cellmesh.scheduler.cluster.peer.lineage import Lineage
from cellmesh.scheduler.cluster.peer.peer import Peer
from cellmesh.scheduler.cluster.peer.prefetch import prefetch
from cellmesh.scheduler.ipc.messages import ClusterReply, NodeEvent
from cellmesh.scheduler.ipc.transport import decoder
from cellmesh.scheduler.node.handle import Node

import cellmesh as cm
from cellmesh.session.current import current
from cellmesh.startup.worker_modules import WORKER_MODULES

STORE = 256 << 20
_encoder, _decoder = msgspec.msgpack.Encoder(), decoder(messages.ToPeer)


def amounts(of: dict[str, int]) -> dict[str, float]:
    return {name: amount / _core.RESOURCE_UNIT for name, amount in of.items()}


class Connections:
    """See `agent.shell.Network`: what is sent waits in the one queue."""

    deadline = inf

    def __init__(self, them: Machines, name: str) -> None:
        self._them, self._name = them, name

    def tick(self, now: float) -> None:
        pass

    def connect(self, attempt: int) -> None:
        pass

    def tell(self, message: messages.ToHead) -> None:
        pass

    def add(self, member: messages.Member) -> None:
        pass

    def remove(self, node: int) -> None:
        pass

    def send(self, node: int, message: messages.Message, frame: bytes | None = None) -> None:
        self._them.queue.append((self._name, self._them.names[node - 1], message, frame or b""))

    def room(self, node: int) -> int:
        return 1 << 30

    def probe(self, node: int, endpoint: str) -> None:
        pass


class Segment:
    """See `agent.shell.Segment`: what goes on with the others, and nothing for processes that use the node."""

    deadline = inf

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.local_tasks = LocalTasks(machine.client)

    def survey(self, now: float) -> Looked:
        return Looked()

    def begin(self, node: int, send: Callable[[messages.Message, bytes | None], None]) -> Peer:
        machine = self._machine
        return Peer(
            machine.client,
            send,
            machine.shape_of,
            machine.bring,
            machine.lineage,
            machine.runs,
            node,
            machine.tree,
            lambda node: machine.shell.peers.get(node),
        )

    def look(self) -> bool:
        has_more = self._machine.lineage.look()
        if self._machine.prefetches:
            prefetch(self._machine.peers.values(), self._machine.client.stats)
        return has_more

    def look_at_groups(self, now: float) -> None:
        pass

    def sweep(self, now: float) -> None:
        self._machine.lineage.sweep()

    def place_here(self, index: int, n: int, staying: bool) -> None:
        raise AssertionError("there is no head that says so")

    def fail_unrouted(self, index: int, staying: bool) -> None:
        raise AssertionError("there is no head that says so")

    def direct(self, directs: bool) -> None:
        pass

    def group_placed(self, key: GroupKey, leases: tuple[messages.GrantedLease, ...], now: float) -> None:
        raise AssertionError("there is no head that says so")

    def ended(self, node: int) -> None:
        pass

    def answered(self, reply: messages.StoreReply) -> None:
        raise AssertionError("there is no head that says so")

    def refuse(self, reason: str) -> None:
        pass

    def post(self, message: NodeEvent | ClusterReply) -> None:
        pass

    def say(self, text: str) -> None:
        pass


class MachineShell(Shell):
    """The shell, under the eyes of a test."""

    def __init__(self, machine: Machine, them: Machines, agent_core: core.Core, name: str) -> None:
        super().__init__(agent_core, lambda: them.now, Segment(machine), Connections(them, name))
        self._machine, self._them = machine, them

    def step(self, event: Event) -> None:
        if isinstance(event, PeerFaulty) and event.for_good:
            self._them.faults.append(event.reason)
        if isinstance(event, Waits):
            self._machine.waits[event.lease] = event.n
        super().step(event)
        if isinstance(event, ResetSaid | ResetHeard):
            self.peer(event.node)  # it begins again, once both have sent a reset

    def has_room(self) -> bool:
        return self._machine.has_room()


class Machine:
    """A node, with what its agent would have. `waits`: what the others have said of our tasks that wait there, by
    lease."""

    shell: MachineShell

    def __init__(self, node: Node) -> None:
        self.node = node
        self.client = _core.Client(node.fd, _core.ROLE_REMOTE_NODE, None)
        self.wake_fd = self.client.wake_fd()
        self.lineage = Lineage(self.client, self.bring)
        self.runs = _core.Runs(self.client)
        self.tree = Tree()
        self.has_room: Callable[[], bool] = lambda: True
        self.prefetches = True
        self.most = 64  # tasks of this machine under way at each other one
        self.waits: dict[int, int] = {}
        self.names: list[str] = []

    @property
    def peers(self) -> dict[str, Peer]:
        """What there is with the others, by name."""
        return {self.names[node - 1]: peer for node, peer in self.shell.peers.items()}

    def shape_of(
        self, demand: dict[str, int], hold: dict[str, int] | None, env: int, pool: Pool, priority: int
    ) -> bytes:
        return self.client.resource_class(
            amounts(demand), None if hold is None else amounts(hold), env, *pool, priority=priority
        )[0]

    def bring(self, slot: int) -> None:
        for peer in self.peers.values():
            peer.transfers.fetch(slot)

    def spread(self, targets: list[str]) -> None:
        """What finds no room here goes to the others, to each as many as may be under way."""
        for row in self.client.surplus():
            for name in targets if row.n_ready > row.n_startable else ():
                peer = self.peers.get(name)
                if peer is not None and peer.tasks_out.n_active < self.most:
                    n_free = self.most - peer.tasks_out.n_active
                    peer.tasks_out.send_tasks(row.resource_class, n_free, row.demand, 1, bool(row.near))


class Machines:
    """All of them. `routes`: from whom to whom tasks go."""

    def __init__(self, machines: dict[str, Machine], routes: dict[str, list[str]]) -> None:
        self.machines, self.routes = machines, routes
        self.names = list(machines)
        self.queue: deque[tuple[str, str, Any, bytes]] = deque()
        self.seen: list[Any] = []
        self.n_bytes: Counter[tuple[str, str]] = Counter()  # of objects that have come in chunks, by from whom to whom
        self.faults: list[str] = []  # not the exceptions: their frames hold everything
        self.error: BaseException | None = None
        self.lock = threading.RLock()
        self._ends = False
        self.now = 0.0
        members = [self.member(name) for name in self.names]
        for name, machine in machines.items():
            agent_core = core.start(self.member(name), self.now)
            machine.names, machine.shell = self.names, MachineShell(machine, self, agent_core, name)
            machine.shell.step(Tick())
            machine.shell.step(Connected(agent_core.attempt))
            self.hear_head(name, messages.Registered("one process", 1, members, 1.0, 10.0))
            for there in self.names:
                self.join(name, there)
        self._thread = threading.Thread(target=self._run, name="machines")
        self._thread.start()

    def node_of(self, name: str) -> int:
        """The number of a node."""
        return 1 + self.names.index(name)

    def member(self, name: str) -> messages.Member:
        """What all know of one."""
        node = self.node_of(name)
        return messages.Member(node, f"tcp://{name}:1", bytes([node]) * 32, name, {})

    def hear_head(self, name: str, message: messages.FromHead) -> None:
        """What a head would say."""
        shell = self.machines[name].shell
        shell.step(HeadSaid(shell.core.attempt, message))

    def is_lost(self, here: str, there: str, message: Any) -> bool:
        """For a test that replaces this: whether a message does not arrive."""
        return False

    def join(self, here: str, there: str) -> None:
        """Begin what is between the two, at one end."""
        self.machines[here].shell.peer(self.node_of(there))

    def end(self, here: str, there: str) -> None:
        """End it at one end, without a word to the other."""
        self.machines[here].shell.perform(EndPeer(self.node_of(there)))

    def meet_again(self, one: str, other: str) -> None:
        """The two lose each other with all that is on its way between them, and are members of one cluster again, also
        if one of them had given the other up for good."""
        self.queue = deque(entry for entry in self.queue if {one, other} != set(entry[:2]))
        for here, there in ((one, other), (other, one)):
            self.hear_head(here, messages.Lost(self.node_of(there), "the test wants it"))
        for here, there in ((one, other), (other, one)):
            self.hear_head(here, messages.Came(self.member(there)))
            self.join(here, there)

    def give_up(self, here: str, there: str, reason: str) -> None:
        """End it as an agent does, for now."""
        self.machines[here].shell.step(PeerFaulty(self.node_of(there), reason, for_good=False))

    def part(self, name: str) -> None:
        """The machine is lost: nothing comes from it any more, nothing arrives there."""
        with self.lock:
            self.queue = deque(entry for entry in self.queue if name not in entry[:2])
            for other in self.machines:
                if other != name:
                    self.hear_head(other, messages.Lost(self.node_of(name), "the test wants it"))
                    self.hear_head(name, messages.Lost(self.node_of(other), "the test wants it"))

    def sweep(self, seconds: float = 0.0) -> None:
        """Release what is not referred to, everywhere, until nothing is left to say."""
        with self.lock:
            self.now += seconds
            for _ in range(4):
                for machine in self.machines.values():
                    machine.shell.sweep(self.now)
                self._deliver()

    def _run(self) -> None:
        wake_fds = [machine.wake_fd for machine in self.machines.values()]
        try:
            while not self._ends:
                for fd in select.select(wake_fds, [], [], 0.05)[0]:
                    os.read(fd, 8)
                with self.lock:
                    for machine in self.machines.values():
                        machine.shell.sweep(self.now)
                    self._deliver()
        except BaseException as error:  # for the test to see
            self.error = error

    def _deliver(self) -> None:
        # from whom to whom nothing more goes for a moment, as tasks have come back
        refusing: set[tuple[str, str]] = set()
        while True:
            for name, machine in self.machines.items():
                machine.spread([there for there in self.routes.get(name, []) if (name, there) not in refusing])
                machine.shell.has_news = True
                machine.shell.work()
            if not self.queue:
                return
            while self.queue:
                here, there, message, frame = self.queue.popleft()
                if self.is_lost(here, there, message):
                    continue
                self.seen.append(message)
                message = _decoder.decode(_encoder.encode(message))
                if isinstance(message, messages.Returned):
                    refusing.add((there, here))
                self.n_bytes[here, there] += len(frame)
                self.machines[there].shell.receive(self.node_of(here), message, frame)

    def close(self) -> None:
        self._ends = True
        self._thread.join()
        for machine in self.machines.values():
            machine.shell.close()
            machine.client.close()
        self.machines.clear()  # pytest keeps a fixture's value until all of them are torn down


@contextmanager
def machines(
    n: int = 2, cpus_at_home: float = 0, at_home: dict[str, Any] | None = None, elsewhere: dict[str, Any] | None = None
) -> Iterator[Machines]:
    """`n` of them, "a", "b", ...; the first is this process's session, and its tasks go to all others. `at_home`,
    `elsewhere`: further settings of the sessions."""
    cm.init(num_cpus=cpus_at_home, **{"object_store_memory": STORE, **(at_home or {})})
    others = [
        Node.start(
            modules=WORKER_MODULES, resources={"CPU": 2.0}, **{"object_store_memory": STORE, **(elsewhere or {})}
        )
        for _ in range(n - 1)
    ]
    names = "abcdefg"[:n]
    all_of_them = Machines(
        {name: Machine(node) for name, node in zip(names, [current().node, *others], strict=True)},
        {"a": list(names[1:])},
    )
    try:
        yield all_of_them
        assert all_of_them.error is None, all_of_them.error
        for name, machine in all_of_them.machines.items():
            found = machine.client.check()
            assert not found, f"{name}: {found}"
    finally:
        all_of_them.close()
        for node in others:
            node.close()
        cm.shutdown()
