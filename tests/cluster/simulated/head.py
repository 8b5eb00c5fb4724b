"""The head of a simulated cluster: `HeadProcess` is one life of it and the oracle of what it says, `Store` what it
remembers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cellmesh.scheduler.cluster.head import core as head_core
from cellmesh.scheduler.cluster.messages import (
    Grant,
    GrantedLease,
    Held,
    Lost,
    Member,
    Register,
    Registered,
    Status,
    StoreReply,
    StoreRequest,
)
from cluster.simulated.world import Process, Wire, World

if TYPE_CHECKING:
    from cluster.simulated.simulation import Cluster


class HeadProcess(Process):
    """One life of the head."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster, "head")
        store = cluster.store
        store.epoch += 1
        self.head = head_core.start(
            "sim", store.epoch, self.world.now, cluster.settings, store.members.values(), store.dead, store.found
        )
        self.received_at: dict[int, float] = {}
        self.held: dict[Wire, list[Held]] = {}  # as the last registration says
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
        self.on(head_core.Received(wire, wire.ends[0].key, message))
        if isinstance(message, Register) and (node := self.head.nodes.get(message.member.node)) is not None:
            self.world.must(
                node.number >= number,
                f"registration {message.number} of {wire.ends[0]} came late, and {number} is forgotten for it",
            )
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
                if action.is_found:
                    self.cluster.store.found.add(action.member.node)
            elif isinstance(action, head_core.Evict):
                self._judge_eviction(action)
                self.cluster.store.evict(action.node, action.reason)
            elif isinstance(action, head_core.Perform):
                reply = self.cluster.store.perform(action.request)
                action.to.send(self, reply)
            elif isinstance(action, head_core.Probe):
                self.cluster.probe(self, action.node)
            elif isinstance(action, head_core.Stop):
                self.cluster.head_ended(self)
                return
        self.set_timer()

    def _judge(self, action: head_core.Send, careful: bool) -> None:
        """The oracle of what a head may say."""
        world, message = self.world, action.message
        if not isinstance(message, (head_core.Heard, Registered, Status)):
            world.tell(f"{self} says {message}")
        if isinstance(message, Registered):
            for wire in action.to:
                number = wire.ends[0].me.node
                world.must(number not in self.cluster.evicted, f"node {number}, which is dead, was let in again")
                for held in self.held[wire]:
                    world.must(
                        held.node not in self.head.nodes or held.lease in self.head.ledger.leases,
                        f"lease {held.lease}, which node {number} says that it holds, is not in the ledger",
                    )
        elif isinstance(message, Lost):
            world.must(
                message.node in self.cluster.store.dead,
                f"node {message.node} was said to be dead before that was stored",
            )
            self.cluster.evicted.add(message.node)
        elif isinstance(message, Grant):
            for granted in message.leases:
                self._judge_lease(granted)

    def _judge_eviction(self, eviction: head_core.Evict) -> None:
        world, node, settings = self.world, eviction.node, self.cluster.settings
        if "its processes have ended" in eviction.reason:
            world.must(
                not self.cluster.machines[node].is_alive,
                f"node {node} lives, and its processes were said to have ended",
            )
        if not eviction.reason.startswith("silent"):
            return
        # Where the machine answers probes only the process is silent, and that may last longer. When the head rests, it
        # does not notice that it was asleep, but has looked for a while before it judges.
        evicted = next(evicted for evicted in self.head.evicted if evicted.member.node == node)
        is_mute = self.cluster.answers_for_s(node) >= settings.away_s
        awake_s = settings.dead_after_s / 2 - head_core.BEATS_ASLEEP * settings.beat_s
        world.must(
            self.woke == self.born or world.now - self.woke >= awake_s - 1e-9,
            f"node {node} was declared dead {world.now - self.woke:.2f} s after the head had woken",
        )
        limit_s = evicted.mute_s(settings) if is_mute else settings.away_s
        silence = world.now - self.received_at.get(node, self.born)
        world.must(
            silence >= limit_s - 1e-9,
            f"node {node}, {'mute' if is_mute else 'away'}, was declared dead after a silence of {silence:.2f} s",
        )
        is_well = (
            self.cluster.machines[node].is_alive and world.now - self.cluster.trouble.get(node, -1e9) > limit_s + 8
        )
        world.must(not is_well, f"node {node} was declared dead, and nothing was wrong with it")

    def _judge_lease(self, granted: GrantedLease) -> None:
        world, ledger = self.world, self.head.ledger
        world.must(
            granted.node not in self.cluster.store.dead, f"a lease on node {granted.node}, which is dead, was granted"
        )
        world.must(
            not self.head.nodes[granted.node].draining, f"a lease on node {granted.node}, which drains, was granted"
        )
        leased: dict[str, int] = {}
        for lease in ledger.leases.values():
            if lease.node == granted.node and not lease.on_credit:
                for kind, amount in lease.demand.items():
                    leased[kind] = leased.get(kind, 0) + amount * lease.n
        total = self.head.nodes[granted.node].member.total
        demand = ledger.leases[
            granted.lease
        ].demand  # of other kinds there may be more: who held them has come back after others had been given them
        on_credit = ledger.leases[granted.lease].on_credit
        world.must(
            on_credit or all(leased[kind] <= total.get(kind, 0) for kind in demand),
            f"node {granted.node} has {total} and {leased} of it are leased",
        )


class Store:
    """The control store as it should be: durable, and a request done once. The real ones pass tests of their own."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.epoch = 0
        self.members: dict[int, tuple[Member, bool]] = {}
        self.found: set[int] = set()
        self.dead: dict[int, str] = {}
        self.entries: dict[tuple[str, str], tuple[bytes, int]] = {}
        self.done: dict[tuple[int, int], StoreReply] = {}

    def evict(self, node: int, reason: str) -> None:
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
