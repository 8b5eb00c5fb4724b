"""A whole cluster in one process: the real `head` and `member`, a virtual clock, and a network, machines and mishaps
from a seed.

    python tests/cluster/simulation.py 1234             # that seed again, with its story
    python tests/cluster/simulation.py 0 200000         # seeds from .. to

Every seed draws its own mix of faults (swarm testing: what is never absent hides what it is needed for), its own
machines and its own work. After a while the faults end, everything is healed, and the cluster has `SETTLE_S` to bring
everything to its end.

`world` has the clock and the network, `shells` the shells around the cores.
"""
from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cluster.shells import HeadProcess, Machine, Store, Task
from cluster.world import Violation, Wire, World

from cellmesh.scheduler.cluster import head as head_core
from cellmesh.scheduler.cluster import member as member_core
from cellmesh.scheduler.cluster import places as places_core
from cellmesh.scheduler.cluster import policy
from cellmesh.scheduler.cluster.messages import Drain, Strategy

FAULTS_S = 12.0          # how long things go wrong
SETTLE_S = 100.0         # how long it may take until everything is done after that; AVOID_S is in it
STUCK_S = 5.0            # so long a task may wait on one machine while another is idle
QUIET_S = 2.0            # after which nothing must be held or asked any more
GOODBYE_S = 1.0          # for a head's last words to get out
PEER_DEAD_S = 3.0        # after which a shell gives up a peer that does not answer
FAULTS = ("cut", "partition", "one way", "crash", "head crash", "pause", "head pause", "slow", "join", "drain",
          "peer cut", "congestion", "busy")
SHAPES = ({"CPU": 10_000}, {"CPU": 20_000}, {"CPU": 5_000}, {"CPU": 10_000, "GPU": 10_000}, {"memory": 4_000})


class Cluster:
    """Everything there is, and the faults."""

    settings = head_core.Settings(beat_s=1.0, dead_after_s=6.0)
    wire_type = Wire

    def __init__(self, seed: int) -> None:
        self.world = world = World(seed)
        self.n_machines = self.n_tasks = self.n_done = self.n_away = self.n_taken_back = self.n_groups = 0
        self.wires: list[Wire] = []
        self.generation: dict[frozenset[int], int] = {}
        self.peer_last: dict[tuple[int, int], float] = {}
        self.trouble: dict[int, float] = {}
        self.buried: set[int] = set()                            # whose loss a head has told
        self.machines: dict[int, Machine] = {}
        self.store = Store(world)
        self.is_calm = False
        self.stuck_since: dict[tuple[int, int], float] = {}      # (task, attempt) -> since when it waits though somebody is idle
        self.head: HeadProcess | None = None
        self.draw(world.rng)

    def draw(self, rng: random.Random) -> None:
        """What there is, and what is going to happen."""
        world = self.world
        self.faults = [fault for fault in FAULTS if rng.random() < 0.4]
        self.base_delay_s = rng.choice((0.0002, 0.002, 0.05))
        self.head = HeadProcess(self)
        world.tell(f"faults: {', '.join(self.faults) or 'none'}")
        for i in range(rng.randint(2, 6)):
            self.join(is_driver=i == 0 or rng.random() < 0.4)
        for machine in list(self.machines.values()):
            if machine.is_driver:
                for _ in range(rng.randint(1, 4)):
                    world.at(rng.uniform(0.5, FAULTS_S), self.burst, machine)
                world.at(rng.uniform(1, FAULTS_S), machine.post, machine.request)
                if rng.random() < 0.3:
                    world.at(rng.uniform(1, FAULTS_S - 3), machine.post, machine.group)
        for _ in range(rng.randint(1, 6) if self.faults else 0):
            world.at(rng.uniform(1, FAULTS_S), self.fault)

    def delay_s(self) -> float:
        return self.base_delay_s * self.world.rng.uniform(0.5, 2.0)

    def alive(self) -> list[Machine]:
        return [m for m in self.machines.values() if m.is_alive]

    # ---- machines and work
    def join(self, is_driver: bool = False) -> Machine:
        machine = Machine(self, is_driver)
        self.machines[machine.me.node] = machine
        return machine

    def burst(self, machine: Machine) -> None:
        rng = self.world.rng
        demand = rng.choice(SHAPES[:3] if rng.random() < 0.8 else SHAPES)
        on_node = Strategy("node", node=rng.choice(list(self.machines)), soft=rng.random() < 0.5)
        labelled = Strategy(labels={"zone": rng.choice("ab")})
        strategy = rng.choices((Strategy(), Strategy("spread"), on_node, labelled), (6, 2, 1, 1))[0]
        shape = f"{sorted(demand.items())} {strategy}"
        near = {node: rng.randrange(1 << 28) for node in self.machines if rng.random() < 0.2}
        mean_s = rng.choice((0.002, 0.05, 0.5))
        for _ in range(rng.randint(1, 25)):
            if machine.is_alive:
                machine.post(machine.submit, shape, places_core.Demand(shape, demand, 1, strategy, near),
                             rng.uniform(0.2, 2) * mean_s)

    def to_peer(self, sender: Machine, node: int, what: str, *args: Any) -> None:
        receiver = self.machines[node]
        generation = self.generation.get(frozenset((sender.me.node, node)), 0)
        self._carry(sender, receiver, generation, what, args)

    def _carry(self, sender: Machine, receiver: Machine, generation: int, what: str, args: tuple[Any, ...]) -> None:
        world, way = self.world, (sender.me.node, receiver.me.node)
        if not receiver.is_alive or generation != self.generation.get(frozenset(way), 0):
            return
        if way in world.is_blocked:
            world.at(0.1, self._carry, sender, receiver, generation, what, args)
            return
        when = max(self.peer_last.get(way, 0.0), world.now + self.delay_s())
        self.peer_last[way] = when
        world.at(when - world.now, self._deliver, sender, receiver, generation, what, args)

    def _deliver(self, sender: Machine, receiver: Machine, generation: int, what: str, args: tuple[Any, ...]) -> None:
        if generation != self.generation.get(frozenset((sender.me.node, receiver.me.node)), 0):
            return
        if sender.me.node in receiver.member.members or sender.me.node in self.buried or not receiver.is_alive:
            receiver.post(receiver.from_peer, sender, what, *args)
        else:  # it is not let in before the head has told of it
            self.world.at(0.1, self._deliver, sender, receiver, generation, what, args)
            self.world.at(PEER_DEAD_S, self._let_go, sender, receiver, generation)

    def _let_go(self, sender: Machine, receiver: Machine, generation: int) -> None:
        pair = frozenset((sender.me.node, receiver.me.node))
        if sender.me.node not in receiver.member.members and generation == self.generation.get(pair, 0):
            self.cut_peers(sender, receiver)

    def cut_peers(self, one: Machine, other: Machine) -> None:
        """Their connection is lost, and both see it."""
        pair = frozenset((one.me.node, other.me.node))
        self.generation[pair] = self.generation.get(pair, 0) + 1
        self.world.tell(f"the connection of {one} and {other} is lost")
        one.post(one.peer_failed, other.me.node)
        other.post(other.peer_failed, one.me.node)

    def gone(self, machine: Machine) -> None:
        """A machine's processes have ended; its peers see it at some time, the head when it is silent for long."""
        for wire in [w for w in self.wires if machine in w.ends]:
            wire.cut()
        for other in self.alive():
            if other is not machine:
                self.world.at(self.world.rng.uniform(0, 2), self._see_gone, other, machine)

    def _see_gone(self, other: Machine, machine: Machine) -> None:
        pair = frozenset((other.me.node, machine.me.node))
        self.generation[pair] = self.generation.get(pair, 0) + 1
        other.post(other.peer_failed, machine.me.node)

    def came_back(self, machine: Machine) -> None:
        if not machine.is_driver:
            self.world.at(1.0, self.join)

    # ---- faults
    def fault(self) -> None:
        rng, world = self.world.rng, self.world
        kind = rng.choice(self.faults)
        machines = self.alive()
        if self.is_calm or not machines:
            return
        victim = rng.choice(machines)
        node = victim.me.node
        world.tell(f"fault: {kind} ({victim})")
        if kind == "cut" and victim.wire is not None:
            victim.wire.cut()
        elif kind in ("partition", "one way"):
            others: list[object] = ["head"] if rng.random() < 0.6 else []
            others += [m.me.node for m in machines if m is not victim and rng.random() < 0.5]
            ways = [(node, other) for other in others] + [(other, node) for other in others]
            if kind == "one way":
                ways = [way for way in ways if (way[0] == node) == (rng.random() < 0.5)]
            self.block(ways, rng.choice((1.0, 4.0, 15.0)))
        elif kind == "crash" and sum(m.is_driver for m in machines) > victim.is_driver:
            self.troubled(node)
            victim.die()
        elif kind == "head crash" and self.head is not None and self.head.is_alive:
            self.crash_head(rng.uniform(0.1, 5))
        elif kind == "pause":
            for_s = rng.choice((0.5, 3.0, 12.0))
            self.troubled(node, for_s)
            victim.pause(for_s)
        elif kind == "head pause" and self.head is not None:
            self.head.pause(rng.choice((1.0, 5.0, 20.0)))
        elif kind == "slow":
            victim.speed = 10.0
        elif kind == "busy":
            victim.occupy(rng.choice((3.0, 30.0)))
        elif kind == "join":
            self.join()
        elif kind == "drain" and not victim.is_driver and self.head is not None:
            self.head.post(self.head.on, head_core.Received("command", b"", Drain(node)))
        elif kind == "peer cut" and len(machines) > 1:
            other = rng.choice([m for m in machines if m is not victim])
            self.cut_peers(victim, other)
        elif kind == "congestion":
            for other in machines:
                if other is not victim:
                    other.post(other.on, member_core.Congested(node, True))
                    world.at(2.0, other.post, other.on, member_core.Congested(node, False))

    def troubled(self, node: int, for_s: float = 0.0) -> None:
        self.trouble[node] = max(self.trouble.get(node, 0.0), self.world.now + for_s)

    def block(self, ways: Iterable[tuple[object, object]], for_s: float) -> None:
        ways = set(ways)
        self.world.is_blocked |= ways
        for one, other in ways:
            for place in (one, other):
                if isinstance(place, int) and "head" in (one, other):
                    self.troubled(place, for_s)
            if isinstance(one, int) and isinstance(other, int):
                self.world.at(PEER_DEAD_S, self._give_up, one, other)
        self.world.at(for_s, self.unblock, ways)

    def _give_up(self, one: int, other: int) -> None:
        if {(one, other), (other, one)} & self.world.is_blocked:
            self.cut_peers(self.machines[one], self.machines[other])

    def unblock(self, ways: set[tuple[object, object]]) -> None:
        self.world.is_blocked -= ways
        for wire in self.wires:
            wire.release()

    def crash_head(self, for_s: float | None) -> None:
        assert self.head is not None
        self.world.tell(f"{self.head} crashes")
        self.head.is_alive = False
        for wire in [w for w in self.wires if self.head in w.ends]:
            wire.cut()
        for node in self.machines:
            self.troubled(node, for_s or 0.0)
        if for_s is not None:
            self.world.at(for_s, self.start_head)

    def head_ended(self, head: HeadProcess) -> None:
        """It has told everybody, and goes once that is sent."""
        head.is_alive = False
        for wire in [w for w in self.wires if head in w.ends]:
            self.world.at(GOODBYE_S, wire.cut)

    def start_head(self) -> None:
        if self.head is None or not self.head.is_alive:
            self.head = HeadProcess(self)

    # ---- the run
    def run(self) -> None:
        """The seed's life, to the end.

        Raises
        ------
        Violation
            What is broken, how to see it again, and the end of the story.
        """
        try:
            self.world.run_until(FAULTS_S)
            self.calm()
            end = FAULTS_S + SETTLE_S
            while True:
                while self.world.now < end and (self.unfinished() or any(m.n_occupants for m in self.alive())):
                    self.world.run_until(self.world.now + 0.5)
                    self.look_for_stuck()
                # Who is silent is noticed now, and may come back as a node that can run what none could before.
                self.world.run_until(self.world.now + self.settings.dead_after_s + 3)
                if self.world.now >= end or not (self.unfinished() or self.unnoticed()):
                    break
            self.judge()
        except Exception as error:
            story = "\n".join(self.world.story)
            raise Violation(f"seed {self.world.seed}: {error!r}\nAlone: python tests/cluster/simulation.py {self.world.seed}\n{story}") from error

    def calm(self) -> None:
        """Nothing goes wrong any more."""
        self.is_calm = True
        self.world.tell("calm")
        self.unblock(set(self.world.is_blocked))
        self.start_head()
        for process in [*self.alive(), self.head]:
            assert process is not None
            process.resume()
        for machine in self.alive():
            machine.speed = 1.0

    def look_for_stuck(self) -> None:
        """No task waits on one machine for long while another, where it may run, does nothing."""
        idle = [m for m in self.alive() if not any(m.used.values()) and not m.queue and not m.draining and m.member.link == "up"]
        before, self.stuck_since = self.stuck_since, {}
        for busy in self.alive() if not self.unnoticed() else ():
            for task, attempt, lease, sender in busy.queue:
                want = sender.shapes[task.shape]
                if lease and sender.is_alive and any(
                        policy.is_feasible(policy.Candidate(m.me.node, m.me.total, labels=m.me.labels), want.demand, want.strategy)
                        and m.me.node not in sender.member.places.avoided and m.me.node in sender.member.members for m in idle):
                    since = self.stuck_since[task.number, attempt] = before.get((task.number, attempt), self.world.now)
                    self.world.must(self.world.now - since < STUCK_S, f"task {task.number} has waited at {busy} since {since:.1f}, and {idle} are idle")

    def unnoticed(self) -> set[int]:
        """Nodes that are no more, and are members to the head; places that they held are nobody else's until it knows."""
        assert self.head is not None
        return self.head.head.nodes.keys() - {machine.me.node for machine in self.alive()}

    def unfinished(self) -> list[Task]:
        """Tasks that are neither done nor impossible, and known to be."""
        return [t for m in self.alive() for t in m.own.values()
                if not (t.state == "waiting" and t.shape in m.warned and self.is_hopeless(m.shapes[t.shape]))]

    def is_hopeless(self, want: places_core.Demand) -> bool:
        """Whether no node could ever run it, as the head sees them."""
        assert self.head is not None
        return policy.why_infeasible(self.head.head.ledger.table, want.demand, want.strategy) is not None

    def judge(self) -> None:
        """What must hold in the end."""
        world = self.world
        left = self.unfinished()
        world.must(not left,
                   f"{len(left)} tasks are not done and nobody says why, such as {[(t.number, t.state, t.node, t.shape) for t in left[:3]]}")
        world.run_until(world.now + QUIET_S)
        head = self.head
        assert head is not None
        alive = {m.me.node: m for m in self.alive()}
        world.must(head.head.nodes.keys() == alive.keys(),
                   f"the head has the members {sorted(head.head.nodes)}, alive are {sorted(alive)}")
        for node, machine in alive.items():
            members = machine.member.members.keys()
            world.must(members == alive.keys(),
                       f"{machine} has the members {sorted(members)}, alive are {sorted(alive)}")
            world.must(machine.member.places.leases == {},
                       f"{machine} holds {list(machine.member.places.leases)} and needs nothing")
            world.must(not machine.pending_requests, f"{machine} has requests without an answer")
            room = head.head.ledger.table[node].room
            world.must(room == machine.me.total or machine.draining,
                       f"{machine} is idle, and to the head it has room for {room}")
            for task in machine.own.values():
                world.must(self.is_hopeless(machine.shapes[task.shape]), f"task {task.number} waits although some node could run it")
        world.must(not head.head.ledger.leases, f"leases without a use: {list(head.head.ledger.leases.values())}")
        n_open = sum(len(m.own) > 0 for m in alive.values())
        world.must(bool(n_open) or not head.head.ledger.asks,
                   f"asks that nobody needs: {list(head.head.ledger.asks.values())}")
        dead_entries = [key for key, (_, node) in self.store.entries.items() if node in self.store.dead]
        world.must(not dead_entries, f"names of dead nodes are still taken: {dead_entries}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int, nargs="?")
    opt = parser.parse_args()
    if opt.last is None:
        cluster = Cluster(opt.first)
        cluster.run()
        print("\n".join(cluster.world.story))
        print(f"{cluster.n_done} of {cluster.n_tasks} tasks done, {cluster.n_away} of them elsewhere, {cluster.world.n_steps} steps")
        return 0
    n_steps, began = 0, time.monotonic()
    for seed in range(opt.first, opt.last):
        cluster = Cluster(seed)
        cluster.run()
        n_steps += cluster.world.n_steps
    print(f"{opt.last - opt.first} passed, 0 failed: seeds {opt.first} to {opt.last - 1}, {n_steps} steps in "
          f"{time.monotonic() - began:.0f}s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
