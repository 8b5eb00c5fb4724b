"""At how many cores the segment's one lock becomes the limit, and what splitting it would bring.

    python contention.py [--windows 3]

Two cores can be measured: what a cache line costs that another core has written, and how long submitting a task and
ending one keep the lock. More are reckoned from that: clients that run tasks of a given length and queue for the lock
are a closed queueing network with one server, solved by mean value analysis (Reiser and Lavenberg, 1980). Lock waiters
are assumed to cost the owner nothing, so beyond the knee reality is worse; the knee is where it should be looked at.

Needs a C compiler and two CPUs with nothing else to do."""

import argparse
import glob
import os
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CORE = os.path.join(HERE, "..", "objstore", "core")
LENGTHS_US = (0, 1, 10, 100, 1000)  # of tasks
CORES = (2, 4, 8, 16, 32, 64, 128)
OWN_NS = 250  # of a worker for each task besides: decode, call, encode
VISIT = 4  # tasks taken, and ended, while the lock is held once


def mva(n: int, think: float, service: float) -> float:
    """Throughput of `n` clients that think, then queue for one server; in the inverse of the unit of the two times.

    Parameters
    ----------
    n : int, > 0
        Clients.
    think, service : float, >= 0
        Mean times outside and inside the server, not both 0.
    """
    queue = rate = 0.0
    for k in range(1, n + 1):
        response = service * (1 + queue)
        rate = k / (think + response)
        queue = rate * response
    return rate


def measure(windows: int) -> dict[str, float]:
    """The figures of contention.c, nanoseconds, the least of some runs: other load only adds."""
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "contention")
        core = [
            path
            for folder in (".", "*")
            for path in glob.glob(os.path.join(CORE, folder, "*.c"))
            if os.sep + "tests" + os.sep not in path
        ]
        subprocess.run(
            ["cc", "-std=c11", "-O2", "-pthread", "-I", CORE, "-o", program, os.path.join(HERE, "contention.c"), *core],
            check=True,
        )
        runs = [
            dict(
                line.split()
                for line in subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()
            )
            for _ in range(windows)
        ]
    return {name: min(float(run[name]) for run in runs) for name in runs[0]}


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--windows", type=int, default=3, help="how often to measure")
    f = measure(p.parse_args().windows)
    for name, ns in f.items():
        print(f"{name:<20} {ns:10.1f} ns")
    handover, line = f["lines_0"], (f["lines_16"] - f["lines_0"]) / 16
    local = f["submit"] + f["finish_and_take"] + f["drop"]
    both = f["both_at_once"]
    print(
        f"\nhanding over the lock: {handover:.0f} ns; each further line that the other has written: {line:.0f} ns\n"
        f"the lock for a task: {local:.0f} ns with all lines at hand, {both:.0f} ns between two cores; two hand-overs "
        f"would be {local + 2 * handover:.0f}\n"
    )
    stock = f["object_slot"] + f["chunk"]  # of one's own, they leave the lock
    visits = 2 * handover * (1 - 1 / VISIT)
    variants = {
        "one lock": both,
        "own stocks of slots and memory": both - stock,
        f"{VISIT} tasks a visit": both - visits,
        "both": both - stock - visits,
    }
    print(
        f"tasks/s by cores; * where the lock is busy for more than two thirds of the time\n{'':<32}{'task':>8}"
        + "".join(f"{n:>10}" for n in CORES)
    )
    for name, service in variants.items():
        for us in LENGTHS_US:
            rates = [mva(n, us * 1000 + OWN_NS, service) * 1e9 for n in CORES]
            print(
                f"{name:<32}{us:>5} us"
                + "".join(f"{r:>9,.0f}{'*' if r * service / 1e9 > 2 / 3 else ' '}" for r in rates)
            )


if __name__ == "__main__":
    main()
