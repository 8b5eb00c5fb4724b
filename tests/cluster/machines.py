"""Several nodes in one process, with their exchanges joined by queues instead of sockets, and a thread in place of their agents."""
from __future__ import annotations

import os
import select
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

import cellmesh as cm
from cellmesh import session as sessions
from cellmesh.objstore import _core
from cellmesh.scheduler.cluster.broadcast import Tree
from cellmesh.scheduler.cluster.exchange import Exchange
from cellmesh.scheduler.cluster.groups import Place
from cellmesh.scheduler.cluster.lineage import Lineage
from cellmesh.scheduler.cluster.objects import ForeignFault
from cellmesh.scheduler.cluster.messages import Returned, ToPeer
from cellmesh.scheduler.cluster.prefetch import prefetch
from cellmesh.scheduler.cluster.room import is_full, why_full
from cellmesh.scheduler.cluster.wire import decoder
from cellmesh.scheduler.node import Node

STORE = 256 << 20
_encoder, _decoder = msgspec.msgpack.Encoder(), decoder(ToPeer)


def amounts(of: dict[str, int]) -> dict[str, float]:
    return {name: amount / 10_000 for name, amount in of.items()}


class Machine:
    """A node, with what its agent would have."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.client = _core.Client(node.fd, _core.ROLE_PROXY, None)
        self.bell = self.client.bell()
        self.exchanges: dict[str, Exchange] = {}
        self.lineage = Lineage(self.client, self.bring)
        self.runs = _core.Runs(self.client)
        self.tree = Tree()
        self.has_room: Callable[[], bool] = lambda: True
        self.prefetches = True
        self.most = 64           # tasks of ours under way at each other machine

    def shape_of(self, demand: dict[str, int], hold: dict[str, int] | None, env: int, place: Place) -> bytes:
        return self.client.resource_class(amounts(demand), None if hold is None else amounts(hold), env, *place)[0]

    def bring(self, slot: int) -> None:
        for exchange in self.exchanges.values():
            exchange.transfers.fetch(slot)

    def spread(self, targets: list[str]) -> None:
        """What finds no room here goes to the others, to each as many as may be under way."""
        for resource_class, n_ready, n_startable, demand, *_, near in self.client.surplus():
            for name in targets if n_ready > n_startable else ():
                exchange = self.exchanges.get(name)
                if exchange is not None and exchange.sent.n_active < self.most:
                    exchange.sent.send_tasks(resource_class, self.most - exchange.sent.n_active, demand, 1, bool(near))


class Machines:
    """All of them. `routes`: from whom to whom tasks go."""

    def __init__(self, machines: dict[str, Machine], routes: dict[str, list[str]]) -> None:
        self.machines, self.routes = machines, routes
        self.queue: deque[tuple[str, str, Any, bytes]] = deque()
        self.seen: list[Any] = []
        self.n_bytes: Counter[tuple[str, str]] = Counter()  # of objects that have come in chunks, by from whom to whom
        self.faults: list[str] = []      # not the exceptions: their frames hold everything
        self.error: BaseException | None = None
        self.lock = threading.RLock()
        self._ends = False
        self._now = 0.0
        names = list(machines)
        for here in names:
            for there in names:
                if here != there:
                    self.join(here, there)
        self._thread = threading.Thread(target=self._run, name="machines")
        self._thread.start()

    def is_lost(self, here: str, there: str, message: Any) -> bool:
        """For a test that replaces this: whether a message does not arrive."""
        return False

    def join(self, here: str, there: str) -> None:
        machine = self.machines[here]
        names = list(self.machines)
        machine.exchanges[there] = Exchange(machine.client, lambda message, frame: self.queue.append((here, there, message, frame or b"")),
                                            machine.shape_of, machine.bring, machine.lineage, machine.runs, 1 + names.index(there),
                                            machine.tree, lambda node: machine.exchanges.get(dict(enumerate(names, 1)).get(node, "")))

    def part(self, name: str) -> None:
        """The machine is lost: nothing comes from it any more, nothing arrives there."""
        with self.lock:
            self.queue = deque(entry for entry in self.queue if name not in entry[:2])
            for other, machine in self.machines.items():
                if other != name and name in machine.exchanges:
                    machine.exchanges.pop(name).close()
            for exchange in self.machines[name].exchanges.values():
                exchange.close()
            self.machines[name].exchanges.clear()

    def sweep(self, seconds: float = 0.0) -> None:
        """Release what is not referred to, everywhere, until nothing is left to say."""
        with self.lock:
            self._now += seconds
            for _ in range(4):
                for machine in self.machines.values():
                    for there in list(machine.exchanges):
                        self.guarded(machine, there, Exchange.sweep, self._now)
                self._deliver()

    def _run(self) -> None:
        bells = [machine.bell for machine in self.machines.values()]
        try:
            while not self._ends:
                for fd in select.select(bells, [], [], 0.05)[0]:
                    os.read(fd, 8)
                with self.lock:
                    for machine in self.machines.values():
                        for there in list(machine.exchanges):
                            self.guarded(machine, there, Exchange.sweep, self._now)
                    self._deliver()
        except BaseException as error:  # for the test to see
            self.error = error

    def _deliver(self) -> None:
        refusing: set[tuple[str, str]] = set()  # from whom to whom nothing more goes for a moment, as tasks have come back
        while True:
            for name, machine in self.machines.items():
                machine.spread([there for there in self.routes.get(name, []) if (name, there) not in refusing])
                for there in list(machine.exchanges):
                    self.guarded(machine, there, Exchange.look)
                machine.lineage.look()
                machine.lineage.sweep()
                if machine.prefetches:
                    prefetch(machine.exchanges.values(), machine.client.stats)
            if not self.queue:
                return
            while self.queue:
                here, there, message, frame = self.queue.popleft()
                if self.is_lost(here, there, message):
                    continue
                self.seen.append(message)
                message = _decoder.decode(_encoder.encode(message))
                if isinstance(message, Returned):
                    refusing.add((there, here))
                self.n_bytes[here, there] += len(frame)
                machine = self.machines[there]
                if here in machine.exchanges:
                    self.guarded(machine, here, Exchange.receive, message, frame, machine.has_room)

    def guarded(self, machine: Machine, there: str, call: Callable[..., None], *arguments: Any) -> None:
        """As an agent does."""
        try:
            call(machine.exchanges[there], *arguments)
        except ForeignFault as fault:
            self.faults.append(str(fault))
            machine.exchanges.pop(there).close()
        except _core.StoreError as error:
            if not is_full(error):
                raise
            self.faults.append(why_full(error))
            machine.exchanges.pop(there).close()

    def close(self) -> None:
        self._ends = True
        self._thread.join()
        for machine in self.machines.values():
            for exchange in machine.exchanges.values():
                exchange.close()
            machine.client.close()
        self.machines.clear()  # pytest keeps a fixture's value until all of them are torn down


@contextmanager
def machines(n: int = 2, cpus_at_home: float = 0, at_home: dict[str, Any] | None = None, elsewhere: dict[str, Any] | None = None) -> Iterator[Machines]:
    """`n` of them, "a", "b", ...; the first is this process's session, and its tasks go to all others. `at_home`, `elsewhere`: further
    settings of the sessions."""
    cm.init(num_cpus=cpus_at_home, **{"object_store_memory": STORE, **(at_home or {})})
    others = [Node.start(resources={"CPU": 2.0}, **{"object_store_memory": STORE, **(elsewhere or {})}) for _ in range(n - 1)]
    names = "abcdefg"[:n]
    all_of_them = Machines({name: Machine(node) for name, node in zip(names, [sessions.current().node, *others], strict=True)},
                           {"a": list(names[1:])})
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
