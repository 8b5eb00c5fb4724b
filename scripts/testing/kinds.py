"""The kinds of tests: what each runs, what it needs, and when it is ended."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import apt
import browser
import check_python
import frontend
import suites

ROOT = Path(__file__).resolve().parents[2]
PYTEST = [sys.executable, "-m", "pytest", "--durations=8", "--continue-on-collection-errors"]
CHECK = ["make", "-s", "-C", "objstore/core", f"-j{os.cpu_count()}", "check"]


@dataclass(frozen=True)
class Kind:
    """One kind of test.

    Attributes
    ----------
    command : list of str
    limit_s : int
        When it is ended. That is for what hangs, so it is several times what a quiet machine needs.
    missing : callable
        The reason why it cannot run here, or None; installs what it can. Called before the first kind begins.
    bare : bool
        It needs a compiler and Python alone, so it runs while the rest is installed.
    in_tree : bool
        It runs with build/dev (scripts/devtree.py) instead of what is installed.
    one : callable
        The command for some of its tests by name; None where it runs only as a whole.
    budget_s : int
        What it may take on two quiet cores, beside three other kinds; stands beside what it took. 0: no budget.
    inputs : callable
        All files that decide what it finds, tools and libraries aside. It does not run again while it has passed with
        these (scripts/testing/unchanged.py). None where that cannot be said, or would take as long as the check.
    """

    name: str
    command: list[str]
    limit_s: int
    missing: Callable[[], str | None] = lambda: None
    bare: bool = False
    in_tree: bool = False
    one: Callable[[str], list[str]] | None = None
    budget_s: int = 0
    inputs: Callable[[], Iterable[Path]] | None = None
    recorded: bool = False  # writes a record of its tests (tests/support/outcomes.py)


def pytest_kind(name: str, arguments: str, limit_s: int, **settings: Any) -> Kind:
    """Tests in Python that are not slow. Folders that are `arguments`, and what is left out of them, are separated by
    blanks.
    """
    options = [*PYTEST, "-m", "not slow"]
    return Kind(
        name, [*options, *arguments.split()], limit_s, one=lambda test: [*options, test], recorded=True, **settings
    )


def c_tests(*settings: str) -> list[str]:
    return [*CHECK, *settings]


def c_kind(name: str, limit_s: int, *settings: str, budget_s: int = 0) -> Kind:
    """Tests in C, a program each."""
    return Kind(
        name,
        c_tests(*settings),
        limit_s,
        bare=True,
        one=lambda program: c_tests(*settings, f"TESTS={program}"),
        budget_s=budget_s,
    )


def node_missing() -> str | None:
    return None if frontend.node_folder() else f"no Node.js; `pip install '{frontend.NODE_WHEEL}'` brings one"


def c_format_missing() -> str | None:
    return None if CLANG_FORMAT.exists() else "no clang-format in the environment; make lint installs it"


def files(folders: str, suffixes: str = "", others: str = "") -> list[Path]:
    """Files of folders, with these suffixes or any, without what is built there; and others by name."""
    found = [path for folder in folders.split() for path in (ROOT / folder).rglob("*") if path.is_file()]
    return [
        *(ROOT / name for name in others.split()),
        *(
            path
            for path in found
            if (not suffixes or path.suffix in suffixes.split()) and not BUILT & {*path.relative_to(ROOT).parts}
        ),
    ]


BUILT = {"built", "lib", "out", "node_modules", "__pycache__"}  # folders
CLANG_FORMAT = Path(sys.executable).parent / "clang-format"
RUFF = [sys.executable, "-m", "ruff"]

# Of the project's own tests, those of what builds and runs the others; the rest are among the static checks.
TOOLS = "tests/project/test_packaging.py tests/project/test_running.py tests/project/test_suites.py"

TYPED = partial(
    files,
    "cellmesh kernel_ext objstore scheduler scripts/typings",
    ".py .pyi .typed",
    "package-lock.json pyproject.toml scripts/check_types.py scripts/devtree.py scripts/frontend.py",
)

# Static checks. What they need of the package is in build/dev.
LINT = [
    Kind(
        "types",
        [sys.executable, "scripts/check_types.py"],
        600,
        node_missing,
        in_tree=True,
        inputs=TYPED,
    ),
    Kind("rules of Python", [*RUFF, "check", "--quiet"], 60),
    Kind("format of Python", [*RUFF, "format", "--check", "--quiet"], 60),
    Kind(
        "format of C",
        ["make", "-s", "-C", "objstore/core", "format-check", f"CLANG_FORMAT={CLANG_FORMAT}"],
        60,
        c_format_missing,
    ),
    Kind(
        "front end",
        [sys.executable, "scripts/frontend.py", "run", "lint"],
        300,
        node_missing,
        inputs=partial(
            files, "labextension", others="package.json package-lock.json .editorconfig .gitignore scripts/frontend.py"
        ),
    ),
    Kind("project", [*PYTEST, "tests/project", *(f"--ignore={path}" for path in TOOLS.split())], 300, in_tree=True),
]

LONG_C = "stepping_test crash_test fuzz_test scale_test threads_test"
QUICK = [
    pytest_kind("units", "tests/unit", 900, in_tree=True),
    c_kind("quick c", 600, f"WITHOUT={LONG_C}"),
    Kind("typescript", [sys.executable, "scripts/frontend.py", "run", "units"], 600, node_missing),
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


CONTROL_STORE = "tests/cluster/store/test_control_store.py"  # alone, as it needs a Redis of its own

BELOW = f"tests/objstore {TOOLS} tests/scheduler tests/typing tests/unit"

# The longest first, and none longer than a quarter of all, so that those that run at once end together.
KINDS = [
    pytest_kind("runtime", "tests/runtime", 3000, budget_s=600),
    pytest_kind("clusters", f"tests/cluster --ignore={CONTROL_STORE}", 3000, budget_s=650, missing=apt.redis_server),
    pytest_kind("libraries", "tests/compat tests/rl tests/train tests/tune", 3000, budget_s=600),
    pytest_kind("kernels", "tests/engines tests/gpu tests/kernel", 3000, budget_s=500),
    pytest_kind("panel", "tests/ui", 3000, budget_s=500, missing=browser.install),
    pytest_kind("units and the store", BELOW, 3000, budget_s=300),
    pytest_kind("notebooks", "tests/notebooks", 1800, budget_s=150),
    c_kind(
        "c under sanitizers", 3000, "SAN=address,undefined", "crash_test_ARGS=sample", "DEADLINE_S=2900", budget_s=200
    ),
    c_kind("c", 1800, "stepping_test_ARGS=sample", "crash_test_ARGS=quick", "DEADLINE_S=1700", budget_s=100),
    Kind(
        "analyzer of C",
        ["make", "-s", "-C", "objstore/core", f"-j{os.cpu_count()}", "analyze"],
        300,
        lambda: None if shutil.which("gcc") else "no gcc, whose analyzer looks at the C core",
        inputs=partial(files, "objstore/core", ".c .h", "objstore/core/Makefile objstore/core/build.mk"),
        budget_s=60,
    ),
    Kind(
        "public types",
        [sys.executable, "scripts/check_types.py", "--public"],
        600,
        node_missing,
        in_tree=True,
        inputs=TYPED,
        budget_s=60,
    ),
    c_kind("threads as clients", 600, "SAN=thread", "TESTS=threads_test", budget_s=60),
    Kind("models", [sys.executable, "models/run.py"], 600, bare=True, budget_s=60),
    Kind("typescript", [sys.executable, "scripts/frontend.py", "run", "units"], 600, node_missing, budget_s=45),
    pytest_kind("control store", CONTROL_STORE, 600, budget_s=30, missing=apt.redis_server),
]
# Releases of cloudpickle: the oldest that is allowed, the last that named files in code by itself, and the newest.
CLOUDPICKLES = ("3.0.0", "3.1.2", "")
WITH_CLOUDPICKLE = """
"$0" -m pip install --quiet --upgrade --no-deps --target "build/cloudpickle-$1" "cloudpickle${1:+==$1}" &&
PYTHONPATH="$PWD/build/cloudpickle-$1:$PWD/build/dev" "$0" -m pytest -m "not slow" \\
    tests/objstore tests/kernel tests/runtime/tasks
"""

# Engines have environments of their own, since they ask for other versions of what both need; what tests need is beside
# them. An engine's name, and the program whose environment it is.
ON_ENGINE = """
make -s "$2" &&
PYTHONPATH="$PWD/build/dev:$("$0" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')" \\
    "$(dirname "$2")/python" -m pytest --durations=8 -k "$1" tests/engines
"""
ENGINES = {"ray": ".venv-bench-ray/bin/ray", "dask": ".venv-dask/bin/dask"}

OTHER_PYTHONS = ("3.12", "3.13", "3.14")  # beside the one that runs all tests

NIGHTLY = [
    *(
        Kind(
            f"python {version}",
            [sys.executable, "scripts/check_python.py", version],
            5400,
            partial(check_python.missing, version),
        )
        for version in OTHER_PYTHONS
    ),
    *(
        Kind(f"{name} as an engine", ["sh", "-c", ON_ENGINE, sys.executable, name, program], 1800, in_tree=True)
        for name, program in ENGINES.items()
    ),
    *(
        Kind(
            f"cloudpickle {version or 'of today'}",
            ["sh", "-c", WITH_CLOUDPICKLE, sys.executable, version],
            3600,
            in_tree=True,
        )
        for version in CLOUDPICKLES
    ),
    Kind("the newest of everything", [sys.executable, "scripts/check_newest.py"], 5400),
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
    Kind("two hundred failures of ranks", [sys.executable, "tests/kernel/ranks/failure_drill.py", "0", "200"], 3600),
    Kind(
        "two hundred kills on an engine",
        [sys.executable, "tests/engines/faults/kill_drill.py", "fake", "0", "200"],
        3600,
    ),
    Kind("mutants of tune", [sys.executable, "tests/tune/mutants.py"], 3600),
    Kind("mutants of train", [sys.executable, "tests/train/mutants.py"], 3600),
    Kind("mutants of rl", [sys.executable, "tests/rl/mutants.py"], 3600),
    Kind("mutants of a cluster", [sys.executable, "tests/cluster/simulated/mutants.py"], 3600),
    Kind(
        "a cluster's faults, many seeds",
        [sys.executable, "tests/cluster/simulated/simulation.py", "300", "62000"],
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
        "many examples",
        [
            "env",
            "CELLMESH_EXAMPLES=10",
            *PYTEST,
            "tests/objstore/test_codec.py",
            "tests/objstore/test_codec_arrays.py",
            "tests/unit/scheduler/test_fitting.py",
            "tests/unit/kernel_ext/test_cells.py",
        ],
        3600,
    ),
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
    Kind("an hour of a notebook", ["env", "CELLMESH_SOAK_S=3600", *PYTEST, "tests/kernel/soak"], 9000),
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
    Kind(
        "every hostile text",
        ["env", "CELLMESH_HOSTILE=1", *PYTEST, "tests/ui/test_hostile.py"],
        900,
        browser.install,
    ),
]


def beside(kind: Kind, busy: int) -> Kind:
    """The same kind with the time it may need beside `busy` processes that never wait."""
    slower = 1 + busy / (os.cpu_count() or 1)
    command = [
        re.sub(r"(?<=^DEADLINE_S=)\d+$", lambda limit: str(round(int(limit[0]) * slower)), word)
        for word in kind.command
    ]
    return replace(kind, command=command, limit_s=round(kind.limit_s * slower))
