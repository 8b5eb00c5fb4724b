"""What the simulation of a cluster is made of: a clock, connections, and processes that can be stopped and killed.

Messages of a connection arrive in order or, after its loss, not at all; only what goes over
different connections can be overtaken, so that the last words on a lost one may come after the first on the next. A
partition holds back what is sent until it heals or the connection is given up, in both directions or in one.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cluster.simulated.simulation import Cluster

LONG_PAUSE_S = 2.5  # of the head: it must notice
MAX_TICKS_AT_ONCE = 1000  # of one process while no time passes


class Violation(AssertionError):
    """An invariant is broken. Its text tells how to see it again."""


class World:
    """The clock, what is going to happen, and what has."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.now = 0.0
        self.n_steps = 0
        self.heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self.n_scheduled = 0
        self.story: deque[str] = deque(maxlen=4000)
        self.is_blocked: set[tuple[object, object]] = set()  # directions (from, to) in which nothing passes

    def at(self, delay_s: float, what: Callable[..., None], *args: Any) -> None:
        self.n_scheduled += 1
        heapq.heappush(self.heap, (self.now + delay_s, self.n_scheduled, what, args))

    def run_until(self, end: float) -> None:
        while self.heap and self.heap[0][0] <= end:
            self.now, _, what, args = heapq.heappop(self.heap)
            what(*args)
        self.now = end

    def tell(self, text: str) -> None:
        self.story.append(f"{self.now:9.4f} {text}")

    def must(self, holds: bool, text: str) -> None:
        if not holds:
            raise Violation(text)


class Wire:
    """One connection between two processes: in order, in both directions, until it is cut."""

    def __init__(self, cluster: Cluster, ends: tuple[Process, Process]) -> None:
        self.cluster, self.ends, self.is_cut = cluster, ends, False
        self.last = [0.0, 0.0]
        self.held: tuple[list[Any], list[Any]] = ([], [])
        cluster.wires.append(self)

    def send(self, sender: Process, message: Any) -> None:
        if not self.is_cut:
            self._carry(0 if sender is self.ends[0] else 1, message)

    def _carry(self, way: int, message: Any) -> None:
        world = self.cluster.world
        if self._blocked(way) or self.held[way]:
            self.held[way].append(message)
            return
        when = max(self.last[way], world.now + self.cluster.delay_s())
        self.last[way] = when
        world.at(when - world.now, self._arrive, way, message)

    def _blocked(self, way: int) -> bool:
        return (self.ends[way].place, self.ends[1 - way].place) in self.cluster.world.is_blocked

    def _arrive(self, way: int, message: Any) -> None:
        if self.is_cut:
            # Who has hung up hears nothing more; last words to the head may come much later, or never.
            if way == 0 and self.cluster.world.rng.random() < 0.5:
                self.cluster.world.at(
                    self.cluster.world.rng.uniform(0, 2), self.ends[1].post, self.ends[1].arrived, self, message
                )
            return
        if self._blocked(way):
            self.held[way].append(message)
        else:
            self.ends[1 - way].post(self.ends[1 - way].arrived, self, message)

    def release(self) -> None:
        """A partition has healed: what was held back goes on, in order."""
        for way in (0, 1):
            if not self._blocked(way):
                waiting = self.held[way][:]
                self.held[way].clear()
                for message in waiting:
                    self._carry(way, message)

    def cut(self) -> None:
        """Both ends hear of it, each in its time."""
        if self.is_cut:
            return
        self.is_cut = True
        self.cluster.wires.remove(self)
        for end in self.ends:
            self.cluster.world.at(self.cluster.world.rng.uniform(0, 1), end.post, end.lost_wire, self)


class Process:
    """Something that can be stopped, continued and killed. `place`: the machine in which it runs, as far as the network
    goes."""

    def __init__(self, cluster: Cluster, place: object) -> None:
        self.cluster, self.world, self.place = cluster, cluster.world, place
        self.is_alive, self.is_paused = True, False
        self.backlog: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self.woke = self.born = self.paused = self.world.now
        self.timer_at = float("inf")
        self.ticked_at, self.n_ticks = self.world.now, 0  # when last, and how often at that very time

    def post(self, what: Callable[..., None], *args: Any) -> None:
        if self.is_alive:
            if self.is_paused:
                self.backlog.append((what, args))
            else:
                what(*args)

    def pause(self, for_s: float) -> None:
        if self.is_alive and not self.is_paused:
            self.world.tell(f"{self} pauses for {for_s:.1f} s")
            self.is_paused, self.paused = True, self.world.now
            self.world.at(for_s, self.resume)

    def resume(self) -> None:
        if self.is_alive and self.is_paused:
            self.world.tell(f"{self} wakes with {len(self.backlog)} events to take in")
            self.is_paused = False
            if self.world.now - self.paused > LONG_PAUSE_S:
                self.woke = self.world.now
            while self.backlog and self.is_alive:
                what, args = self.backlog.popleft()
                what(*args)
            self.set_timer()

    def set_timer(self) -> None:
        """One timer at a time; it looks again when it rings too early."""
        due = self.deadline()
        if due < self.timer_at:
            self.timer_at = due
            self.world.at(max(0.0, due - self.world.now), self._ring, due)

    def _ring(self, due: float) -> None:
        if due == self.timer_at and self.is_alive:
            self.timer_at = float("inf")
            self.post(self._rung)

    def _rung(self) -> None:
        if self.world.now >= self.deadline():
            self.n_ticks = self.n_ticks + 1 if self.ticked_at == self.world.now else 1
            self.ticked_at = self.world.now
            self.world.must(self.n_ticks < MAX_TICKS_AT_ONCE, f"{self} spins: its deadline does not move")
            self.tick()
        self.set_timer()

    def deadline(self) -> float:
        raise NotImplementedError

    def tick(self) -> None:
        raise NotImplementedError

    def arrived(self, wire: Wire, message: Any) -> None:
        raise NotImplementedError

    def lost_wire(self, wire: Wire) -> None:
        raise NotImplementedError
