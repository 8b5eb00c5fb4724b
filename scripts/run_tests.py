"""Runs every kind of test, some at a time, and says at the end, loudly, what failed and what was not run.

    python scripts/run_tests.py             # what `make test` runs: static checks and, if they pass, every test
    python scripts/run_tests.py --lint      # the static checks alone
    python scripts/run_tests.py --check     # the static checks and all quick tests, in a tree for development
    python scripts/run_tests.py --only c    # some kinds, with commas between them
    python scripts/run_tests.py --busy 8    # beside eight busy processes, with the limits that this takes
    python scripts/run_tests.py --nightly   # sanitizers, torture, everything three times, notebooks at full length

What any kind needs is installed before the first begins. `--install` names a command that does so; what needs a
compiler and Python alone runs meanwhile, since an installation waits for the network half of its time. A kind that
cannot run here (no Chromium and no way to install it) is reported and skipped; with CI=true it is a failure.

When all kinds have ended, each test that failed is run again by itself, up to twice. One that passes then is *flaky*:
it is named at the end with the log of its first failure, and in build/flaky.txt, and the run is green.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # PYTHONSAFEPATH leaves it out
import apt
import frontend
from testing import summary, unchanged
from testing.kinds import KINDS, LINT, NIGHTLY, QUICK, ROOT, Kind, beside, node_missing
from testing.running import Outcome, Runs

AT_ONCE = (os.cpu_count() or 1) + 2  # kinds: tests wait for half of their time
FLAKY = ROOT / "build/flaky.txt"
TRIES = 2  # of a test that failed, by itself
LAST_LINES = 40  # of what an installation says that has failed
MOST_AGAIN = 20  # where more tests fail, that is no matter of luck


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


def missing(kinds: list[Kind]) -> dict[str, str]:
    """Install what the kinds need; by name of a kind, why it cannot run."""
    if any(kind.in_tree for kind in kinds):
        subprocess.run([sys.executable, "scripts/devtree.py"], cwd=ROOT, check=True)
    if any(kind.missing is node_missing for kind in kinds) and frontend.node_folder():
        frontend.install_modules()
    return {kind.name: reason for kind in kinds if (reason := kind.missing())}


def while_installing(command: str, kinds: list[Kind]) -> list[Outcome]:
    """Run a command, and these kinds meanwhile; what came of the kinds.

    Raises
    ------
    SystemExit
        With the command's status, when it has failed; the kinds are ended, and what it said last is said again.
    """
    runs = Runs()
    last = deque[str](maxlen=LAST_LINES)
    with (
        subprocess.Popen(
            shlex.split(command),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as installing,
        ThreadPoolExecutor(2) as pool,
    ):
        try:
            outcomes = pool.map(lambda kind: runs.run(kind, True, False), kinds)
            assert installing.stdout is not None
            for line in installing.stdout:
                print(line, end="", flush=True)
                last.append(line)
            if status := installing.wait():
                runs.end()
                pool.shutdown()  # what they print comes before
                print(f"\n{'=' * 24} not installed: {command} {'=' * 24}\n{''.join(last)}", end="", flush=True)
                raise SystemExit(status)
            return list(outcomes)
        except BaseException:
            installing.terminate()
            runs.end()
            raise


def run_all(
    kinds: list[Kind],
    fast: bool = True,
    at_once: int = AT_ONCE,
    busy: int = 0,
    again: bool = False,
    before: Sequence[Outcome] = (),
) -> int:
    """Run kinds, some at once, and print what came of it; returns the exit status.

    Parameters
    ----------
    again : bool
        What failed is run again by itself.
    before : sequence of Outcome
        Of kinds that have run already.
    """
    started = time.monotonic()
    absent = missing(kinds)
    alone = len(kinds) == 1 or at_once == 1
    runs = Runs()

    def outcome(kind: Kind) -> Outcome:
        if reason := absent.get(kind.name):
            print(f"{kind.name}: NOT RUN: {reason}", flush=True)
            return Outcome(kind, "NOT RUN", 0, note=reason)
        state = unchanged.state(kind) if kind.inputs else ""
        if state and unchanged.has_passed(kind, state):
            return Outcome(kind, "ok", 0, note="passed before, with the same files")
        found = runs.run(beside(kind, busy), fast, alone)
        if state and found.status == "ok":
            unchanged.passed(kind, state)
        return found

    try:
        with busy_processes(busy), ThreadPoolExecutor(1 if alone else at_once) as pool:
            try:
                outcomes = [*before, *pool.map(outcome, kinds)]
            except BaseException:
                runs.end()
                pool.shutdown(cancel_futures=True)
                raise
        if again:
            run_again(runs, outcomes, fast)
    except KeyboardInterrupt:
        print("\nended before all tests were run", flush=True)
        return 130
    print(summary.table(outcomes, time.monotonic() - started))
    flaky = summary.flaky_tests(outcomes)
    FLAKY.parent.mkdir(exist_ok=True)
    FLAKY.write_text(flaky)
    for part in (flaky, summary.what_failed(outcomes, apt.IN_CI), summary.closing(outcomes, apt.IN_CI)):
        if part:
            print(part)
    return 0 if summary.is_green(outcomes, apt.IN_CI) else 1


def run_again(runs: Runs, outcomes: list[Outcome], fast: bool) -> None:
    """Each test that failed, by itself; moves those that pass to `flaky`.

    A kind that was cut short stays failed: nobody knows what the rest of its tests would have done.
    """
    failed = [(o, failure) for o in outcomes for failure in o.failures if failure.name or not o.kind.one]
    if len(failed) > MOST_AGAIN:
        print(f"\n{len(failed)} tests failed, too many to run each again by itself", flush=True)
        return
    for o, failure in failed:
        for n in range(1, TRIES + 1):
            print(f"\nagain, by itself ({n} of {TRIES}): {o.kind.name}: {failure.name or 'as a whole'}", flush=True)
            if runs.run(o.kind, fast, True, failure.name).status == "ok":
                o.failures.remove(failure)
                o.flaky.append(failure)
                o.failed -= 1
                o.passed += 1
                break
    for o in outcomes:
        if o.flaky and not o.failures:
            o.status, o.failed = "ok", 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="comma-separated kinds: " + ", ".join(k.name for k in KINDS))
    parser.add_argument("--nightly", action="store_true")
    parser.add_argument("--lint", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--install", metavar="COMMAND", help="installs what the tests need")
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
    bare = [k for k in kinds if k.bare and opt.install and not opt.busy]
    before = while_installing(opt.install, bare) if opt.install else []
    if kinds is KINDS and (status := run_all(LINT)):
        print("\nOther tests were not run: mend what the static checks found (`make lint` runs them alone).")
        return status
    return run_all(
        [k for k in kinds if k not in bare],
        fast=not opt.nightly,
        at_once=1 if opt.nightly else AT_ONCE,
        busy=opt.busy,
        again=not (opt.lint or opt.nightly),
        before=before,
    )


if __name__ == "__main__":
    sys.exit(main())
