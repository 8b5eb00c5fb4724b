"""A cluster that works for long grows nowhere: memory, descriptors and tables of every process, by the slope that most
pairs of samples agree on.

CELLMESH_SOAK_S=600 works so long, in seconds, instead of a few; slopes are judged from a minute on, as before that
everything warms up.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from itertools import combinations

import pytest
from cellmesh.scheduler.system import processes
from support.drivers import program, says
from support.real_machines import Machine, machines, own_bytes, processes_of
from support.waiting import wait_until, wait_until_at_rest

SECONDS = float(os.environ.get("CELLMESH_SOAK_S", "4"))
JUDGED_S = 60.0
MOST_BYTES = 1 << 20  # in 100,000 tasks
WARM_UP = 0.3  # of the time
N_SAMPLES = 120

DRIVER = """
import json, random, select
from cellmesh.session.current import current
dice = random.Random(1)

@cm.remote(max_retries=5)
def add(a, b):
    return a + b

@cm.remote(max_retries=5)
def inner(x):
    return [add.remote(float(x.sum()), 1)]

@cm.remote(num_returns="streaming", max_retries=5)
def count(n):
    yield from range(n)

@cm.remote(max_retries=5)
def end():
    os._exit(3)

@cm.remote(num_cpus=0.1, max_restarts=-1, max_task_retries=-1)
class Keeper:
    def keep(self, x):
        self.x = x
        return len(x)

wait_for_nodes(2)
keepers, n = [Keeper.remote() for _ in range(2)], 0
print(os.getpid(), flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    assert cm.get([add.remote(i, 1) for i in range(500)]) == list(range(1, 501))
    large = cm.put(np.ones(dice.choice([100, 10_000, 200_000])))
    assert cm.get(cm.get(inner.remote(large))[0]) == len(cm.get(large)) + 1.0
    assert cm.get([keeper.keep.remote(bytes(dice.randrange(1000))) for keeper in keepers for _ in range(10)])
    assert [cm.get(ref) for ref in count.remote(10)] == list(range(10))
    cancelled = add.remote(part.remote(1), 1)
    cm.cancel(cancelled)
    if dice.random() < 0.02:
        try:
            cm.get(end.options(max_retries=0).remote())
        except cm.exceptions.WorkerCrashedError:
            pass
        keepers[dice.randrange(2)] = Keeper.remote()
    n += 533
    del large, cancelled
    stats = current().client.stats()
    print(json.dumps([n, stats["n_objects"], stats["n_tasks"], stats["used_bytes"]]), flush=True)
"""


def slope(points: list[tuple[float, float]]) -> float:
    """Theil and Sen's: the median of the slopes between all pairs."""
    return statistics.median((y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2) if x2 > x1)


@pytest.mark.timeout(300 + 2 * SECONDS)
def test_nothing_grows() -> None:
    with machines(Machine(), Machine(), Machine()) as (here, there, mine):
        memory = ("--num-cpus", "1", "--object-store-memory", str(256 << 20))
        head = here.head(*memory)
        there.join(head, here.run("token"), *memory)
        driver = program(mine, head, here.run("token"), DRIVER, CPUS="0")
        assert driver.stdin is not None
        watched = {"driver": int(says(driver))}
        for name, machine in (("home", mine), ("here", here), ("there", there)):
            found = wait_until(lambda: {processes.name_of(pid): pid for pid in processes_of(machine)})
            watched |= {
                f"{what} at {name}": pid
                for what, pid in found.items()
                if what in ("cellmesh-agent", "cellmesh-sched", "cellmesh-head")
            }
        samples: dict[str, list[tuple[float, float]]] = {}
        begun, next_at, n_lines = time.monotonic(), 0.0, 0
        while (spent := time.monotonic() - begun) < SECONDS:
            line = says(driver)
            assert line, driver.communicate()
            n, n_objects, n_tasks, used_bytes = json.loads(line)
            n_lines += 1
            if spent < next_at:
                continue
            next_at = spent + SECONDS / N_SAMPLES
            for name, pid in watched.items():
                samples.setdefault(f"bytes of {name}", []).append((n, own_bytes(pid)))
                samples.setdefault(f"descriptors of {name}", []).append((n, len(os.listdir(f"/proc/{pid}/fd"))))
            for what, value in (("objects", n_objects), ("tasks", n_tasks), ("used bytes", used_bytes)):
                samples.setdefault(f"{what} at home", []).append((n, value))
        driver.stdin.write("stop\n")
        driver.stdin.flush()
        _, err = driver.communicate(timeout=60)
        assert driver.returncode == 0, err
        wait_until_at_rest(lambda: {*processes_of(here), *processes_of(there)}, 60)
        assert n_lines > 3 and len(watched) >= 6, watched
        slopes = {
            name: slope([point for point in points if point[0] >= WARM_UP * n]) * 100_000
            for name, points in samples.items()
        }
        for name, per_100_000 in slopes.items():
            print(f"{name}: {per_100_000:,.1f} in 100,000 of {n:,} tasks; {samples[name][-1][1]:,.0f} in the end")
        if SECONDS >= JUDGED_S:
            grown = {name: rise for name, rise in slopes.items() if rise > (MOST_BYTES if "bytes" in name else 2.0)}
            assert not grown, grown
