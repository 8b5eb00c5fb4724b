"""A whole cluster in one process: the head's core, the agents' core and shell as they ship, a virtual clock, and a
network, machines and mishaps from a seed.

    python tests/cluster/simulated/simulation.py 1234             # that seed again, with its story
    python tests/cluster/simulated/simulation.py 0 200000         # seeds from .. to

Every seed draws its own mix of faults (swarm testing: what is never absent hides what it is needed for), its own
machines and its own work. After a while the faults end, everything is healed, and the cluster has `SETTLE_S` to bring
everything to its end.

`world` has the clock and the connections with the head, `network` those between nodes, `node` a node, and `head` the
head.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterable
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from cellmesh.scheduler.cluster import placement
from cellmesh.scheduler.cluster.agent.strategies import Wish
from cellmesh.scheduler.cluster.head import core as head_core
from cellmesh.scheduler.cluster.messages import Drain
from cluster.simulated.head import HeadProcess, Store
from cluster.simulated.node import Machine, Task, session_of
from cluster.simulated.world import Violation, Wire, World

FAULTS_S = 12.0  # how long things go wrong
SETTLE_S = 100.0  # how long it may take until everything is done after that; AVOID_S is in it
STUCK_S = 5.0  # so long a task may wait on one machine while another is idle
QUIET_S = 2.0  # after which nothing must be held or asked any more
GOODBYE_S = 1.0  # for a head's last words to get out
FAULTS = (
    "cut",
    "partition",
    "one way",
    "crash",
    "head crash",
    "pause",
    "head pause",
    "slow",
    "join",
    "drain",
    "peer cut",
    "peer fault",
    "congestion",
    "choked",
    "busy",
)
SHAPES = ({"CPU": 10_000}, {"CPU": 20_000}, {"CPU": 5_000}, {"CPU": 10_000, "GPU": 10_000}, {"memory": 4_000})


class Cluster:
    """Everything there is, and the faults."""

    settings = head_core.Settings(beat_s=1.0, dead_after_s=6.0)
    wire_type = Wire

    def __init__(self, seed: int) -> None:
        self.world = world = World(seed)
        self.n_machines = self.n_tasks = self.n_done = self.n_away = self.n_taken_back = self.n_groups = (
            self.n_failed
        ) = 0
        self.wires: list[Wire] = []
        self.trouble: dict[int, float] = {}
        self.healed: dict[int, float] = {}  # when a node and the head could last not reach each other
        self.evicted: set[int] = set()  # whose loss a head has told
        self.machines: dict[int, Machine] = {}
        self.store = Store(world)
        self.is_calm = False
        self.stuck_since: dict[
            tuple[int, int], float
        ] = {}  # (task, attempt) -> since when it waits though somebody is idle
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

    def probe(self, head: HeadProcess, node: int) -> None:
        """The machine's system answers, whatever its processes do, if nothing between the two is blocked."""
        self.world.at(2 * self.delay_s(), self._answer_probe, head, node)

    def _answer_probe(self, head: HeadProcess, node: int) -> None:
        if not {(node, "head"), ("head", node)} & self.world.is_blocked:
            head.post(head.on, head_core.Probed(node, self.machines[node].is_alive))

    def answers_for_s(self, node: int) -> float:
        """For how long a node's machine has answered whatever the head asks it; 0: it does not."""
        is_away = not self.machines[node].is_alive or {(node, "head"), ("head", node)} & self.world.is_blocked
        return 0.0 if is_away else self.world.now - self.healed.get(node, -1e9)

    # ---- machines and work
    def join(self, is_driver: bool = False) -> Machine:
        machine = Machine(self, is_driver)
        self.machines[machine.me.node] = machine
        return machine

    def burst(self, machine: Machine) -> None:
        rng = self.world.rng
        demand = rng.choice(SHAPES[:3] if rng.random() < 0.8 else SHAPES)
        on_node = Wish("node", node=session_of(rng.choice(list(self.machines))), soft=rng.random() < 0.5)
        labelled = Wish(labels={"zone": rng.choice("ab")})
        wish = rng.choices((Wish(), Wish("spread"), on_node, labelled), (6, 2, 1, 1))[0]
        near = {node: rng.randrange(1 << 28) for node in self.machines if rng.random() < 0.2}
        stays = rng.random() < 0.05 and placement.n_fitting(machine.me.total, demand, 1) > 0
        mean_s = rng.choice((0.002, 0.05, 0.5))
        for _ in range(rng.randint(1, 25)):
            if machine.is_alive:
                machine.post(
                    lambda s: machine.submit(demand, s, wish, near=near, stays=stays), rng.uniform(0.2, 2) * mean_s
                )

    def flow(self) -> None:
        """What can pass between nodes has changed."""
        for machine in self.alive():
            for line in list(machine.network.lines.values()):
                line.flow()

    def gone(self, machine: Machine) -> None:
        """A machine's processes have ended; its peers see it at some time, the head when it is silent for long."""
        for wire in [w for w in self.wires if machine in w.ends]:
            wire.cut()
        self.flow()

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
            self.flow()
            world.at(for_s, self.flow)
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
        elif kind in ("peer cut", "peer fault", "congestion", "choked"):
            self.peer_fault(kind, victim, machines)

    def peer_fault(self, kind: str, victim: Machine, machines: list[Machine]) -> None:
        """Something is wrong between two nodes, or between one and all others."""
        rng = self.world.rng
        others = [m for m in machines if victim.me.node in m.network.lines]
        for other in others if kind == "congestion" else rng.sample(others, min(1, len(others))):
            line = other.network.lines[victim.me.node]
            if kind == "peer fault":
                other.post(other.fault, victim.me.node, "the simulation wants it")
                continue
            line.is_down, line.is_full, line.is_choked = kind == "peer cut", kind == "congestion", kind == "choked"
            self.world.at(rng.choice((0.1, 2.0, 8.0)), line.restored)
            line.flow()

    def troubled(self, node: int, for_s: float = 0.0) -> None:
        self.trouble[node] = max(self.trouble.get(node, 0.0), self.world.now + for_s)

    def block(self, ways: Iterable[tuple[object, object]], for_s: float) -> None:
        ways = set(ways)
        self.world.is_blocked |= ways
        for one, other in ways:
            for place in (one, other):
                if isinstance(place, int) and "head" in (one, other):
                    self.troubled(place, for_s)
        self.world.at(for_s, self.unblock, ways)
        self.flow()

    def unblock(self, ways: set[tuple[object, object]]) -> None:
        self.world.is_blocked -= ways
        self.healed.update(
            {place: self.world.now for way in ways if "head" in way for place in way if isinstance(place, int)}
        )
        for wire in self.wires:
            wire.release()
        self.flow()

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
        """It has told all agents, and ends once that is sent."""
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
            raise Violation(
                f"seed {self.world.seed}: {error!r}\n"
                f"Alone: python tests/cluster/simulated/simulation.py {self.world.seed}\n{story}"
            ) from error

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
            for line in list(machine.network.lines.values()):
                line.restored()

    def look_for_stuck(self) -> None:
        """No task waits on one machine for long while another, where it may run, does nothing."""
        idle = [
            m
            for m in self.alive()
            if not any(m.used.values()) and not m.queue and not m.core.draining and m.core.link == "up"
        ]
        before, self.stuck_since = self.stuck_since, {}
        for busy in self.alive() if not self.unnoticed() else ():
            for entry in busy.queue:
                if entry.lease and entry.task.origin.is_alive and any(self.may_run(entry.task, m) for m in idle):
                    since = self.stuck_since[entry.key, busy.me.node] = before.get(
                        (entry.key, busy.me.node), self.world.now
                    )
                    self.world.must(
                        self.world.now - since < STUCK_S,
                        f"task {entry.task.number} has waited at {busy} since {since:.1f}, and {idle} are idle",
                    )

    def may_run(self, task: Task, machine: Machine) -> bool:
        """Whether a task could be sent there by its node, for all that that one knows."""
        core = task.origin.core
        strategy = task.origin.strategy(task.work, list(core.members.values()))
        candidate = placement.Candidate(machine.me.node, machine.me.total, labels=machine.me.labels)
        return (
            strategy is not None
            and placement.is_feasible(candidate, task.work.demand, strategy)
            and machine.me.node not in core.leases.avoided
            and machine.me.node in core.members
        )

    def unnoticed(self) -> set[int]:
        """Nodes that are no more, and are members to the head; leases that they held are no other node's until it
        knows."""
        assert self.head is not None
        return self.head.head.nodes.keys() - {machine.me.node for machine in self.alive()}

    def unfinished(self) -> list[Task]:
        """Tasks that are neither done nor impossible, and known to be."""
        return [
            t
            for m in self.alive()
            for t in m.own.values()
            if not (t.state == "waiting" and t.work.index in m.warned and self.is_hopeless(t))
        ]

    def is_hopeless(self, task: Task) -> bool:
        """Whether no node could ever run it, as the head sees them."""
        assert self.head is not None
        strategy = task.origin.strategy(task.work, [node.member for node in self.head.head.nodes.values()])
        table = self.head.head.ledger.table
        return strategy is None or placement.why_infeasible(table, task.work.demand, strategy) is not None

    def judge(self) -> None:
        """What must hold in the end."""
        world = self.world
        left = self.unfinished()
        world.must(
            not left,
            f"{len(left)} tasks are not done and nobody says why, such as "
            f"{[(t.number, t.state, t.node, t.work) for t in left[:3]]}",
        )
        world.run_until(world.now + QUIET_S)
        head = self.head
        assert head is not None
        alive = {m.me.node: m for m in self.alive()}
        world.must(
            head.head.nodes.keys() == alive.keys(),
            f"the head has the members {sorted(head.head.nodes)}, alive are {sorted(alive)}",
        )
        for node, machine in alive.items():
            members = machine.core.members.keys()
            world.must(
                members == alive.keys(), f"{machine} has the members {sorted(members)}, alive are {sorted(alive)}"
            )
            world.must(
                machine.core.leases.held == {},
                f"{machine} holds {list(machine.core.leases.held)} and needs nothing",
            )
            world.must(not machine.pending_requests, f"{machine} has requests without an answer")
            room = head.head.ledger.table[node].room
            world.must(
                room == machine.me.total or machine.core.draining,
                f"{machine} is idle, and to the head it has room for {room}",
            )
            for task in machine.own.values():
                world.must(
                    self.is_hopeless(task),
                    f"task {task.number} waits although some node could run it",
                )
        world.must(not head.head.ledger.leases, f"leases without a use: {list(head.head.ledger.leases.values())}")
        n_open = sum(len(m.own) > 0 for m in alive.values())
        world.must(
            bool(n_open) or not head.head.ledger.asks, f"asks that nobody needs: {list(head.head.ledger.asks.values())}"
        )
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
        print(
            f"{cluster.n_done} of {cluster.n_tasks} tasks done, {cluster.n_away} of them elsewhere, "
            f"{cluster.world.n_steps} steps"
        )
        return 0
    n_steps, began = 0, time.monotonic()
    for seed in range(opt.first, opt.last):
        cluster = Cluster(seed)
        cluster.run()
        n_steps += cluster.world.n_steps
    print(
        f"{opt.last - opt.first} passed, 0 failed: seeds {opt.first} to {opt.last - 1}, {n_steps} steps in "
        f"{time.monotonic() - began:.0f}s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
