"""Runs tests with the newest packages that pyproject.toml allows, and says which package broke what (`make
check-newest`).

The packages lie in an environment of their own, build/newest. Where a test fails, one package after the other is put
back to its pinned version and what failed is run again: what passes then was broken by that package's release.
"""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import venv
from collections.abc import Callable, Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # PYTHONSAFEPATH leaves it out
import packages
from testing.running import recorded_failures

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT, TREE, RECORD = (ROOT / "build" / name for name in ("newest", "newest-tree", "tests/newest.jsonl"))
PYTHON = str(ENVIRONMENT / "bin/python")
GROUPS = ("build", "dependencies", "notebooks", "test")
# What rests on how others' releases behave: the codec, cards and previews, magics, kernels, the panel's messages.
TESTS = ("tests/unit", "tests/objstore", "tests/kernel")


def prepare() -> None:
    """The environment with the newest of everything, and cellmesh built for it."""
    if not Path(PYTHON).exists():
        venv.create(ENVIRONMENT, with_pip=True)
    scripts = ROOT / "scripts"
    subprocess.run([PYTHON, str(scripts / "packages.py"), "install", "--newest", *GROUPS], check=True)
    subprocess.run([PYTHON, str(scripts / "devtree.py"), "--out", str(TREE)], check=True)


def failed(tests: Iterable[str]) -> dict[str, str]:
    """Run these; the names of those that fail, with why."""
    command = [PYTHON, "-m", "pytest", "-q", "-m", "not slow", f"--record={RECORD}", *tests]
    environment = {**os.environ, "PYTHONPATH": str(TREE), "PYTHONSAFEPATH": "1", "CELLMESH_NOTEBOOK_FAST": "1"}
    RECORD.unlink(missing_ok=True)
    status = subprocess.run(command, cwd=ROOT, env=environment).returncode
    if not RECORD.exists():
        raise SystemExit(f"pytest did not begin (status {status})")
    return {failure.name: failure.why for failure in recorded_failures(RECORD.read_text().splitlines(keepends=True))}


def changed() -> dict[str, tuple[str, str]]:
    """By name of a package, its pinned and its newest version, where they differ; what we ask for by name first."""
    pinned = packages.read_pins(packages.PINS / f"{packages.PYTHON}.txt")
    there = importlib.metadata.distributions(path=[str(next(ENVIRONMENT.glob("lib/python*/site-packages")))])
    newest = {packages.name_of(each.metadata["Name"]): each.version.partition("+")[0] for each in there}
    asked = {packages.name_of(requirement) for group in packages.groups().values() for requirement in group}
    names = sorted(newest, key=lambda name: (name not in asked, name))
    return {name: (pinned[name], newest[name]) for name in names if pinned.get(name, newest[name]) != newest[name]}


def blamed(
    failing: Iterable[str],
    suspects: dict[str, tuple[str, str]],
    put: Callable[[str, str], None],
    still_failing: Callable[[Iterable[str]], Iterable[str]],
) -> dict[str, str]:
    """By test, the package whose pinned version has it pass; tests that no single package explains are left out."""
    found: dict[str, str] = {}
    for name, (pinned, newest) in suspects.items():
        open_ = sorted(set(failing) - set(found))
        if not open_:
            break
        put(name, pinned)
        found |= dict.fromkeys(set(open_) - set(still_failing(open_)), name)
        put(name, newest)
    return found


def _put(name: str, version: str) -> None:
    subprocess.run([PYTHON, "-m", "pip", "-q", "install", "--no-deps", f"{name}=={version}"], check=True)


def main() -> int:
    prepare()
    why = failed(TESTS)
    why = why and failed(name for name in why if name)  # what fails by chance is not a release's fault
    suspects = changed()
    print(f"\n{len(suspects)} packages are newer than their pins:")
    for name, (pinned, newest) in suspects.items():
        print(f"    {name} {pinned} -> {newest}")
    if not why:
        print("the tests pass with the newest of everything")
        return 0
    by = blamed(why, suspects, _put, failed)
    for test in sorted(why):
        package = by.get(test)
        said = f"broken by {package} {suspects[package][1]}" if package else "broken by no single package"
        print(f"FAILED {test}: {said}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
