"""The head is killed again and again while everything is under way: nothing that was accepted is lost, nothing fails,
nothing is done twice.

CELLMESH_HEAD_KILLS=100 does it so often, instead of a few times, at instants from a seed, CELLMESH_SEED: the process
that serves, whose next life begins by itself, and its supervisor too, so that the head has to be started again.
"""

from __future__ import annotations

import os
import random
import signal
import statistics
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from cellmesh.scheduler.cluster.net.keys import Cluster
from cellmesh.scheduler.system import processes
from support.drivers import ends_well, pass_time, program, says, tell
from support.real_machines import Machine, logs_of, machines
from support.waiting import wait_until

N_KILLS = int(os.environ.get("CELLMESH_HEAD_KILLS", "3"))
SEED = int(os.environ.get("CELLMESH_SEED", "1"))
BETWEEN_S = 1.5  # from a start to the next kill, at most; the first of a life may come before it serves
KILLS_OF_A_SUPERVISOR = 3  # the last of which is its own: it waits longer each time that who serves dies

# Five threads, none of which waits for another. What tasks and calls do, and what has been acknowledged, is written
# down when it is done.
DRIVER = """
import select, threading, traceback
from cellmesh.util import NodeAffinitySchedulingStrategy as On, kv

journal, over, faults = os.environ["JOURNAL"], threading.Event(), []

def note(*words):
    with open(journal, "ab", 0) as file:  # one write each
        file.write((" ".join(map(str, words)) + "\\n").encode())

@cm.remote(max_retries=0)
def step(what, i):
    note(what, i)
    time.sleep(0.003)
    return i

@cm.remote(num_cpus=0.1)
class Counter:
    def __init__(self):
        self.n = 0

    def add(self, i):
        note("call", i)
        self.n += 1
        return self.n

@cm.remote(num_cpus=0.1, max_retries=0)
def ask(i):
    return cm.get(cm.get_actor("named", namespace="n").add.remote(f"by-name-{i}"))

there = On(os.environ["THERE"], soft=False)
counter = Counter.options(scheduling_strategy=there).remote()
named = Counter.options(name="named", namespace="n").remote()

def tasks(n):
    some = range(40 * n, 40 * n + 40)
    assert cm.get([step.remote("task", i) for i in some], timeout=60) == list(some)
    return 40

def calls(n):
    assert cm.get([counter.add.remote(10 * n + i) for i in range(10)], timeout=60) == list(
        range(10 * n + 1, 10 * n + 11)
    )
    return 10

def names(n):
    assert cm.get(ask.options(scheduling_strategy=there).remote(n), timeout=60) == 2 * n + 1
    assert cm.get(cm.get_actor("named", namespace="n").add.remote(f"here-{n}"), timeout=60) == 2 * n + 2
    return 2

def places(
    n,
):  # there is no other place for them, and what is not used for a while is given back: each time the head is asked
    some = range(3 * n, 3 * n + 3)
    assert cm.get(
        [step.options(num_cpus=0.1, resources={"license": 1}).remote("licensed", i) for i in some], timeout=60
    ) == list(some)
    note("placed", time.monotonic())
    time.sleep(0.15)
    return 3

def entries(n):
    assert kv.put(f"k{n}", str(n)) and kv.compare_and_set("n", str(n - 1) if n else None, str(n)), "nobody else writes"
    note("stored", time.monotonic())
    time.sleep(0.01)
    return 2

counts = dict.fromkeys((tasks, calls, names, places, entries), 0)

def work(what):
    try:
        n = 0
        while not over.is_set():
            counts[what] += what(n)
            n += 1
        return n
    except BaseException:
        faults.append(f"{what.__name__}: {traceback.format_exc()}")
        over.set()

wait_for_nodes(2)
threads = [threading.Thread(target=work, args=(what,)) for what in counts]
for thread in threads:
    thread.start()
print("busy", flush=True)
while not over.is_set() and not select.select([sys.stdin], [], [], 0.1)[0]:
    pass
over.set()
for thread in threads:
    thread.join()
assert not faults, "\\n".join(faults)
n = counts[entries] // 2
assert (
    sorted(kv.keys("k")) == sorted(f"k{i}" for i in range(n))
    and all(kv.get(f"k{i}") == str(i) for i in range(n))
    and kv.get("n") == str(n - 1)
)
print(*counts.values(), flush=True)
"""


class Lives:
    """The lives of the head of that machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.cluster = Cluster(str(machine.cluster_folder()))
        self.begun: list[float] = []
        self.pid = 0
        self.meet()

    def meet(self) -> None:
        """The next one, as soon as its process is there."""

        def found() -> list[int]:
            supervisor = self.cluster.head_pid()
            return [pid for pid in processes.children(supervisor) if pid != self.pid] if supervisor is not None else []

        self.pid = wait_until(found, 20, "the head's next life")[0]
        started = int(Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[19])
        self.begun.append(started / os.sysconf("SC_CLK_TCK"))

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.meet()

    def kill_with_supervisor(self) -> None:
        supervisor = self.cluster.head_pid()
        assert supervisor is not None
        os.kill(supervisor, signal.SIGKILL)
        wait_until(lambda: self.cluster.head_pid() is None, what="both have ended")
        self.machine.run("start", "--head", "--port", self.cluster.address.rpartition(":")[2])
        self.meet()


def stalls(begun: list[float], done: list[float]) -> list[float]:
    """From the begin of each life but the first to what is done first in it; of lives in which nothing was done there
    is none.
    """
    return [
        first - life
        for life, end in pairwise([*begun[1:], float("inf")])
        if (first := min((t for t in done if life <= t < end), default=0.0))
    ]


@pytest.mark.timeout(120 + 10 * N_KILLS)
def test_the_head_is_killed_under_load_and_nothing_is_lost_or_done_twice(tmp_path: Path) -> None:
    dice, journal = random.Random(SEED), tmp_path / "journal"
    with machines(Machine(), Machine(), Machine()) as (here, there, mine):
        head = here.head("--num-cpus", "1")
        joined = there.join(head, here.run("token"), "--num-cpus", "2", "--resources", "license=1")
        driver = program(mine, head, here.run("token"), DRIVER, CPUS="1", THERE=joined["session"], JOURNAL=str(journal))
        assert says(driver) == "busy", driver.communicate()
        lives = Lives(here)
        for n in range(N_KILLS):
            pass_time(dice.uniform(0, BETWEEN_S), driver)
            if (n + 1) % KILLS_OF_A_SUPERVISOR:
                lives.kill()
            else:
                lives.kill_with_supervisor()
        last = lives.begun[-1]
        wait_until(
            lambda: (
                driver.poll() is not None
                or all(max(times_of(journal, what), default=0.0) > last for what in ("placed", "stored"))
            ),
            30,
        )
        if driver.poll() is None:
            tell(driver, "stop")
        out = ends_well(driver).split()
        counts = dict(zip(("task", "call", "name", "licensed", "stored"), map(int, out), strict=True))
        assert {head["session"], joined["session"]} <= set(here.alive()), "nobody was declared dead"
        assert "is no member any more: silent" not in logs_of(here)
    done = Counter(
        tuple(line.split()) for line in journal.read_text().splitlines() if not line.startswith(("placed", "stored"))
    )
    assert set(done.values()) == {1}, [line for line, n in done.items() if n > 1]
    kinds = Counter("name" if "-" in words[1] else words[0] for words in done)
    assert kinds == {kind: n for kind, n in counts.items() if kind != "stored"}, (kinds, counts)
    print(f"{N_KILLS} kills, seed {SEED}: {counts}")
    for what in ("placed", "stored"):
        found = stalls(lives.begun, times_of(journal, what))
        print(
            f"{what}: after the begin of a life's process {statistics.median(found):.2f} s, at most {max(found):.2f} "
            f"s; in {len(found)} lives"
        )


def times_of(journal: Path, what: str) -> list[float]:
    return [float(line.split()[1]) for line in journal.read_text().splitlines() if line.startswith(f"{what} ")]
