"""A cluster that plays one scenario in which every message between an agent and the head is sent, with one fault at a
time.

`Script` is the scenario: what each machine does when. It goes on until everything is done, judges, ends the cluster,
and judges again. `FAULTS` are what may happen to one message of it; `test_message_faults` says which events they stand
for.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from cellmesh.scheduler.cluster.agent import events
from cellmesh.scheduler.cluster.agent.groups import GroupKey
from cellmesh.scheduler.cluster.agent.strategies import Wish
from cellmesh.scheduler.cluster.head import core as head_core
from cellmesh.scheduler.cluster.messages import Drain, End, Refused, Registered, Status, StatusRequest
from cluster.simulated.head import HeadProcess
from cluster.simulated.node import ANYWHERE, Machine, session_of
from cluster.simulated.simulation import QUIET_S, Cluster
from cluster.simulated.world import Process, Violation, Wire

SCRIPT_S = 24.0  # when the last step of the scenario has begun
LIMIT_S = 150.0  # when all of it must be done
COMMAND_S = 10.0  # so long a command waits for an answer
LAST_WORDS_S = 15.0  # when a message of a lost connection comes at the latest
CPU = 10_000

ToWhom = tuple[int, type]  # 0: the head, 1: an agent or a command; what
Fault = Callable[["Script", "Line", int, Any], None]


class Line(Wire):
    """A connection on which something may happen to one message: as it is sent, or as it arrives."""

    def __init__(self, cluster: Script, ends: tuple[Process, Process]) -> None:
        super().__init__(cluster, ends)
        self.script = cluster
        self.attempt = ends[0].core.attempt if isinstance(ends[0], Machine) else 0
        self.is_stalled = [False, False]
        self.marked: Any = None  # a message, and
        self.at_arrival: Callable[[], None]  # what happens when it arrives

    def send(self, sender: Process, message: Any) -> None:
        if self.is_cut:
            return
        way = 0 if sender is self.ends[0] else 1
        fault = self.script.meets(way, message)
        if fault is None:
            self._carry(way, message)
        else:
            fault(self.script, self, way, message)

    def carry(self, way: int, message: Any, at_arrival: Callable[[], None] | None = None) -> None:
        """Send it on its way; `at_arrival`: instead of its delivery, unless the connection is lost before."""
        if at_arrival is not None:
            self.marked, self.at_arrival = message, at_arrival
        self._carry(way, message)

    def deliver(self, way: int, message: Any) -> None:
        receiver = self.ends[1 - way]
        receiver.post(receiver.arrived, self, message)

    def last_words(self, way: int, message: Any) -> None:
        """What was said on a connection that is lost comes to whom it was said."""
        receiver = self.ends[1 - way]
        if isinstance(receiver, Machine):
            receiver.post(receiver.on, events.HeadSaid(self.attempt, message))
        elif isinstance(receiver, HeadProcess):
            receiver.post(receiver.arrived, self, message)

    def stall(self, way: int, for_s: float) -> None:
        """Nothing comes through in one direction for a while. What is sent meanwhile comes then."""
        self.is_stalled[way] = True
        self.script.world.at(for_s, self._go_on, way)

    def _go_on(self, way: int) -> None:
        self.is_stalled[way] = False
        if not self.is_cut:
            self.release()
            return
        waiting = self.held[way][:]
        self.held[way].clear()
        for message in waiting:
            self.last_words(way, message)

    def _blocked(self, way: int) -> bool:
        return self.is_stalled[way] or super()._blocked(way)

    def _arrive(self, way: int, message: Any) -> None:
        if message is self.marked and not self.is_cut and not self._blocked(way):
            self.marked = None
            self.at_arrival()
            return
        super()._arrive(way, message)
        if isinstance(message, Registered) and not self.is_cut:
            self.script.has_registered(self)


class Command(Process):
    """A party that says something to the head, and says it again on another connection until it has been heard."""

    def __init__(self, script: Script, said: Drain | StatusRequest | End) -> None:
        super().__init__(script, "command")
        self.script, self.said, self.key = script, said, b"command"
        self.wire: Line | None = None
        self.is_done = False
        self.tries = 0
        self.begin()

    def __repr__(self) -> str:
        return f"command {type(self.said).__name__}"

    def deadline(self) -> float:
        return float("inf")

    def begin(self) -> None:
        """Connect, and say it."""
        head = self.script.head
        if self.is_done or head is None:
            return
        if not head.is_alive:
            self.is_done = self.script.has_ended
            self.world.at(0.5, self.post, self.begin)
            return
        self.tries += 1
        self.wire = Line(self.script, (self, head))
        self.wire.send(self, self.said)
        if isinstance(self.said, Drain) and self.wire is not None:
            self.wire.send(self, StatusRequest(1))  # it has heard of it
        self.world.at(COMMAND_S, self.post, self._give_up, self.tries)

    def _give_up(self, tries: int) -> None:
        if not self.is_done and tries == self.tries and self.wire is not None:
            self.wire.cut()

    def arrived(self, wire: Wire, message: Any) -> None:
        if wire is not self.wire:
            return
        if isinstance(message, Refused):  # of a node that is no member: not yet, or not any more
            self.is_done = isinstance(self.said, Drain) and self.said.node in self.script.store.dead
            wire.cut()
        elif isinstance(message, Status):
            self.is_done = True
            wire.cut()

    def lost_wire(self, wire: Wire) -> None:
        if wire is self.wire:
            self.wire = None
            self.begin()


class Script(Cluster):
    """The scenario, the same for the same `seed`. Drivers `a` and `b`, a worker `large`, one that `drains`, one that is
    killed (`dies`), one with a GPU that comes `late`, and a `stranger` with a wrong key.

    Parameters
    ----------
    seed : int
        Of delays and of how much there is to do; 0: as little as shows everything.
    fault : (ToWhom, int, Fault), optional
        What happens to that occurrence of that kind of message, from 0.
    """

    settings = head_core.Settings()
    wire_type = Line

    def __init__(self, seed: int = 0, fault: tuple[ToWhom, int, Fault] | None = None) -> None:
        self.fault_at = fault
        self.has_struck = self.has_ended = self.is_judged = False
        self.n_of: Counter[ToWhom] = Counter()
        self.sealed: Counter[int] = Counter()
        self.words: list[tuple[Line, int, Any]] = []  # last ones that are to come
        self.commands: list[Command] = []
        super().__init__(seed)

    # ---- what happens to messages
    def meets(self, way: int, message: Any) -> Fault | None:
        """Count a message that is sent, and say what happens to it."""
        if self.is_judged:
            return None
        kind = (way, type(message))
        n = self.n_of[kind]
        self.n_of[kind] += 1
        if self.fault_at is None or self.fault_at[:2] != (kind, n):
            return None
        self.has_struck = True
        self.world.tell(f"fault at {message}")
        return self.fault_at[2]

    def later(self, line: Line, way: int, message: Any) -> None:
        """It comes on its lost connection when its agent has registered on the next, or else after a while."""
        words = (line, way, message)
        self.words.append(words)
        self.world.at(LAST_WORDS_S, self._late, words)

    def has_registered(self, line: Line) -> None:
        for words in [words for words in self.words if words[0].ends[0] is line.ends[0] and words[0] is not line]:
            self._late(words)

    def _late(self, words: tuple[Line, int, Any]) -> None:
        if words in self.words:
            self.words.remove(words)
            words[0].last_words(*words[1:])

    def replace_head(self) -> None:
        """It dies, and its next life begins."""
        if not self.has_ended:
            self.crash_head(0.3)

    def start_head(self) -> None:
        if not self.has_ended:
            super().start_head()

    def head_ended(self, head: HeadProcess) -> None:
        self.has_ended = True
        super().head_ended(head)

    # ---- the scenario
    def draw(self, rng: random.Random) -> None:
        self.faults = []
        self.base_delay_s = 0.002
        n, long_s = 12, 0.4
        if self.world.seed:
            self.base_delay_s = rng.choice((0.0002, 0.002, 0.05))
            n, long_s = rng.randint(8, 40), rng.uniform(0.3, 0.8)

        def jitter() -> float:
            return rng.uniform(0, 2) if self.world.seed else 0.0

        self.head = HeadProcess(self)
        self.a, self.b = (self.enter(True, {"CPU": CPU, "memory": CPU}) for _ in range(2))
        self.large, self.drains, self.dies = (self.enter(False, {"CPU": 2 * CPU, "memory": CPU}) for _ in range(3))
        self.late: Machine | None = None
        self.stranger: Machine | None = None
        task, soft = {"CPU": CPU}, Wish("node", node=session_of(self.drains.me.node), soft=True)
        at = self.world.at
        at(1 + jitter(), self.submit, self.a, 4 * n, task, long_s)
        at(2 + jitter(), self.submit, self.b, n, task, long_s)
        at(2 + jitter(), self.submit, self.a, 2, {"CPU": CPU, "GPU": CPU}, 0.2)
        at(3 + jitter(), self.claim, self.a, "one")
        at(3 + jitter(), self.claim, self.b, "other")
        at(4 + jitter(), self.claim, self.a, "one")
        at(4 + jitter(), self.enter_stranger)
        at(5 + jitter(), self.connect_beneath, self.b)
        at(6 + jitter(), self.look_on, self.a)
        at(6 + jitter(), self.say, StatusRequest(1))
        at(9 + jitter(), self.want_group, self.a, ({"CPU": CPU}, {"CPU": CPU}, {"CPU": CPU // 2}))
        at(12, self.submit, self.b, 6, task, 2.5, soft)
        at(12.5, self.say, Drain(self.drains.me.node))
        at(13.2 + jitter() / 2, self.cut, self.drains)
        at(17 + jitter(), self.kill, self.dies)
        at(18, self.submit, self.a, 2 * n, task, long_s)
        at(19 + jitter(), self.enter_late)
        at(22 + jitter(), self.claim, self.b, "one")
        at(SCRIPT_S - 1, self.submit, self.b, n, task, 0.1)

    def enter(self, is_driver: bool, total: dict[str, int]) -> Machine:
        machine = Machine(self, is_driver, total)
        self.machines[machine.me.node] = machine
        return machine

    def enter_late(self) -> None:
        self.late = self.enter(False, {"CPU": CPU, "memory": CPU, "GPU": CPU})

    def enter_stranger(self) -> None:
        self.stranger = self.enter(False, {"CPU": 8 * CPU})
        self.stranger.key = b"?" * 32

    def submit(
        self, machine: Machine, n: int, demand: dict[str, int], duration_s: float, wish: Wish = ANYWHERE
    ) -> None:
        for _ in range(n):
            machine.post(machine.submit, demand, duration_s, wish)

    def claim(self, machine: Machine, name: str) -> None:
        machine.post(machine.claim, name)

    def connect_beneath(self, machine: Machine) -> None:
        """The connection is made again and its agent does not see it, as a library may do it."""
        old = machine.wire
        if old is None or old.is_cut or self.head is None or not self.head.is_alive or machine.core.link != "up":
            self.world.at(0.5, self.connect_beneath, machine)
            return
        machine.wire = Line(self, (machine, self.head))
        old.is_cut = True
        self.wires.remove(old)
        self.world.at(0.3, old.ends[1].post, old.ends[1].lost_wire, old)

    def look_on(self, machine: Machine) -> None:
        """A driver asks its agent how the cluster is."""
        machine.post(machine.enter, machine.shell.status_feed.asked, 1, self.world.now)

    @property
    def n_answers(self) -> int:
        """What drivers that asked so have been told."""
        return sum(len(machine.told) for machine in self.machines.values())

    def say(self, said: Drain | StatusRequest | End) -> None:
        self.commands.append(Command(self, said))

    def want_group(self, machine: Machine, bundles: tuple[dict[str, int], ...]) -> None:
        machine.post(self._want_group, machine, bundles)

    def _want_group(self, machine: Machine, bundles: tuple[dict[str, int], ...]) -> None:
        key = machine.want_group(bundles, "SPREAD")
        self.world.at(0.2, self._remove_group, machine, key)

    def _remove_group(self, machine: Machine, key: GroupKey) -> None:
        group = machine.core.leases.groups.get(key)
        if group is not None and group.leases:
            machine.post(machine.on, events.WantGroup(key, ()))
        else:
            self.world.at(0.2, self._remove_group, machine, key)

    def cut(self, machine: Machine) -> None:
        if machine.wire is not None:
            machine.wire.cut()

    def kill(self, machine: Machine) -> None:
        self.troubled(machine.me.node)
        machine.die()

    # ---- the run
    def run(self) -> None:
        """The whole of it; raises Violation with the end of the story."""
        try:
            self._play()
        except Exception as error:
            story = "\n".join(self.world.story)
            raise Violation(f"seed {self.world.seed}: {error!r}\n{story}") from error

    def _play(self) -> None:
        world = self.world
        world.run_until(SCRIPT_S)
        quiet_since = world.now
        while world.now < quiet_since + QUIET_S:
            world.run_until(world.now + 0.5)
            if why := self._is_busy():
                world.must(world.now < LIMIT_S, f"not done in {LIMIT_S:g} s: {why}")
                quiet_since = world.now
        self.is_judged = True
        self.judge()
        self.is_judged = False
        self.say(End("it is over"))
        world.run_until(world.now + 3)
        end = world.now + self.settings.gone_after_s + self.settings.dead_after_s + LAST_WORDS_S
        while world.now < end and (self.alive() or self.words or not self.commands[-1].is_done):
            world.run_until(world.now + 1)
        self._judge_end()

    def _is_busy(self) -> str:
        """What is not done yet."""
        assert self.head is not None
        alive = self.alive()
        if left := self.unfinished():
            return f"tasks {[(t.number, t.state, t.node, t.work) for t in left[:3]]}"
        if self.words or any(line.held[0] or line.held[1] for line in self.wires):
            return "messages on their way"
        if said := [command for command in self.commands if not command.is_done]:
            return f"{said}"
        if not self.head.is_alive or self.head.is_paused or any(m.is_paused or m.core.link != "up" for m in alive):
            return "connections"
        if self.head.head.nodes.keys() != {m.me.node for m in alive}:
            return f"members {sorted(self.head.head.nodes)}, alive {alive}"
        if any(machine.pending_requests for machine in alive) or not self.n_answers:
            return "requests"
        return "a placement group" if any(machine.core.leases.groups for machine in alive) else ""

    def judge(self) -> None:
        super().judge()
        world, head = self.world, self.head
        assert head is not None and self.late is not None and self.stranger is not None
        world.must(not head.head.ledger.is_careful and not head.head.awaited, "the head still waits for somebody")
        for machine in self.alive():
            leases = machine.core.leases
            world.must(leases.is_idle and not any(leases.in_flight_on.values()), f"{machine} has something under way")
            world.must(not leases.lines and not leases.groups and not leases.by_number, f"{machine} asks for something")
            world.must(
                not machine.running and not machine.queue and not any(machine.used.values()),
                f"{machine} runs something",
            )
            world.must(not machine.core.requests, f"{machine} repeats requests")
        self._judge_machines({self.drains: "left", self.stranger: "refused", self.dies: ""})
        world.must(self.evicted <= {self.drains.me.node, self.dies.me.node}, f"declared dead: {self.evicted}")

    def _judge_machines(self, gone: dict[Machine, str]) -> None:
        for machine in self.machines.values():
            self.world.must(
                machine.is_alive == (machine not in gone) and machine.stopped == gone.get(machine, ""),
                f"{machine} has stopped: {machine.stopped!r}",
            )

    def _judge_end(self) -> None:
        """A node that has not heard that the cluster ends goes when the head has been gone for long, and a driver lives
        on."""
        world = self.world
        world.must(self.has_ended and self.commands[-1].is_done, "the cluster has not ended")
        for machine in self.machines.values():
            if machine in (self.drains, self.stranger, self.dies) or machine.stopped == "ended":
                continue
            is_well = machine.is_alive and machine.has_gone if machine.is_driver else machine.stopped == "head_gone"
            world.must(self.has_struck and is_well, f"{machine} has not heard of the end: {machine.stopped!r}")
        world.must(self.evicted <= {self.drains.me.node, self.dies.me.node}, f"declared dead: {self.evicted}")

    def outcome(self) -> tuple[object, ...]:
        """What a fault changes nothing of."""
        machines = [(m.me.node, m.is_driver, dict(m.replies)) for m in self.machines.values()]
        return self.n_tasks, self.n_done, machines, self.store.entries, min(self.n_groups, 1), self.n_answers


# ---------------------------------------------------------------- faults
def lost(script: Script, line: Line, way: int, message: Any) -> None:
    """The connection breaks before it: neither it nor what follows arrives."""
    line.cut()


def answer_lost(script: Script, line: Line, way: int, message: Any) -> None:
    """The connection breaks behind it: it arrives, and what is answered does not."""

    def arrived() -> None:
        line.cut()
        line.deliver(way, message)

    line.carry(way, message, arrived)


def twice(script: Script, line: Line, way: int, message: Any) -> None:
    """It arrives, and what is like it again: the connection is lost and all is said again, to the head's next life if
    it was the head that spoke. Then the message itself comes once more, as the last words of the lost connection."""

    def arrived() -> None:
        line.deliver(way, message)
        if way:
            script.replace_head()
        line.cut()
        script.later(line, way, message)

    line.carry(way, message, arrived)


def answered_twice(script: Script, line: Line, way: int, message: Any) -> None:
    """It arrives, and the connection is made again beneath the agent: it registers a second time on the same one, and
    all is asked and answered again."""

    def arrived() -> None:
        line.deliver(way, message)
        if isinstance(line.ends[0], Machine) and line.ends[0].is_alive and line.ends[0].wire is line:
            script.connect_beneath(line.ends[0])

    line.carry(way, message, arrived)


def held_up(script: Script, line: Line, way: int, message: Any) -> None:
    """The connection is stuck in that direction for longer than a silent node lives."""
    line.stall(way, script.settings.dead_after_s + 1)
    line.carry(way, message)


def overtaken(script: Script, line: Line, way: int, message: Any) -> None:
    """The connection is lost, and the message comes behind the first ones of the next."""
    line.cut()
    script.later(line, way, message)


def still_running(script: Script, line: Line, way: int, message: Any) -> None:
    """Its receiver is stopped on the spot, for so long that the other gives the connection up and says all again, or
    is replaced: both are taken in at once."""

    def arrived() -> None:
        line.ends[1 - way].pause(0.75 * script.settings.dead_after_s)
        line.deliver(way, message)
        if way:
            script.replace_head()

    line.carry(way, message, arrived)


FAULTS: dict[str, Fault] = {
    "request lost": lost,
    "reply lost": answer_lost,
    "duplicated": twice,
    "duplicated by a second registration": answered_twice,
    "delayed past the timeout": held_up,
    "reordered": overtaken,
    "handler still running": still_running,
}
