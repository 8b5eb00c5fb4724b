"""`make bench-engines`: sessions on a Ray and on a Dask cluster of this machine, beside the bare engine in one run.

    python benchmarks/engines.py                               all rows on both engines
    python benchmarks/engines.py --engines ray --only 'task_*'

Workloads of workloads.py, in processes that alternate between the two, on one cluster of two nodes that stays; and how
long work goes on there once the program that submitted it was killed. Writes benchmarks/results/<date>-engines.json
and .md: costs by operation, and how many times the bare engine's they are.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import fnmatch
import importlib
import json
import os
import signal
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import compare
from bench import RAY_PYTHON, ROOT, commit, machine
from report import number
from runner import ADAPTERS, ENV, INIT

CLUSTERS = ROOT / "tests/engines"
OURS = "cellmesh"
KILLED = "kernel_killed"
N_TASKS, TASK_S, BEAT_S = 40, 0.5, 0.02  # of which the program that was killed has that many under way
QUIET_S = 2.0  # without a beat: nothing runs any more


@dataclass(frozen=True)
class Peer:
    """An engine: what it is called in workloads.py, its Python, the program that makes a cluster, what that is given,
    how addresses begin, its own and cellmesh's."""

    api: str
    python: Path
    program: str
    cluster: dict
    bare: str
    ours: str


PEERS = {
    "ray": Peer(
        "ray",
        RAY_PYTHON,
        "ray_cluster.py",
        {"num_cpus": 1, "object_store_memory": 1 << 30},
        "",
        "ray:",
    ),
    "dask": Peer(
        "dask_api", ROOT / ".venv-dask/bin/python", "dask_cluster.py", {"memory_limit": 0}, "tcp://", "dask://"
    ),
}
# A row: what it is called, and how many times the bare engine's cost is the goal.
ROWS = {
    "tasks_sync": ("round trip", 1.1),
    "tasks_async": ("1,000 no-ops in flight, packed, each", 1.1),
    "chain_100": ("a hop of a chain", 1.2),
    "nested_100": ("a task that submits 100 and awaits them, each", 1 / 150),
    "fanout_3k": ("a flood of 3,000 no-ops, packed, each", 1 / 15),
    "task_arg_100mb_ref": ("100 MB by ref", 1.2),
    "task_result_100mb": ("100 MB made there, read here", 1.3),
    "init_cold": ("import, `init`, first task", None),
    KILLED: ("the program killed: its work is off the engine", None),
}


def set_environment() -> None:
    """Of clusters and drivers: cellmesh, and what it needs, beside an engine's own packages."""
    paths = [os.environ.get("PYTHONPATH", ""), ADAPTERS, sysconfig.get_path("platlib")]
    os.environ.update(ENV["ray"], PYTHONPATH=os.pathsep.join(filter(None, paths)))


@contextlib.contextmanager
def cluster(peer: Peer) -> Iterator[str]:
    """HOST:PORT of one that runs."""
    command = [str(peer.python), str(CLUSTERS / peer.program), json.dumps(peer.cluster)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()


def arguments(peer: Peer, address: str) -> dict[str, dict]:
    """What `init` is given, by API."""
    bare = {**INIT.get(peer.api, {}), "num_cpus": None, "address": peer.bare + address}
    bare.pop("include_dashboard", None)  # of a cluster that `init` would begin
    return {peer.api: bare, OURS: {"num_cpus": 0, "address": peer.ours + address}}


# ---------------------------------------------------------------- the program is killed
def victim(api_name: str, init: dict, beats: Path) -> None:
    """Submits tasks that tell that they run, and waits for them."""
    sys.path.insert(0, ADAPTERS)
    api = importlib.import_module(api_name)
    api.init(**init)

    def beat(path: str, n: int) -> None:
        import time
        from pathlib import Path

        until = time.monotonic() + TASK_S
        while time.monotonic() < until:
            Path(path, str(n)).touch()
            time.sleep(BEAT_S)

    task = api.remote(beat)
    api.get([task.remote(str(beats), n) for n in range(N_TASKS)])


def last_beat(folder: Path) -> float:
    return max((path.stat().st_mtime for path in folder.iterdir()), default=0.0)


def goes_on(peer: Peer, api: str, init: dict) -> float:
    """Kill a program whose tasks run; seconds until its last task beats for the last time."""
    with tempfile.TemporaryDirectory() as folder:
        beats = Path(folder)
        command = [str(peer.python), __file__, "--victim", api, "--init", json.dumps(init), "--beats", folder]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            while not last_beat(beats):
                if process.poll() is not None:
                    raise RuntimeError(f"{api}: its program ended with {process.returncode}, and no task has begun")
                time.sleep(BEAT_S)
            time.sleep(1.0)  # some have ended, and others run
            killed = time.time()
            process.send_signal(signal.SIGKILL)
        while time.time() < max(last_beat(beats), killed) + QUIET_S:
            time.sleep(BEAT_S)
        return max(0.0, last_beat(beats) - killed)


def kills(peer: Peer, inits: dict[str, dict], rounds: int) -> dict[str, dict]:
    """By API, as compare.py has results."""
    samples: dict[str, list[float]] = {api: [] for api in inits}
    for n in range(rounds):
        for api in list(inits)[:: 1 if n % 2 == 0 else -1]:
            samples[api].append(goes_on(peer, api, inits[api]))
            print(f"-- {KILLED}, {api}: {samples[api][-1]:.2f} s", flush=True)
    return {
        api: {"name": KILLED, "unit": "s", "better": "lower", "samples": found, "rounds": found}
        for api, found in samples.items()
    }


# ---------------------------------------------------------------- the table
def costs(result: dict, which: str = "samples") -> list[float]:
    """Of an operation, in the unit of `unit`."""
    found = result.get(which, [])
    return [1e6 / x for x in found] if result.get("unit", "").endswith("/s") else list(found)


def unit(result: dict) -> str:
    return "µs" if result["unit"].endswith("/s") else result["unit"]


def cell(found: list[float]) -> str:
    return f"{number(statistics.median(found))} ({number(min(found))}..{number(max(found))})" if found else "failed"


def ratio(ours: dict, bare: dict) -> str:
    """How many times the bare engine's cost; in brackets the range of the rounds' own ratios."""
    mine, its = costs(ours), costs(bare)
    if not mine or not its or not statistics.median(its):
        return "-"
    each = sorted(x / y for x, y in zip(costs(ours, "rounds"), costs(bare, "rounds"), strict=False) if y)
    text = f"{statistics.median(mine) / statistics.median(its):.3g}x"
    return text + (f" ({each[0]:.3g}..{each[-1]:.3g})" if len(each) > 1 else "")


def table(peer: Peer, engine: str, runs: dict[str, dict]) -> list[str]:
    lines = [
        f"| | unit | bare {engine}: median (min..max) | through {engine} | times its cost | goal |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for name, (title, goal) in ROWS.items():
        bare, ours = (runs[api]["results"].get(name) for api in (peer.api, OURS))
        if bare and ours:
            aim = "" if goal is None else f"{goal:.3g}x"
            lines.append(
                f"| {title} | {unit(ours)} | {cell(costs(bare))} | {cell(costs(ours))} | {ratio(ours, bare)} | {aim} |"
            )
    return lines


def page(found: dict[str, dict], opt: argparse.Namespace, day: str) -> str:
    lines = [
        f"# Engines, {day}",
        "",
        f"- machine: {machine()}",
        f"- commit: {commit()}",
        f"- command: `make bench-engines`, {opt.rounds} alternating rounds; medians of all samples, lower is better",
        "- goals: of `init`, 0.5 s beyond the engine's own; of a program that was killed, 5 s",
    ]
    for engine, runs in found.items():
        versions = ", ".join(f"{api} {runs[api].get('version', '?')}" for api in runs)
        lines += ["", f"## {engine}", "", f"{versions}.", ""]
        lines += table(PEERS[engine], engine, runs)
    return "\n".join([*lines, ""])


def measure(engine: str, names: list[str], opt: argparse.Namespace, scratch: Path) -> dict[str, dict]:
    peer = PEERS[engine]
    with cluster(peer) as address:
        inits = arguments(peer, address)
        runs: dict[str, dict] = {api: {"results": {}} for api in inits}
        if any(name != KILLED for name in names):
            given = ["--apis", ",".join(inits), "--only", ",".join(names), "--rounds", str(opt.rounds)]
            given += ["--out", str(scratch), "--python", ",".join(f"{api}={peer.python}" for api in inits)]
            # The engine's own processes are no driver's, so they would count as others that make the machine noisy.
            given += ["--args", f"--time {opt.time} --foreign 9"]
            for api, init in inits.items():
                given += ["--init", f"{api}={json.dumps(init)}"]
            runs = compare.run(compare.parser().parse_args(given))
        if KILLED in names:
            for api, result in kills(peer, inits, opt.rounds).items():
                runs[api]["results"][KILLED] = result
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", default=",".join(PEERS), help="with commas between them")
    parser.add_argument("--only", default="*", help="rows, with commas between them; patterns will do")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--time", type=float, default=0.5, help="seconds a sample")
    parser.add_argument("--victim", help=argparse.SUPPRESS)
    parser.add_argument("--init", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--beats", type=Path, help=argparse.SUPPRESS)
    opt = parser.parse_args()
    if opt.victim:
        victim(opt.victim, opt.init, opt.beats)
        return
    day = datetime.datetime.now().strftime("%Y-%m-%d-%H%M")
    out = ROOT / f"benchmarks/results/{day}-engines.json"
    names = [name for name in ROWS if any(fnmatch.fnmatch(name, pattern) for pattern in opt.only.split(","))]
    set_environment()
    found: dict[str, dict] = {}
    # Not in the repository, which has a folder named cellmesh: workers of Ray import from where their driver is.
    with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(scratch):
        for engine in opt.engines.split(","):
            found[engine] = measure(engine, names, opt, Path(scratch, f"{engine}.json"))
            out.write_text(json.dumps({"engines": found}, indent=1))
    text = page(found, opt, day)
    out.with_suffix(".md").write_text(text)
    print(text)
    if any("error" in r for runs in found.values() for r in runs[OURS]["results"].values()):
        sys.exit("a workload has failed on an engine")


if __name__ == "__main__":
    main()
