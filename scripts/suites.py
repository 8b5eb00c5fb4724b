"""Others' own test suites, run on our adapters for their interfaces.

    python scripts/suites.py executor              # CPython's test_concurrent_futures on cellmesh.util.Executor
    python scripts/suites.py pool                  # CPython's tests of multiprocessing.Pool on ours
    python scripts/suites.py joblib dask           # joblib's test_parallel on our backend, Dask's tests on dask_get
    python scripts/suites.py joblib -- -k nested   # with arguments for pytest

A suite is fetched into build/suites the first time, from Debian or PyPI by their own clients. How it is put on our
adapter is in `tests/suites/NAME_suite.py`, what is expected to fail and why in `tests/suites/NAME.txt`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUITES = ROOT / "tests" / "suites"
FETCHED = ROOT / "build" / "suites"
DEADLINE_S = 120  # of one test

# CPython's tests are those of the interpreter's own version, in whatever patch of it Debian has; other interpreters
# have none there.
CPYTHON = "3.11"
DEBIAN_PACKAGES = (f"libpython{CPYTHON}-testsuite", f"libpython{CPYTHON}-stdlib")  # the tests, and test.support
# Wheels of both have their tests. The versions are those whose lists of failures are kept.
JOBLIB, DASK = "joblib==1.6.0", "dask==2026.8.0"


@dataclass(frozen=True)
class Suite:
    """Where a suite comes from, and what of it is run."""

    source: str  # a requirement of PyPI, or "cpython"
    tests: tuple[str, ...]  # files, seen from where it has been fetched to

    @property
    def folder(self) -> Path:
        """Where it is fetched to."""
        return FETCHED / self.source.replace("==", "-")


SUITES_BY_NAME = {
    "executor": Suite("cpython", (str(SUITES / "executor_suite.py"),)),
    "pool": Suite("cpython", (str(SUITES / "pool_suite.py"),)),
    "joblib": Suite(JOBLIB, ("joblib/test/test_parallel.py",)),
    "dask": Suite(
        DASK,
        tuple(
            f"dask/{name}"
            for name in (
                "tests/test_base.py",
                "tests/test_callbacks.py",
                "tests/test_context.py",
                "tests/test_delayed.py",
                "tests/test_threaded.py",
                "tests/test_local.py",
                "array/tests/test_array_core.py",
                "array/tests/test_slicing.py",
                "array/tests/test_rechunk.py",
            )
        ),
    ),
}


def fetch(name: str) -> str | None:
    """None once the suite is there, which may take a download; else the reason why it is not."""
    suite = SUITES_BY_NAME[name]
    if suite.folder.exists():
        return None
    FETCHED.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FETCHED) as scratch:
        problem = (
            _fetch_cpython(Path(scratch)) if suite.source == "cpython" else _fetch_wheel(suite.source, Path(scratch))
        )
        if problem is None:
            os.rename(Path(scratch) / "suite", suite.folder)
    return problem


def _fetch_cpython(scratch: Path) -> str | None:
    """Debian's packages of the tests and of their support, without the rest of the standard library, which is another
    patch's.
    """
    if f"{sys.version_info.major}.{sys.version_info.minor}" != CPYTHON:
        return f"CPython's tests are kept for Python {CPYTHON}, and this is {sys.version.split()[0]}"
    if not (shutil.which("apt-get") and shutil.which("dpkg")):
        return f"CPython's tests come from Debian's {DEBIAN_PACKAGES[0]}, and there is no apt-get"
    problem = _run(["apt-get", "download", "-qq", *DEBIAN_PACKAGES], scratch)
    if problem and os.geteuid() == 0:  # lists of packages may be missing, or old
        problem = _run(["apt-get", "update", "-qq"], scratch) or _run(
            ["apt-get", "download", "-qq", *DEBIAN_PACKAGES], scratch
        )
    for package in scratch.glob("*.deb"):
        problem = problem or _run(["dpkg", "-x", package.name, "unpacked"], scratch)
    if problem is None:
        (scratch / "suite").mkdir()
        os.rename(scratch / "unpacked" / "usr" / "lib" / f"python{CPYTHON}" / "test", scratch / "suite" / "test")
    return problem


def _fetch_wheel(requirement: str, scratch: Path) -> str | None:
    return _run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", "suite", requirement], scratch)


def _run(command: list[str], folder: Path) -> str | None:
    done = subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    return f"`{' '.join(command)}` failed: {done.stderr.strip()[-300:]}" if done.returncode else None


def run(name: str, arguments: list[str]) -> int:
    """Run a suite that has been fetched; pytest's status."""
    suite = SUITES_BY_NAME[name]
    with tempfile.TemporaryDirectory(
        prefix="cm-", dir="/tmp"
    ) as scratch:  # short, as a unix socket's path ends at 107 bytes
        environment = {
            **os.environ,
            "XDG_RUNTIME_DIR": scratch,
            "TMPDIR": scratch,
            "XDG_STATE_HOME": scratch,
            "PYTHONSAFEPATH": "1",
        }
        path = [str(suite.folder), str(SUITES), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment["PYTHONPATH"] = os.pathsep.join(path)
        ours = suite.source == "cpython"  # its tests are classes, made into those of a file of ours
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-c",
            str(SUITES / "pytest.ini"),
            f"--rootdir={SUITES if ours else suite.folder}",
            f"--confcutdir={SUITES}",
            "-p",
            "expected",
            "--expected",
            str(SUITES / f"{name}.txt"),
            f"--timeout={DEADLINE_S}",
            *(() if ours else ("-p", f"{name}_suite")),
        ]
        return subprocess.run([*command, *suite.tests, *arguments], cwd=suite.folder, env=environment).returncode


def main() -> int:
    given = sys.argv[1:]
    end = given.index("--") if "--" in given else len(given)
    wanted, arguments = given[:end], given[end + 1 :]
    if not wanted or set(wanted) - set(SUITES_BY_NAME):
        print(f"{__doc__}\nSuites: {', '.join(SUITES_BY_NAME)}", file=sys.stderr)
        return 2
    for name in wanted:
        if problem := fetch(name):
            print(problem, file=sys.stderr)
            return 1
    return max(run(name, arguments) for name in wanted)


if __name__ == "__main__":
    sys.exit(main())
