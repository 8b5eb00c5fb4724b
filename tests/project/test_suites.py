"""The lists of what fails of others' test suites: what they say is what is so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SUITES = Path(__file__).resolve().parent.parent / "suites"
TESTS = """
import pytest

def test_passes(): pass
def test_fails(): assert False
@pytest.mark.parametrize("n", [1, 2])
def test_both(n): assert n == 3
def test_hangs(): assert False, "this is not to be run"
"""


@pytest.fixture
def outcome(tmp_path: Path):
    """What pytest says of these tests with a list, and its status."""

    def run(expected: str, *arguments: str) -> tuple[int, str]:
        (tmp_path / "test_it.py").write_text(TESTS)
        (tmp_path / "list.txt").write_text(expected)
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-c",
                str(SUITES / "pytest.ini"),
                "--rootdir=.",
                "-p",
                "expected",
                "--expected",
                "list.txt",
                "-rx",
                *arguments,
            ],
            cwd=tmp_path,
            env={"PYTHONPATH": str(SUITES), "PYTHONSAFEPATH": "1"},
            capture_output=True,
            text=True,
        )
        return done.returncode, done.stdout + done.stderr

    return run


LISTED = """# a comment

It fails
    test_it.py::test_fails
    test_it.py::test_both*
Not run: it hangs
    test_it.py::test_hangs
"""


def test_what_is_listed_fails_and_nothing_else(outcome) -> None:
    status, text = outcome(LISTED)
    assert status == 0 and "1 passed, 4 xfailed" in text
    assert "test_fails - It fails" in text and "[NOTRUN] Not run: it hangs" in text and "not to be run" not in text


def test_a_failure_that_is_not_listed(outcome) -> None:
    status, text = outcome(LISTED.replace("    test_it.py::test_fails\n", ""))
    assert status == 1 and "1 failed, 1 passed, 3 xfailed" in text


def test_what_is_listed_and_passes(outcome) -> None:
    status, text = outcome(LISTED + "It fails\n    test_it.py::test_passes\n")
    assert status == 1 and "[XPASS(strict)] It fails" in text


def test_what_is_listed_and_is_not_there(outcome) -> None:
    status, text = outcome(LISTED + "It fails\n    test_it.py::test_gone\n")
    assert status != 0 and "there is no such test: test_it.py::test_gone" in text
    assert outcome(LISTED + "It fails\n    test_it.py::test_gone\n", "-k", "both")[0] == 0  # a part of the suite


@pytest.mark.parametrize(
    "wrong, why", [("    test_it.py::test_fails\n", "has no reason"), ("It fails\n    a\n    a\n", "is listed twice")]
)
def test_lists_that_are_wrong(outcome, wrong: str, why: str) -> None:
    status, text = outcome(wrong)
    assert status != 0 and why in text
