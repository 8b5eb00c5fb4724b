"""A node is lost in the middle of a long chain and of a shuffle: every result is exact, and little is executed again
that was not lost.

CELLMESH_RECONSTRUCTIONS=10 does each so often, with real networks and a chain and a shuffle of full size, instead of
once with small ones.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.drivers import ends_well, program, says
from support.real_machines import Machine, Network, cannot_make_networks, kill_sessions, machines

N_TIMES = int(os.environ.get("CELLMESH_RECONSTRUCTIONS", "0"))
CHAIN, PARTS = (100, (25, 40)) if N_TIMES else (20, (6, 6))
MOST_AGAIN = 1.1
LATEST_S = 30.0

# Each execution is a line in a file: of which task, and on which machine. All results are larger than what travels with
# the news of them, and kept.
DRIVER = """
path, chain, n_maps, n_parts = (
    os.environ["NOTES"],
    int(os.environ["CHAIN"]),
    int(os.environ["MAPS"]),
    int(os.environ["PARTS"]),
)

def note(task):
    with open(path, "a") as file:
        file.write(f"{task} {os.environ['XDG_RUNTIME_DIR']}\\n")

@cm.remote(max_retries=5)
def link(i, x):
    time.sleep(0.01)
    note(f"link-{i}")
    return x + 1

@cm.remote(max_retries=5)
def split(i):
    note(f"split-{i}")
    time.sleep(0.02)
    return tuple(np.full(10_000, float(1000 * i + j)) for j in range(n_parts))

@cm.remote(max_retries=5)
def merge(j, *parts):
    time.sleep(0.01)
    note(f"merge-{j}")
    return sum(parts)

wait_for_nodes(2)
kept = [link.remote(0, np.zeros(10_000))]
for i in range(1, chain):
    kept.append(link.remote(i, kept[-1]))
parts = [split.options(num_returns=n_parts).remote(i) for i in range(n_maps)]
merged = [merge.remote(j, *(row[j] for row in parts)) for j in range(n_parts)]
cm.wait(merged[:n_parts // 2], num_returns=n_parts // 2, timeout=60)
cm.wait([kept[chain // 2]], timeout=60)
print("half", flush=True)
assert [float(x[0]) for x in cm.get(merged, timeout=120)] == [
    float(sum(1000 * i + j for i in range(n_maps))) for j in range(n_parts)
]
assert float(cm.get(kept[-1], timeout=120)[0]) == chain
assert [float(x[0]) for x in cm.get(kept, timeout=120)] == [float(i + 1) for i in range(chain)]
assert [[float(x[0]) for x in cm.get(row, timeout=120)] for row in parts] == [
    [float(1000 * i + j) for j in range(n_parts)] for i in range(n_maps)
]
print("exact")
"""


@contextmanager
def three() -> Iterator[tuple[Machine, Machine, Machine]]:
    if N_TIMES and not cannot_make_networks():
        with Network(3) as network:
            yield network.machines[0], network.machines[1], network.machines[2]
    else:
        with machines(Machine(), Machine(), Machine()) as which:
            yield which[0], which[1], which[2]


@pytest.mark.timeout(180 * max(1, N_TIMES))
def test_what_a_lost_node_had_is_made_again_and_hardly_more(tmp_path: Path) -> None:
    for n in range(max(1, N_TIMES)):
        notes = tmp_path / str(n)
        notes.touch()
        with three() as (here, there, mine):
            memory = ("--num-cpus", "2", "--object-store-memory", str(256 << 20))
            head = here.head(*memory)
            there.join(head, here.run("token"), *memory)
            driver = program(
                mine,
                head,
                here.run("token"),
                DRIVER,
                CPUS="0",
                NOTES=str(notes),
                CHAIN=str(CHAIN),
                MAPS=str(PARTS[0]),
                PARTS=str(PARTS[1]),
            )
            assert says(driver) == "half", driver.communicate()
            kill_sessions(there)
            done = [
                line.split() for line in notes.read_text().rpartition("\n")[0].splitlines()
            ]  # of a line that is being written a part is seen
            lost = {task for task, where in done if where == there.folder}
            killed = time.monotonic()
            assert "exact" in ends_well(driver)
            assert time.monotonic() - killed < LATEST_S, (
                "the loss is known after ten, and there is little to be made again"
            )
        executed = Counter(line.split()[0] for line in notes.read_text().splitlines())
        n_again = executed.total() - len(executed)
        print(f"{len(executed)} tasks, {len(lost)} of them lost, {n_again} executed again")
        assert len(executed) == CHAIN + sum(PARTS) and lost
        assert n_again <= MOST_AGAIN * len(lost) + 2, "and those that ran there"
