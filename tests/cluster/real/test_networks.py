"""Networks that fail: three machines in network namespaces, with cables that are pulled, routes that lead nowhere, and
agents that are stopped.

CELLMESH_BLACKOUTS, CELLMESH_STOPS and CELLMESH_LONG_PARTITIONS say how often; by default once, and no partition that is
longer than the time after which a node counts as dead.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.drivers import ends_well, pass_time, program, says, tell
from support.real_machines import Network, agent_of, cannot_make_networks, logs_of, own_bytes
from support.waiting import wait_until

NO_NETWORK = cannot_make_networks()
pytestmark = [
    pytest.mark.skipif(bool(NO_NETWORK), reason=f"NO TEST OF REAL NETWORKS: {NO_NETWORK}"),
    pytest.mark.timeout(3600),
]
N_BLACKOUTS = int(os.environ.get("CELLMESH_BLACKOUTS", "1"))
N_STOPS = int(os.environ.get("CELLMESH_STOPS", "1"))
N_PARTITIONS = int(os.environ.get("CELLMESH_LONG_PARTITIONS", "0"))
BLACKOUT_S, BETWEEN_S = 2.5, 6.0
STOPPED_S = 3.0
NOTICED_S = 15.0  # by both sides, at most, and what was there is on its way elsewhere
MB = 1 << 20

# Works until it is told to stop, and says how far it is. Nothing may fail: no task is run a second time, no call
# either.
BUSY = """
import select

@cm.remote(max_retries=0)
def weigh(x):
    time.sleep(0.005)
    return float(x.sum())

@cm.remote(num_cpus=0.1)
class Counter:
    def __init__(self):
        self.n = 0

    def add(self):
        self.n += 1
        return self.n

wait_for_nodes(2)
counters, n = [Counter.remote() for _ in range(4)], 0
cm.get([counter.add.remote() for counter in counters])
print("busy", flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    n += 1
    large = cm.put(np.ones(1 << 17))
    sums = [weigh.remote(large) for _ in range(8)] + [weigh.remote(np.ones(i)) for i in range(1, 30)]
    assert cm.get([counter.add.remote() for counter in counters], timeout=60) == [n + 1] * len(counters)
    assert cm.get(sums, timeout=60) == [float(1 << 17)] * 8 + [float(i) for i in range(1, 30)]
    print(n, flush=True)
print(n * 41, "tasks and calls")
"""

REPEATING = (
    BUSY.replace("max_retries=0", "max_retries=3")
    .replace("num_cpus=0.1", "num_cpus=0.1, max_restarts=-1, max_task_retries=-1")
    .replace("== [n + 1] * len(counters)", "")
)
# At its end, tasks that can run nowhere but there.
RETURNING = REPEATING.replace(
    "print(n * 41",
    """from cellmesh.util import NodeAffinitySchedulingStrategy as On
there = weigh.options(scheduling_strategy=On(os.environ["THERE"], soft=False))
assert cm.get([there.remote(np.ones(1 << 17)) for _ in range(20)], timeout=60) == [float(1 << 17)] * 20
print(n * 41""",
)


@contextmanager
def busy(network: Network, body: str = BUSY) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """A head's machine, another one, and a driver on the third, which has no CPU."""
    here, there, mine = network.machines
    head = here.head("--num-cpus", "2")
    joined = there.join(head, here.run("token"), "--num-cpus", "2")
    driver = program(mine, head, here.run("token"), body, CPUS="0", HERE=head["session"], THERE=joined["session"])
    assert says(driver) == "busy", driver.communicate()
    yield driver, joined


def stop(driver: subprocess.Popen[str]) -> str:
    tell(driver, "stop")
    return ends_well(driver).strip().splitlines()[-1]


def test_a_black_out_that_is_shorter_than_the_dead_time_fails_nothing() -> None:
    with Network(3) as network, busy(network) as (driver, joined):
        for n in range(N_BLACKOUTS):
            pass_time(BETWEEN_S if n else 0.5, driver)
            network.pull(2)
            pass_time(BLACKOUT_S, driver)
            network.plug(2)
        print(stop(driver), f"and {N_BLACKOUTS} black-outs")
        assert joined["session"] in network.machines[0].alive(), "it was never declared dead"


@pytest.mark.slow
@pytest.mark.parametrize("one, other", [(3, 2), (2, 3)])
def test_a_way_that_leads_to_nobody_is_noticed_by_both(one: int, other: int) -> None:
    """The two cannot do anything with each other, though the head reaches both: what ran there runs elsewhere, until
    they can again.
    """
    with Network(3) as network, busy(network, RETURNING) as (driver, joined):
        here, there, mine = network.machines
        network.mislead(one, other)
        begun = time.monotonic()
        for words, limit_s in (("cannot be reached: the connection has broken", 10.0), ("is cut off: ", NOTICED_S)):
            for machine in (there, mine):
                wait_until(lambda: words in logs_of(machine), limit_s, words)
                print(f"{words!r} at {machine.address} after {time.monotonic() - begun:.1f} s")
            assert time.monotonic() - begun < limit_s
        network.lead(one, other)
        for machine in (there, mine):
            wait_until(lambda: "can be used again" in logs_of(machine), 30)
        print(stop(driver))
        assert joined["session"] in here.alive()


@pytest.mark.slow
def test_a_head_that_is_heard_and_does_not_hear_declares_the_node_dead() -> None:
    with Network(3) as network, busy(network, REPEATING) as (driver, joined):
        here, _there, _ = network.machines
        network.mislead(2, 1)
        begun = time.monotonic()
        wait_until(lambda: joined["session"] not in here.alive(), 40)
        print(f"declared dead after {time.monotonic() - begun:.1f} s")
        assert time.monotonic() - begun < NOTICED_S
        print(stop(driver))
        network.pull(2)  # what it would say to the others, and what they would


# While an agent is stopped, 72 MB of calls are begun of an actor that lives there.
FLOOD = """
from cellmesh.util import NodeAffinitySchedulingStrategy as On

@cm.remote(num_cpus=0.1)
class Sink:
    def take(self, x):
        return len(x)

sink = Sink.options(scheduling_strategy=On(os.environ["THERE"], soft=False)).remote()
cm.get(sink.take.remote([]))
print("busy", flush=True)
sys.stdin.readline()
flood = [sink.take.remote(bytes(48_000)) for _ in range(1500)]
"""


@pytest.mark.slow
def test_who_is_stopped_costs_the_others_no_more_than_its_budget_and_loses_nothing() -> None:
    body = (
        BUSY.replace('print("busy", flush=True)', FLOOD)
        .replace("x.sum())", "x.sum())  # elsewhere")
        .replace("weigh.remote(", "weigh.options(scheduling_strategy=On(os.environ['HERE'], soft=False)).remote(")
        .replace("Counter.remote()", "Counter.options(scheduling_strategy=On(os.environ['HERE'], soft=False)).remote()")
        .replace(
            "wait_for_nodes(2)", "from cellmesh.util import NodeAffinitySchedulingStrategy as On\nwait_for_nodes(2)"
        )
        .replace("print(n * 41", "assert cm.get(flood, timeout=60) == [48_000] * 1500\nprint(n * 41")
    )
    with Network(3) as network, busy(network, body) as (driver, joined):
        here, there, mine = network.machines
        agent, stopped, peak = agent_of(mine), agent_of(there), 0
        before = own_bytes(agent)
        for n in range(N_STOPS):
            os.kill(stopped, signal.SIGSTOP)
            if not n:
                tell(driver, "go")
            end, n_turns = time.monotonic() + STOPPED_S, 0
            while time.monotonic() < end:
                n_turns += says(driver) != ""
                peak = max(peak, own_bytes(agent) - before)
            assert n_turns > 3, "the others work on"
            os.kill(stopped, signal.SIGCONT)
            says(driver)
        print(stop(driver), f"and {N_STOPS} stops; the agent had at most {peak >> 20} MiB more")
        assert 16 * MB < peak < 64 * MB, "what waits for it, and what is made of that on its way"
        assert joined["session"] in here.alive()


@pytest.mark.skipif(not N_PARTITIONS, reason="takes half a minute each: CELLMESH_LONG_PARTITIONS=1")
def test_a_partition_longer_than_the_dead_time_leaves_no_actor_twice() -> None:
    body = """
import select, uuid

@cm.remote(num_cpus=0.2, max_restarts=-1)
class Lives:
    def __init__(self):
        self.life, self.n = uuid.uuid4().hex, 0

    def tell(self):
        self.n += 1
        return self.life, self.n

wait_for_nodes(2)
from cellmesh.util import NodeAffinitySchedulingStrategy as On
actors = [Lives.options(scheduling_strategy=On(os.environ["THERE"], soft=True)).remote() for _ in range(6)]
seen, last = [[life] for life, _ in cm.get([actor.tell.remote() for actor in actors])], {}
print("busy", flush=True)
while not select.select([sys.stdin], [], [], 0.01)[0]:
    for lives, actor in zip(seen, actors):
        try:
            life, n = cm.get(actor.tell.remote(), timeout=60)
        except (cm.exceptions.ActorDiedError, cm.exceptions.ActorUnavailableError):
            continue
        if life not in lives:
            lives.append(life)
        assert life == lives[-1], "an earlier life has answered"
        assert n > last.get(life, 0), "a call has been answered twice"
        last[life] = n
assert max(map(len, seen)) == 2, seen
print(sum(map(len, seen)), "lives of 6 actors,", sum(last.values()), "calls")
"""
    for _ in range(N_PARTITIONS):
        with Network(3) as network, busy(network, body) as (driver, joined):
            here, there, _ = network.machines
            network.pull(2)
            wait_until(lambda: joined["session"] not in here.alive(), 40, "it has been declared dead")
            pass_time(3.0, driver)
            network.plug(2)
            wait_until(
                lambda: not list(Path(there.folder).glob("cellmesh*/session-*")), 40, "the fenced node has ended"
            )
            print(stop(driver))
