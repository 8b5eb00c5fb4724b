"""A skip that means that something is not installed is a failure in CI, and only there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent
CASES = {
    "a_package": "pytest.importorskip('no_such_package')",
    "a_program": "pytest.skip('no redis-server: apt-get install redis-server')",
    "another_reason": "pytest.skip('this machine has one core')",
}


@pytest.mark.parametrize("ci", ["true", ""])
def test_what_is_not_installed_fails_in_ci(tmp_path: Path, ci: str) -> None:
    for name, line in CASES.items():
        (tmp_path / f"test_{name}.py").write_text(f"import pytest\n\ndef test_it():\n    {line}\n")
    (tmp_path / "test_all_of_it.py").write_text("import pytest\npytest.importorskip('no_such_package')\n")
    environment = {**os.environ, "CI": ci, "PYTHONPATH": os.pathsep.join([str(TESTS), *filter(None, sys.path)])}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "conftest",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            str(tmp_path),
            "--continue-on-collection-errors",
            "-o",
            "addopts=",
            str(tmp_path),
        ],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    closing = done.stdout.splitlines()[-1]
    assert closing.startswith("2 failed, 1 skipped, 1 error" if ci else "4 skipped"), done.stdout + done.stderr
