"""How throughput and latency of a simulated cluster grow with its nodes, and where one global scheduler is full.

    python tests/cluster/simulated/scale.py      # 10 to 1,000 nodes, a million tasks on the largest; `make nightly`
    python tests/cluster/simulated/scale.py 100  # one size

The cores are the real ones: the head's, and an agent's for every node. Machines are simple: some CPUs, tasks of
one length, a queue. Time is virtual, except that a message occupies the head for as much processor time as `step`
really took, and `SHELL_S` more for receiving, decoding and sending; so a head that cannot keep up is late here as it
would be there.

The load: nine nodes in ten submit somewhat less than they can run themselves, every tenth several times that, so that
the rest of it must go elsewhere; together it is `LOAD` of what the cluster could run. "steady": small batches every 10
ms, so leases once granted are used on and on. "bursts": all of it every 100 ms, so that all nodes ask for room now and
then, which is the worst case for the head. "through head" counts its messages but for reports, in percent of the tasks.
"""

from __future__ import annotations

import heapq
import math
import random
import sys
import time
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from cellmesh.scheduler.cluster.agent import core as agent_core
from cellmesh.scheduler.cluster.agent import events
from cellmesh.scheduler.cluster.head import core as head_core
from cellmesh.scheduler.cluster.messages import Heard, Member, Report

SIZES = (10, 30, 100, 300, 1000)
N_TASKS_EACH = 1000  # tasks for every node
CPUS = 16
TASK_S = 0.012  # so a node of 16 runs 1,333 a second, and a thousand of them a million at `LOAD`
LOAD = 0.8
DELAY_S = 0.0002  # of a message
LOOK_S = 0.005
SHELL_S = 15e-6  # of the head's process, for a message: msgpack, CURVE, a system call
BURST_S = {"steady": 0.01, "bursts": 0.1}  # between what a node submits
CPU = {"CPU": 10_000}


class Node:
    """A machine: `waiting` are its own tasks, by time of submission; `foreign` those of others: (from whom, lease, when
    submitted, how many)."""

    def __init__(self, run: Run, number: int) -> None:
        self.run, self.number = run, number
        self.me = Member(number, "tcp://x", number.to_bytes(32, "big"), f"host{number}", {"CPU": CPUS * 10_000})
        self.core = agent_core.start(self.me, 0.0)
        self.busy = self.lent = self.n_ended = 0
        self.waiting: deque[list[Any]] = deque()
        self.n_waiting = 0
        self.foreign: deque[list[Any]] = deque()
        self.is_looking = False
        self.timer_at = float("inf")

    def on(self, event: Any) -> None:
        for action in agent_core.step(self.core, event, self.run.now):
            if isinstance(action, events.Tell):
                self.run.to_head(self, action.message)
            elif isinstance(action, events.Send):
                self.send(action)
            elif isinstance(action, events.Connect):
                self.run.at(2 * DELAY_S, self.on, events.Connected(action.attempt))
        due = agent_core.next_deadline(self.core)
        if due < self.timer_at:
            self.timer_at = due
            self.run.at(due - self.run.now, self.ring, due)

    def ring(self, due: float) -> None:
        if due == self.timer_at:
            self.timer_at = float("inf")
            self.on(events.Tick())

    def take(self, n: int) -> list[tuple[float, int]]:
        """The oldest `n` of the own waiting tasks, by time of submission."""
        taken = []
        while n and self.waiting:
            entry = self.waiting[0]
            k = min(n, entry[1])
            taken.append((entry[0], k))
            entry[1] -= k
            n -= k
            self.n_waiting -= k
            if not entry[1]:
                self.waiting.popleft()
        return taken

    def send(self, action: events.Send) -> None:
        taken = self.take(action.n)
        n = sum(k for _, k in taken)
        self.on(events.Sent(action.lease, action.n, n))
        other = self.run.nodes[action.node]
        for submitted, k in taken:
            self.run.at(DELAY_S, other.receive, self, action.lease, submitted, k)

    def receive(self, sender: Node, lease: int, submitted: float, n: int) -> None:
        self.foreign.append([sender, lease, submitted, n])
        self.start()

    def submit(self, n: int) -> None:
        self.waiting.append([self.run.now, n])
        self.n_waiting += n
        self.start()

    def start(self) -> None:
        """Run what has waited longest."""
        while self.busy < CPUS and (self.waiting or self.foreign):
            if self.foreign and (not self.waiting or self.foreign[0][2] <= self.waiting[0][0]):
                entry = self.foreign[0]
                sender, lease, submitted, _ = entry
                n = min(entry[3], CPUS - self.busy)
                entry[3] -= n
                if not entry[3]:
                    self.foreign.popleft()
                self.lent += n
                self.run.at(TASK_S, self.finish, n, sender, lease, submitted)
            else:
                [(submitted, n)] = self.take(min(CPUS - self.busy, self.waiting[0][1]))
                self.run.at(TASK_S, self.finish, n, None, 0, submitted)
            self.busy += n
        self.look()

    def finish(self, n: int, sender: Node | None, lease: int, submitted: float) -> None:
        self.busy -= n
        self.n_ended += n
        if sender is None:
            self.run.done(n, submitted, is_away=False)
        else:
            self.lent -= n
            self.run.at(DELAY_S, sender.result, n, lease, submitted)
        self.start()

    def result(self, n: int, lease: int, submitted: float) -> None:
        self.run.done(n, submitted, is_away=True)
        self.n_ended += n  # `n_elsewhere` is taken off again
        self.on(events.Ended(lease, n))

    def look(self) -> None:
        if not self.is_looking:
            self.is_looking = True
            self.run.at(LOOK_S, self.looked)

    def looked(self) -> None:
        self.is_looking = False
        waiting = (events.Waiting(1, CPU, self.n_waiting, fits=False),) if self.n_waiting else ()  # it has settled
        self.on(
            events.Looked(
                waiting,
                {"CPU": (CPUS - self.busy) * 10_000},
                {"CPU": self.lent * 10_000},
                n_running=self.busy,
                n_lent=self.lent,
                n_ended=self.n_ended,
            )
        )


class Run:
    """One cluster of `n` nodes, from its start to the end of the last task."""

    def __init__(self, n: int, burst_s: float) -> None:
        self.now, self.heap, self.n_events = 0.0, [], 0
        self.head = head_core.start("scale", 1, 0.0)
        self.head_free_at = self.head_ticks_at = 0.0
        self.cost_s: Counter[str] = Counter()
        self.n_of: Counter[str] = Counter()
        self.latency: Counter[int] = Counter()  # in tenths of milliseconds
        self.n_done = self.n_away = 0
        self.worst_wait_s = 0.0
        rng = random.Random(n)
        self.nodes = {number: Node(self, number) for number in range(1, n + 1)}
        for node in self.nodes.values():
            self.at(rng.uniform(0, 0.5), node.on, events.Tick())
            node.look()
        self.began = 2.0
        # A tenth of the nodes submits a third of all, the others the rest: what they can just run on average, in
        # bursts.
        heavy = max(1, n // 10)
        self.n_tasks = 0
        for number, node in self.nodes.items():
            share = N_TASKS_EACH * n / 3 / heavy if number <= heavy else N_TASKS_EACH * n * 2 / 3 / max(1, n - heavy)
            lasts_s = N_TASKS_EACH / (CPUS / TASK_S * LOAD)
            n_bursts = max(1, round(lasts_s / burst_s))
            for i in range(n_bursts):
                size = max(1, round(share / n_bursts * rng.uniform(0.5, 1.5)))
                self.n_tasks += size
                self.at(self.began + (i + rng.random()) * burst_s, node.submit, size)

    def at(self, delay_s: float, what: Callable[..., None], *args: Any) -> None:
        self.n_events += 1
        heapq.heappush(self.heap, (self.now + delay_s, self.n_events, what, args))

    def run(self) -> None:
        self.at(0.0, self.tick)
        while self.heap and self.n_done < self.n_tasks:
            self.now, _, what, args = heapq.heappop(self.heap)
            what(*args)

    def done(self, n: int, submitted: float, is_away: bool) -> None:
        self.n_done += n
        self.n_away += n * is_away
        self.latency[int((self.now - submitted) * 10_000)] += n

    # ---- the head
    def tick(self) -> None:
        self.serve(head_core.Tick(), "Tick")
        self.at(self.head.settings.tick_s, self.tick)

    def to_head(self, node: Node, message: Any) -> None:
        self.at(DELAY_S, self.serve, head_core.Received(node, node.me.key, message), type(message).__name__)

    def serve(self, event: Any, kind: str) -> None:
        """The head takes one after the other, so it may be late; time in it is real."""
        arrived, started = self.now, max(self.now, self.head_free_at)
        began = time.thread_time()
        actions = head_core.step(self.head, event, started)
        took = time.thread_time() - began + SHELL_S
        self.cost_s[kind] += took
        self.n_of[kind] += 1
        self.head_free_at = started + took
        if self.now >= self.began:
            self.worst_wait_s = max(self.worst_wait_s, started - arrived)
        for action in actions:
            if isinstance(action, head_core.Send):
                if not isinstance(action.message, Heard):
                    self.n_of[f"-> {type(action.message).__name__}"] += len(action.to)
                for node in action.to:
                    said = events.HeadSaid(node.core.attempt, action.message)
                    self.at(self.head_free_at - self.now + DELAY_S, node.on, said)

    def quantile_ms(self, q: float) -> float:
        left = q * self.n_done
        for tenth in sorted(self.latency):
            left -= self.latency[tenth]
            if left <= 0:
                break
        return tenth / 10


def measure(n: int, load: str) -> float:
    """One line of the table; returns how much of a core the head needed."""
    began = time.perf_counter()
    run = Run(n, BURST_S[load])
    run.run()
    assert run.n_done == run.n_tasks
    lasted_s = run.now - run.began
    joining = ("Register", "Leave")
    n_messages = sum(k for kind, k in run.n_of.items() if kind in ("Ask", "Return"))
    share = sum(s for kind, s in run.cost_s.items() if kind not in joining) / run.now
    each = {
        kind: 1e6 * run.cost_s[kind] / run.n_of[kind]
        for kind in ("Report", "Ask", "Return", "Tick", "Register")
        if run.n_of[kind]
    }
    print(
        f"{load:<7}{n:>6} {run.n_tasks:>9,} {run.n_tasks / lasted_s:>11,.0f} "
        f"{run.quantile_ms(0.5):>8.1f} {run.quantile_ms(0.99):>8.1f} "
        f"{100 * run.n_away / run.n_tasks:>6.1f} {100 * n_messages / run.n_tasks:>9.3f} {100 * share:>7.2f} "
        f"{1e3 * run.worst_wait_s:>8.1f}   "
        + "  ".join(f"{kind} {us:.0f}" for kind, us in each.items())
        + f"   ({time.perf_counter() - began:.0f} s)",
        flush=True,
    )
    assert n_messages <= 0.01 * run.n_tasks or load != "steady", (
        f"{n_messages} messages through the head for {run.n_tasks} tasks"
    )
    return share


def ask_worst_case(n: int) -> float:
    """Microseconds that an ask and the return of its lease take in a head with `n` idle nodes, when every task asks for
    itself."""
    head = head_core.start("c", 1, 0.0)
    for number in range(1, n + 1):
        who = Member(number, "tcp://x", number.to_bytes(32, "big"), "h", {"CPU": CPUS * 10_000})
        head_core.step(head, head_core.Received(number, who.key, head_core.Register(who, 1)), 0.0)
        head_core.step(head, head_core.Received(number, who.key, Report(number, 1, who.total)), 0.0)
    k = 500
    began = time.thread_time()
    for i in range(k):
        [send] = head_core.step(head, head_core.Received(1, b"", head_core.Ask(i + 1, 1, CPU, 1)), 0.0)
        head_core.step(head, head_core.Received(1, b"", head_core.Return({send.message.leases[0].lease: 1})), 0.0)
    return 1e6 * (time.thread_time() - began) / k


def full_at(shares: dict[int, float]) -> str:
    """At how many nodes a core is full, from the two largest sizes."""
    (n, share), (m, more) = sorted(shares.items())[-2:]
    exponent = math.log(more / share) / math.log(m / n)
    return (
        f"{m * (1 / more) ** (1 / exponent):,.0f} nodes, growing with their number to the power of {exponent:.2f}"
        if exponent > 0
        else "no size"
    )


def main() -> int:
    sizes = tuple(int(n) for n in sys.argv[1:]) or SIZES
    began = time.perf_counter()
    print(
        f"{'load':<7}{'nodes':>6} {'tasks':>9} {'tasks/s':>11} {'p50 ms':>8} {'p99 ms':>8} "
        f"{'away %':>6} {'through %':>9} {'core %':>7} {'late ms':>8}"
        f"   microseconds of the head, with {SHELL_S * 1e6:.0f} for its shell"
    )
    for load in BURST_S:
        shares = {n: measure(n, load) for n in sizes}
        if len(sizes) > 1:
            print(f"{load}: a core of the head is full at about {full_at(shares)}")
    for n in sizes:
        us = ask_worst_case(n) + 2e6 * SHELL_S
        print(
            f"If every task asked for itself: {us:.0f} microseconds for an ask and a return with {n} idle nodes, "
            f"{1e6 / us:,.0f} tasks a second at most."
        )
    print(f"{len(sizes) * len(BURST_S)} passed, 0 failed in {time.perf_counter() - began:.1f}s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
