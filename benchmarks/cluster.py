"""Three machines: what a task costs that runs elsewhere, a flood of them, large values beside one TCP stream, and what
is left when a machine is lost.

    python benchmarks/cluster.py            a table; `make bench-cluster`
    python benchmarks/cluster.py --json     the same for programs

As root each machine has a network namespace of its own, with a bridge between them; else all are on loopback, and the
table says so. The driver's machine has no CPU, so everything runs on the two others.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
if TYPE_CHECKING:
    from support.real_machines import Machine

STORE = ("--num-cpus", "1", "--object-store-memory", str(1 << 30))
N_REPEATS = 3
N_FLOOD = 20_000
SIZE = 256 << 20

DRIVER = """
import json, os, statistics, time, warnings
warnings.simplefilter("ignore")
import numpy as np
import cellmesh as cm

cm.init(address="tcp://" + os.environ["HEAD"], num_cpus=0, object_store_memory=2 << 30)

@cm.remote
def nothing():
    pass

@cm.remote
def make(n):
    return np.ones(n, dtype=np.uint8)

@cm.remote
def where():
    time.sleep(0.02)
    return cm.get_runtime_context().get_node_id()

while len(set(cm.get([where.remote() for _ in range(8)]))) < 2:
    pass
found = {"latency_us": [], "flood_per_s": [], "value_gb_per_s": []}
for _ in range(REPEATS):
    times = []
    for _ in range(300):
        begin = time.perf_counter()
        cm.get(nothing.remote())
        times.append(time.perf_counter() - begin)
    found["latency_us"].append(statistics.median(times) * 1e6)
    begin = time.perf_counter()
    cm.get([nothing.remote() for _ in range(FLOOD)])
    found["flood_per_s"].append(FLOOD / (time.perf_counter() - begin))
    ref = make.remote(SIZE)
    cm.wait([ref])
    begin = time.perf_counter()
    values = cm.get(ref)
    found["value_gb_per_s"].append(SIZE / (time.perf_counter() - begin) / 1e9)
    assert len(values) == SIZE and values[-1] == 1
    del values, ref
print(json.dumps(found), flush=True)
"""

# Eight tasks at a time on two machines, of which one is killed, with values that have to be made again. Times are of
# the clock that all processes share.
LOSS = """
import sys, threading
from cellmesh.util import NodeAffinitySchedulingStrategy as On

@cm.remote(num_cpus=0.25, max_retries=5)
def work():
    time.sleep(0.02)

there = On(os.environ["THERE"], soft=True)
made = [make.options(scheduling_strategy=there, num_cpus=0.25, max_retries=5).remote(1 << 20) for _ in range(20)]
cm.wait(made, num_returns=len(made))
again = []

def read():
    for ref in made:  # some may have been made on the other machine
        cm.get(ref)
        again.append(time.monotonic())

reader = threading.Thread(target=read, daemon=True)
ended, running, until = [], [work.remote() for _ in range(64)], float("inf")

def listen():
    global until
    sys.stdin.readline()
    reader.start()
    sys.stdin.readline()
    until = time.monotonic() + 9

print("steady", flush=True)
threading.Thread(target=listen, daemon=True).start()
while time.monotonic() < until:
    done, running = cm.wait(running, num_returns=1, timeout=0.05)
    ended += [time.monotonic()] * len(done)
    running += [work.remote() for _ in done]
reader.join()
print(json.dumps({"again": again, "ended": ended}))
"""

# One stream, as large values would go without encryption; the receiver times it.
RECEIVE = """
import socket, sys, time
listener = socket.create_server((sys.argv[1], 0))
print(listener.getsockname()[1], flush=True)
for _ in range(int(sys.argv[3])):
    stream, left, room = listener.accept()[0], int(sys.argv[2]), memoryview(bytearray(4 << 20))
    begin = time.perf_counter()
    while left > 0:
        left -= stream.recv_into(room)
    print(int(sys.argv[2]) / (time.perf_counter() - begin) / 1e9, flush=True)
"""
SEND = """
import socket, sys
for _ in range(int(sys.argv[4])):
    with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as stream:
        for _ in range(int(sys.argv[3]) // (4 << 20)):
            stream.sendall(bytes(4 << 20))
"""


@contextlib.contextmanager
def three_machines() -> Iterator[tuple[tuple[Machine, Machine, Machine], str]]:
    """They, and how they are connected."""
    from support.real_machines import Machine, Network, cannot_make_networks, machines

    why = cannot_make_networks()
    if why:
        with machines(Machine(), Machine(), Machine()) as them:
            yield them, f"on loopback: {why}"
    else:
        with Network(3) as network:
            first, second, third = network.machines
            yield (first, second, third), "network namespaces and a bridge"


def tcp(sender: Machine, receiver: Machine) -> list[float]:
    """GB/s of one stream between two of them."""
    with receiver.python("-c", RECEIVE, receiver.address, str(SIZE), str(N_REPEATS)) as listening:
        assert listening.stdout is not None
        port = listening.stdout.readline().strip()
        subprocess.run(
            sender.command(sys.executable, "-c", SEND, receiver.address, port, str(SIZE), str(N_REPEATS)), check=True
        )
        return [float(line) for line in listening.stdout]


def lose(machine: Machine, mine: Machine, driver: subprocess.Popen[str]) -> dict[str, list[float]]:
    """Kill a machine under load: seconds from when that is known to the first value that has been made again, and the
    rate of tasks after that as a share of what one machine of two can do."""
    from support.real_machines import kill_sessions, logs_of
    from support.waiting import wait_until

    assert driver.stdin is not None and driver.stdout is not None
    assert driver.stdout.readline() == "steady\n", driver.communicate()
    begun = time.monotonic()
    wait_until(lambda: time.monotonic() > begun + 4, 10)
    killed = time.monotonic()
    kill_sessions(machine)
    print("it has been killed", file=driver.stdin, flush=True)
    wait_until(lambda: re.search("is cut off|is lost", logs_of(mine)), 60)
    known = time.monotonic()
    print("it is known", file=driver.stdin, flush=True)
    found = json.loads(driver.communicate()[0])

    def rate(since: float, until: float) -> float:
        return sum(since <= at < until for at in found["ended"]) / (until - since)

    before = rate(begun + 1, killed)
    return {
        "loss_known_s": [known - killed],
        "first_again_s": [min(at for at in found["again"] if at > known) - known],
        "share_left": [rate(known + 2, known + 8) / (before / 2)],
    }


def measure() -> dict[str, Any]:
    """Every repeat of every figure."""
    with three_machines() as ((here, there, mine), how):
        head = here.head(*STORE)
        joined = there.join(head, here.run("token"), *STORE)
        token = Path(mine.folder, "token")
        token.write_text(here.run("token"))
        token.chmod(0o600)
        body = (
            f"REPEATS, FLOOD, SIZE = {N_REPEATS}, {N_FLOOD}, {SIZE}\n{textwrap.dedent(DRIVER)}{textwrap.dedent(LOSS)}"
        )
        driver = mine.python("-c", body, HEAD=head["address"], CELLMESH_TOKEN_FILE=str(token), THERE=joined["session"])
        assert driver.stdout is not None
        out = driver.stdout.readline()
        if not out:
            sys.exit(f"the driver has failed:\n{driver.communicate()[1]}")
        return {
            "network": how,
            "load": os.getloadavg()[0],
            **json.loads(out),
            **lose(there, mine, driver),
            "tcp_gb_per_s": tcp(here, mine),
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cm-bench-", dir="/tmp") as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        with contextlib.redirect_stdout(sys.stderr):  # what is in the machines' logs
            found = measure()
    if options.json:
        print(json.dumps(found))
        return 0
    medians = {name: statistics.median(values) for name, values in found.items() if isinstance(values, list)}
    print(f"three machines, {found['network']}; load of this machine {found['load']:.1f}; medians of {N_REPEATS}")
    print(f"a no-op task elsewhere, there and back   {medians['latency_us'] / 1000:.2f} ms     goal 1 ms")
    print(f"{N_FLOOD:,} no-op tasks on two machines    {medians['flood_per_s']:,.0f}/s  goal 20,000/s")
    print(
        f"a value of {SIZE >> 20} MB                        {medians['value_gb_per_s']:.2f} GB/s, "
        f"{medians['value_gb_per_s'] / medians['tcp_gb_per_s']:.2f} of one TCP stream's {medians['tcp_gb_per_s']:.2f}  "
        "goal 0.8"
    )
    print(f"a machine is killed: known after         {medians['loss_known_s']:.1f} s")
    print(f"the first value made again after that    {medians['first_again_s']:.2f} s     goal 1 s")
    print(f"tasks a second of the machine left       {medians['share_left']:.2f} of its half before  goal 0.9")
    return 0


if __name__ == "__main__":
    sys.exit(main())
