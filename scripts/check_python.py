"""Runs the quick tests, and those of what rests on the interpreter, with another Python (of `make nightly`).

    python scripts/check_python.py 3.13     # python3.13 of PATH, or the program that CELLMESH_PYTHON_3_13 names

It gets an environment of its own, build/python3.13, with what is pinned for it, all but torch and what needs that: for
many an interpreter there are but its gigabytes of CUDA.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = ("tests/unit", "tests/objstore", "tests/runtime/tasks", "tests/runtime/actors", "tests/kernel")


def found(version: str) -> str | None:
    """The program of that Python, "3.13" say; None where there is none."""
    program = os.environ.get(variable(version)) or shutil.which(f"python{version}")
    if program is None:
        return None
    ask = [program, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    try:  # what pyenv puts on PATH for each Python that it has runs those alone that are chosen
        done = subprocess.run(ask, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    except OSError:
        return None
    return program if done.stdout.strip() == version else None


def variable(version: str) -> str:
    return f"CELLMESH_PYTHON_{version.replace('.', '_')}"


def missing(version: str) -> str | None:
    """Why nothing can be said of that Python here; None where it can."""
    if found(version):
        return None
    return f"no Python {version}: have python{version} on PATH, or {variable(version)} name the program"


def main(version: str) -> int:
    if (reason := missing(version)) or (program := found(version)) is None:
        raise SystemExit(reason)
    environment, tree = (ROOT / "build" / f"{kind}{version}" for kind in ("python", "tree"))
    python = str(environment / "bin/python")
    if not Path(python).exists():
        subprocess.run([program, "-m", "venv", str(environment)], check=True)
    scripts = ROOT / "scripts"
    groups = ("build", "dependencies", "notebooks", "test")
    subprocess.run([python, str(scripts / "packages.py"), "install", "--without-torch", *groups], check=True)
    subprocess.run([python, str(scripts / "devtree.py"), "--out", str(tree)], check=True)
    # In CI what is skipped for want of a package is a failure; here torch is left out.
    variables = {**os.environ, "PYTHONPATH": str(tree), "PYTHONSAFEPATH": "1", "CI": ""}
    return subprocess.run(
        [python, "-m", "pytest", "--durations=8", "-m", "not slow", *TESTS], cwd=ROOT, env=variables
    ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
