"""The connections of a simulated node, as `agent.shell.Network` has them.

Between nodes every message arrives once and in order, over broken connections too, as `net.peers.Peers` does it: what
cannot pass waits. A broken connection is noticed, at once where a process has ended and otherwise after a while, and so
is a new one.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import TYPE_CHECKING, Any

from cellmesh.scheduler.cluster.agent import events
from cellmesh.scheduler.cluster.messages import Member, ToHead
from cellmesh.scheduler.cluster.net.reliable import Overrun
from cellmesh.scheduler.cluster.net.sockets import BREAKS_AFTER_S

if TYPE_CHECKING:
    from cluster.simulated.node import Machine

ENDS_WITHIN_S = (
    2.0  # until it is noticed that a process has ended: most of the time at once, but its machine may be slow
)
ROOM_BYTES = 1 << 20


class PeerLine:
    """What one node sends to another. `is_full`: it reads too slowly; `is_choked`: so slowly that nothing more can be
    kept."""

    def __init__(self, sender: Machine, node: int) -> None:
        self.sender, self.node, self.world = sender, node, sender.world
        self.waiting: deque[tuple[float, Any]] = deque()  # when it arrives at the earliest
        self.is_closed = self.is_used = self.is_down = self.is_full = self.is_choked = False
        self.wants_room = False
        self.full_since = inf  # when the sender could first see that it is full
        self.broken_since = inf
        self.is_missed = False  # the sender has been told that there is no connection

    def send(self, message: Any) -> None:
        if self.is_choked:
            raise Overrun("it has not read for long")
        self.is_used = True
        if self.is_full:
            self.full_since = min(self.full_since, self.world.now)
        earliest = self.waiting[-1][0] if self.waiting else 0.0
        due = max(earliest, self.world.now + self.sender.cluster.delay_s())
        self.waiting.append((due, message))
        self.world.at(due - self.world.now, self.flow)

    def passes(self) -> bool:
        """Whether anything arrives now: a connection needs both directions."""
        one, other = self.sender, self.sender.cluster.machines[self.node]
        ways = {(one.place, other.place), (other.place, one.place)}
        is_heard = other.is_alive and not other.is_paused and one.me.node in other.network.lines
        return is_heard and not self.is_down and not ways & self.world.is_blocked

    def flow(self) -> None:
        """What can arrive does. To be called whenever that may have changed."""
        if self.is_closed or not self.sender.is_alive:
            return
        if not self.passes():
            if self.is_used and self.broken_since == inf:
                self.broken_since = self.world.now
                is_dead = not self.sender.cluster.machines[self.node].is_alive
                after_s = self.world.rng.uniform(0, ENDS_WITHIN_S) if is_dead else BREAKS_AFTER_S
                self.world.at(after_s, self._notice, self.broken_since)
            return
        self.broken_since = inf
        if self.is_missed:
            self.is_missed = False
            self.sender.post(self.sender.on, events.PeerUp(self.node))
        receiver = self.sender.cluster.machines[self.node]
        while self.waiting and self.waiting[0][0] <= self.world.now and not self.is_closed and self.passes():
            _, message = self.waiting.popleft()
            receiver.post(receiver.hear, self.sender.me.node, message)

    def _notice(self, since: float) -> None:
        if self.broken_since == since and not self.is_missed and not self.is_closed:
            self.is_missed = True
            self.sender.post(self.sender.on, events.PeerDown(self.node, "the connection has broken"))

    def restored(self) -> None:
        """What had it down, full or choked is over."""
        self.is_down = self.is_full = self.is_choked = False
        self.full_since = inf
        if self.wants_room:
            self.wants_room = False
            self.sender.post(self.sender.room, self.node)
        self.flow()


class SimulatedNetwork:
    """See `agent.shell.Network`."""

    deadline = inf

    def __init__(self, machine: Machine) -> None:
        self._machine, self._world = machine, machine.world
        self.lines: dict[int, PeerLine] = {}

    def tick(self, now: float) -> None:
        pass

    def connect(self, attempt: int) -> None:
        machine, cluster = self._machine, self._machine.cluster
        if machine.wire is not None:
            machine.wire.cut()
        machine.wire = None
        head = cluster.head
        if head is None or not head.is_alive:
            self._world.at(0.01, machine.post, machine.on, events.Disconnected(attempt))
        elif not {(machine.place, "head"), ("head", machine.place)} & self._world.is_blocked:
            machine.wire = cluster.wire_type(cluster, (machine, head))
            self._world.at(2 * cluster.delay_s(), machine.post, machine.on, events.Connected(attempt))

    def tell(self, message: ToHead) -> None:
        if self._machine.wire is not None:
            self._machine.wire.send(self._machine, message)

    def add(self, member: Member) -> None:
        if member.node not in self.lines:
            self.lines[member.node] = PeerLine(self._machine, member.node)
            self._machine.cluster.flow()

    def remove(self, node: int) -> None:
        line = self.lines.pop(node, None)
        if line is not None:
            line.is_closed = True
            self._machine.cluster.flow()

    def send(self, node: int, message: Any, frame: bytes | None = None) -> None:
        self.lines[node].send(message)

    def room(self, node: int) -> int:
        line = self.lines[node]
        line.wants_room = line.wants_room or line.is_full
        return 0 if line.is_full else ROOM_BYTES

    def probe(self, node: int, endpoint: str) -> None:
        self._world.at(2 * self._machine.cluster.delay_s(), self._answer, node)

    def _answer(self, node: int) -> None:
        """A machine's system answers whatever its processes do, if nothing between the two is blocked."""
        machine, other = self._machine, self._machine.cluster.machines[node]
        if not {(machine.place, other.place), (other.place, machine.place)} & self._world.is_blocked:
            machine.post(machine.on, events.PeerProbed(node, other.is_alive))
