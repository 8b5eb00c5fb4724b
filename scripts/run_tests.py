"""Runs every kind of test, two at a time, and says at the end, loudly, what failed and what was not run.

    python scripts/run_tests.py             # what `make test` runs: static checks and, if they pass, every test
    python scripts/run_tests.py --lint      # the static checks alone
    python scripts/run_tests.py --check     # the static checks and all quick tests, in a tree for development
    python scripts/run_tests.py --only c    # some kinds, with commas between them
    python scripts/run_tests.py --busy 8    # beside eight busy processes, with the limits that this takes
    python scripts/run_tests.py --nightly   # sanitizers, torture, everything three times, notebooks at full length

A kind that cannot run here (no Chromium and no way to install it) is reported and skipped; with CI=true it is a
failure.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # PYTHONSAFEPATH leaves it out
import apt
import browser
import frontend
import suites

ROOT = Path(__file__).resolve().parent.parent
PYTEST = [sys.executable, "-m", "pytest", "--durations=8"]


def c_tests(*settings: str) -> list[str]:
    return ["make", "-s", "-C", "objstore/core", f"-j{os.cpu_count()}", "check", *settings]


@dataclass(frozen=True)
class Kind:
    """One kind of test: a command, a limit, and what must be there (returns the reason why it cannot run)."""

    name: str
    command: list[str]
    limit_s: int
    missing: Callable[[], str | None] = lambda: None
    in_tree: bool = False  # runs with build/dev (scripts/devtree.py) instead of what is installed


def node_missing() -> str | None:
    return None if frontend.node_folder() else f"no Node.js; `pip install '{frontend.NODE_WHEEL}'` brings one"


def c_format_missing() -> str | None:
    return None if CLANG_FORMAT.exists() else "no clang-format in the environment; make lint installs it"


CLANG_FORMAT = Path(sys.executable).parent / "clang-format"
RUFF = [sys.executable, "-m", "ruff"]

# Static checks. What they need of the package is in build/dev.
LINT = [
    Kind("types", [sys.executable, "scripts/check_types.py"], 300, node_missing, in_tree=True),
    Kind("rules of Python", [*RUFF, "check", "--quiet"], 60),
    Kind("format of Python", [*RUFF, "format", "--check", "--quiet"], 60),
    Kind(
        "format of C",
        ["make", "-s", "-C", "objstore/core", "format-check", f"CLANG_FORMAT={CLANG_FORMAT}"],
        60,
        c_format_missing,
    ),
    Kind(
        "analyzer of C",
        ["make", "-s", "-C", "objstore/core", f"-j{os.cpu_count()}", "analyze"],
        120,
        lambda: None if shutil.which("gcc") else "no gcc, whose analyzer looks at the C core",
    ),
    Kind("front end", [sys.executable, "scripts/frontend.py", "run", "lint"], 180, node_missing),
    Kind("project", [*PYTEST, "tests/project", "--ignore=tests/project/test_packaging.py"], 180, in_tree=True),
]

LONG_C = "stepping_test crash_test fuzz_test scale_test threads_test"
QUICK = [
    Kind("units", [*PYTEST, "-m", "not slow", "tests/unit"], 400, in_tree=True),
    Kind("quick c", c_tests(f"WITHOUT={LONG_C}"), 300),
    Kind("typescript", [sys.executable, "scripts/frontend.py", "run", "test"], 300, node_missing),
]

# The extensions themselves under sanitizers, in a tree of their own; only Python and its workers may see the preloaded
# runtimes. Without leak detection, because CPython keeps memory until its process ends; the core's own tests in C run
# with it (objstore/core/Makefile). Segmentation faults are left to faulthandler, whose report the tests of crashing
# workers expect.
SANITIZED = """
"$0" scripts/devtree.py --out build/sanitized --sanitize address,undefined --no-werror --opt '-O1 -g' &&
ASAN_OPTIONS=detect_leaks=0:handle_segv=0 \\
LD_PRELOAD="$(cc -print-file-name=libasan.so) $(cc -print-file-name=libubsan.so)" \\
PYTHONPATH="$PWD/build/sanitized" "$0" -m pytest -m "not slow" \\
    tests/objstore tests/runtime tests/scheduler tests/unit/kernel_ext/test_graph.py
"""


CONTROL_STORE = "tests/cluster/store/test_control_store.py"  # alone, as it needs a Redis

# What stands on the public API alone, or in a kernel.
ABOVE = ["tests/compat", "tests/kernel", "tests/rl", "tests/train", "tests/tune"]
OF_THEIR_OWN = ["tests/notebooks", "tests/ui", "tests/cluster", *ABOVE]

# The longest first, so that two at a time end together: alone, tests in Python wait half of the time, and leave a core
# idle.
KINDS = [
    Kind("python", [*PYTEST, "-m", "not slow", *(f"--ignore={folder}" for folder in OF_THEIR_OWN)], 1500),
    Kind("kernels and libraries", [*PYTEST, "-m", "not slow", *ABOVE], 1500),
    Kind(
        "clusters",
        [*PYTEST, "-m", "not slow", "tests/cluster", f"--ignore={CONTROL_STORE}"],
        1200,
        apt.redis_server,
    ),
    Kind("c under sanitizers", c_tests("SAN=address,undefined", "crash_test_ARGS=sample", "DEADLINE_S=850"), 900),
    Kind("panel", [*PYTEST, "-m", "not slow", "tests/ui"], 900, browser.install),
    Kind("c", c_tests(), 900),
    Kind("threads as clients", c_tests("SAN=thread", "TESTS=threads_test"), 300),
    Kind("models", [sys.executable, "models/run.py"], 120),
    Kind("typescript", [sys.executable, "scripts/frontend.py", "run", "test"], 300, node_missing),
    Kind("control store", [*PYTEST, CONTROL_STORE], 300, apt.redis_server),
    Kind("notebooks", [*PYTEST, "tests/notebooks"], 600),
]
NIGHTLY = [
    Kind("c", c_tests("DEADLINE_S=1200"), 1800),
    Kind("c under address,undefined", c_tests("SAN=address,undefined", "DEADLINE_S=1200"), 1800),
    Kind("c under thread", c_tests("SAN=thread", "DEADLINE_S=1200"), 1800),
    Kind("c torture", c_tests("SAN=address,undefined", "TORTURE=1", "DEADLINE_S=1200"), 1800),
    Kind("threads as clients for long", c_tests("SAN=thread", "TESTS=threads_test", "ARGS=300", "DEADLINE_S=600"), 900),
    Kind("deaths after every death", c_tests("TESTS=crash_test", "ARGS=all", "DEADLINE_S=3400"), 3600),
    Kind("deaths at every instruction", c_tests("TESTS=stepping_test", "ARGS=again", "DEADLINE_S=3400"), 3600),
    Kind("deaths in a full store", c_tests("TESTS=scale_test", "ARGS=1000000 150", "DEADLINE_S=900"), 1200),
    Kind(
        "scribbled segments",
        c_tests("SAN=address,undefined", "TESTS=fuzz_test", "ARGS=1000000", "DEADLINE_S=1700"),
        1800,
    ),
    Kind("stray writes", [sys.executable, "tests/runtime/objects/stray_writes.py", "0", "300"], 3600),
    # Its compiler, its futexes and its atomics. What a weak order of memory does shows in models/weak.py alone: qemu
    # runs on what is here.
    Kind(
        "c for aarch64",
        c_tests(
            "CC=aarch64-linux-gnu-gcc",
            f"RUN=qemu-aarch64 -L {apt.AARCH64_ROOT}",
            "WITHOUT=stepping_test",
            "DEADLINE_S=1200",
        ),
        1800,
        apt.aarch64,
    ),
    Kind("mutants", [sys.executable, "tests/objstore/mutants.py"], 7200),
    Kind("three hundred kills of tune", [sys.executable, "tests/tune/kill_drill.py", "0", "300"], 3600),
    Kind("mutants of tune", [sys.executable, "tests/tune/mutants.py"], 3600),
    Kind("mutants of rl", [sys.executable, "tests/rl/mutants.py"], 3600),
    Kind("mutants of a cluster", [sys.executable, "tests/cluster/simulated/mutants.py"], 3600),
    Kind(
        "a cluster's faults, many seeds",
        [sys.executable, "tests/cluster/simulated/simulation.py", "2000", "62000"],
        5400,
    ),
    Kind(
        "a fault at every message",
        [
            "env",
            "CELLMESH_OCCURRENCES=1000",
            "CELLMESH_MESSAGE_FAULTS=400",
            *PYTEST,
            "tests/cluster/simulated/test_message_faults.py",
        ],
        3600,
    ),
    Kind(
        "a search's faults, many seeds",
        ["env", "CELLMESH_TUNE_SEEDS=50000", *PYTEST, "--timeout=1200", "tests/tune/test_controller.py"],
        1800,
    ),
    Kind("a thousand nodes", [sys.executable, "tests/cluster/simulated/scale.py"], 1800),
    Kind(
        "store against a dict",
        ["env", "CELLMESH_MACHINE_EXAMPLES=2000", *PYTEST, "tests/objstore/test_store_machine.py"],
        3600,
    ),
    Kind("extension under sanitizers", ["sh", "-c", SANITIZED, sys.executable], 3600),
    Kind(
        "an hour of misbehaving programs",
        ["env", "CELLMESH_DRILLS=400", *PYTEST, "tests/runtime/faults/test_drills.py"],
        5400,
    ),
    Kind("ten thousand kills", ["env", "CELLMESH_KILLS=3400", *PYTEST, "tests/objstore/test_kill_stress.py"], 1800),
    Kind(
        "a cluster's storms and lies",
        [
            "env",
            "CELLMESH_STORMS=500",
            "CELLMESH_LIES=300",
            *PYTEST,
            "tests/cluster/one_process/test_storms.py",
            "tests/cluster/one_process/test_hostile.py",
        ],
        3600,
    ),
    Kind(
        "ten thousand spoilt bytes",
        ["env", "CELLMESH_FLIPS=5000", *PYTEST, "tests/cluster/wire/test_bit_flips.py"],
        1200,
    ),
    Kind(
        "agents killed", ["env", "CELLMESH_AGENT_KILLS=20", *PYTEST, "tests/cluster/real/test_agents_killed.py"], 1800
    ),
    Kind(
        "nodes lost", ["env", "CELLMESH_RECONSTRUCTIONS=10", *PYTEST, "tests/cluster/real/test_reconstruction.py"], 1800
    ),
    Kind(
        "networks that fail",
        [
            "env",
            "CELLMESH_BLACKOUTS=10",
            "CELLMESH_STOPS=10",
            "CELLMESH_LONG_PARTITIONS=5",
            *PYTEST,
            "tests/cluster/real/test_networks.py",
        ],
        1800,
    ),
    Kind(
        "two hundred partitions",
        ["env", "CELLMESH_PARTITIONS=200", *PYTEST, "tests/cluster/one_process/test_partitions.py"],
        1800,
    ),
    Kind(
        "a hundred ends of the head",
        ["env", "CELLMESH_HEAD_KILLS=100", *PYTEST, "tests/cluster/real/test_head_killed.py"],
        1800,
    ),
    Kind("fifty faults of Redis", ["env", "CELLMESH_REDIS_ROUNDS=50", *PYTEST, CONTROL_STORE], 900, apt.redis_server),
    Kind(
        "five thousand losses of power",
        [
            "env",
            "CELLMESH_CRASH_IMAGES=5000",
            "CELLMESH_STORE_KILLS=300",
            *PYTEST,
            "tests/cluster/store/test_crash_images.py",
        ],
        1800,
    ),
    Kind("a cluster's soak", ["env", "CELLMESH_SOAK_S=300", *PYTEST, "tests/cluster/real/test_soak.py"], 1200),
    Kind(
        "five hundred interrupts",
        ["env", "CELLMESH_INTERRUPTS=500", *PYTEST, "tests/kernel/test_interrupts_kernel.py"],
        2400,
    ),
    *(
        Kind(f"others' tests of {name}", [sys.executable, "scripts/suites.py", name], 1800, partial(suites.fetch, name))
        for name in suites.SUITES_BY_NAME
    ),
    *(kind for kind in KINDS if kind.name in ("models", "typescript", "control store")),
    *(Kind(f"python round {n}", [*PYTEST, "--ignore=tests/notebooks", "--ignore=tests/ui"], 3600) for n in (1, 2, 3)),
    Kind("notebooks at full length", [*PYTEST, "tests/notebooks"], 1800),
    *(Kind(f"panel round {n}", [*PYTEST, "tests/ui"], 1800, browser.install) for n in (1, 2, 3)),
]


def beside(kind: Kind, busy: int) -> Kind:
    """The same kind with the time it may need beside `busy` processes that never wait."""
    slower = 1 + busy / (os.cpu_count() or 1)
    command = [
        re.sub(r"(?<=^DEADLINE_S=)\d+$", lambda limit: str(round(int(limit[0]) * slower)), word)
        for word in kind.command
    ]
    return replace(kind, command=command, limit_s=round(kind.limit_s * slower))


@contextmanager
def busy_processes(n: int) -> Iterator[None]:
    """`n` processes that compute all the time. Each ends with us, whichever way we end."""
    spin = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(1_000_000))"
    processes = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(n)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


@dataclass
class Outcome:
    kind: Kind
    status: str  # ok, FAILED, NOT RUN
    seconds: float
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    note: str = ""


def counts(output: str) -> dict[str, int]:
    """Tests by outcome, from the closing lines of pytest, vitest and objstore/core/Makefile."""
    found = {"passed": 0, "failed": 0, "skipped": 0}
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    closing = [
        line
        for line in plain.splitlines()
        if re.search(r"^(=+ )?\d+ \w+.* in [\d.]+s|^ *Tests +\d|^core tests \(", line)
    ]
    if closing:
        for number, word in re.findall(r"(\d+) (passed|failed|errors?|skipped)", closing[-1]):
            found[{"error": "failed", "errors": "failed"}.get(word, word)] += int(number)
    return found


installing, printing = threading.Lock(), threading.Lock()  # packages; what one kind has printed, as a whole


def run(kind: Kind, fast: bool, alone: bool) -> Outcome:
    """One kind; ends everything it started when its time is up. Its output is passed through, or, beside others,
    printed at its end.
    """
    head = f"\n{'=' * 24} {kind.name} {'=' * 24}"
    started = time.monotonic()
    with installing:
        reason = kind.missing()
    if reason:
        print(f"{head}\nNOT RUN: {reason}", flush=True)
        return Outcome(kind, "NOT RUN", time.monotonic() - started, note=reason)
    print(head if alone else f"{kind.name} ...", flush=True)
    environment = {**os.environ, "PYTHONSAFEPATH": "1", "NO_COLOR": "1"}
    environment.pop("FORCE_COLOR", None)
    if fast:
        environment["CELLMESH_NOTEBOOK_FAST"] = "1"
    if kind.in_tree:
        environment["PYTHONPATH"] = str(ROOT / "build/dev")
    process = subprocess.Popen(
        kind.command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    assert process.stdout is not None
    limit = threading.Timer(kind.limit_s, os.killpg, (process.pid, signal.SIGKILL))
    limit.start()
    lines = []
    try:
        for line in process.stdout:
            if alone:
                print(line, end="", flush=True)
            lines.append(line)
        code = process.wait()
    finally:
        limit.cancel()
    if not alone:
        with printing:
            print(f"{head}\n{''.join(lines)}", end="", flush=True)
    seconds = time.monotonic() - started
    note = (
        f"ended after its limit of {kind.limit_s} s"
        if code == -signal.SIGKILL
        else ""
        if code == 0
        else f"status {code}"
    )
    outcome = Outcome(kind, "FAILED" if code else "ok", seconds, **counts("".join(lines)), note=note)
    if code and not outcome.failed:
        outcome.failed = 1  # it never came to counting
    return outcome


def summarize(outcomes: list[Outcome]) -> int:
    """Print the table and the closing line; returns the exit status."""
    print(f"\n{'=' * 24} summary {'=' * 24}")
    for o in outcomes:
        tally = (
            f"{o.passed} passed"
            + (f", {o.failed} failed" if o.failed else "")
            + (f", {o.skipped} skipped" if o.skipped else "")
        )
        print(
            f"{o.status:<8} {o.kind.name:<28} {o.seconds:6.0f} s  {o.note if o.status == 'NOT RUN' else tally}"
            + (f" ({o.note})" if o.note and o.status == "FAILED" else "")
        )
    absent = [o for o in outcomes if o.status == "NOT RUN"]
    for o in absent:
        print(
            f"\n!!! THE {o.kind.name.upper()} TESTS WERE NOT RUN: {o.note}"
            + ("  (CI=true: this is a failure)" if apt.IN_CI else "")
        )
    failed = sum(o.failed for o in outcomes) + (len(absent) if apt.IN_CI else 0)
    print(f"\n{sum(o.passed for o in outcomes)} passed, {failed} failed, {sum(o.skipped for o in outcomes)} skipped")
    return 1 if failed or any(o.status == "FAILED" for o in outcomes) else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="comma-separated kinds: " + ", ".join(k.name for k in KINDS))
    parser.add_argument("--nightly", action="store_true")
    parser.add_argument("--lint", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument(
        "--busy",
        type=int,
        default=0,
        metavar="N",
        help="run beside N busy processes, to find tests that need a quick machine",
    )
    opt = parser.parse_args()
    kinds = NIGHTLY if opt.nightly else LINT if opt.lint else [*LINT, *QUICK] if opt.check else KINDS
    if opt.only:
        wanted = opt.only.split(",")
        if unknown := set(wanted) - {k.name for k in kinds}:
            parser.error(f"unknown kind: {', '.join(sorted(unknown))}")
        kinds = [k for k in kinds if k.name in wanted]
    elif kinds is KINDS and (status := run_all(LINT)):
        print("\nThe tests were not run: mend what the static checks found (`make lint` runs them alone).")
        return status
    kinds = [beside(kind, opt.busy) for kind in kinds]
    with busy_processes(opt.busy):
        return run_all(kinds, fast=not opt.nightly, at_once=1 if opt.nightly else 2)


def run_all(kinds: list[Kind], fast: bool = True, at_once: int = 2) -> int:
    """Run kinds, some at once, and print the table; returns the exit status."""
    if any(kind.in_tree for kind in kinds):
        subprocess.run([sys.executable, "scripts/devtree.py"], cwd=ROOT, check=True)
    if any(kind.missing is node_missing for kind in kinds) and frontend.node_folder():
        frontend.install_modules()  # before any of them runs, as several use what it installs
    n = 1 if len(kinds) == 1 else at_once
    with ThreadPoolExecutor(n) as pool:
        return summarize(list(pool.map(lambda kind: run(kind, fast, n == 1), kinds)))


if __name__ == "__main__":
    sys.exit(main())
