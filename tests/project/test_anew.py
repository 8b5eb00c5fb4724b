"""tests/support/shared/anew.py: what breaks a thing that tests share fails one test or two, and not all behind it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support.shared import anew

ROOT = Path(__file__).resolve().parents[2]
CONFTEST = """
from support.shared import anew

anew.END_S = 0.2

def pytest_configure(config):
    config.pluginmanager.register(anew.Anew())
"""
TESTS = """
import subprocess
import pytest

begun = []

@pytest.fixture(scope="session")
def server():
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        begun.append(process)
        yield process
        process.stdin.close()

@pytest.fixture(scope="module")
def connection(server):
    assert len(begun) != 3, "not this time"
    return server

@pytest.fixture
def kept():
    yield
    raise AssertionError("left behind")

def alive(connection):
    assert connection.poll() is None, "it has ended"

def test_begins(connection): alive(connection)
def test_shares(connection): assert begun == [connection]
def test_ends_it(connection):
    connection.kill()
    connection.wait()
    alive(connection)
def test_with_the_second(connection): alive(connection)
def test_ends_it_unnoticed(connection):
    connection.kill()
    connection.wait()
def test_fails_by_that(connection): alive(connection)
def test_cannot_set_up(connection): alive(connection)
def test_with_the_fourth(connection): assert len(begun) == 4
def test_leaves_something(connection, kept): alive(connection)
def test_with_the_fifth(connection): assert len(begun) == 5
"""
HANGS = """
import threading
import pytest

@pytest.fixture(scope="session")
def server():
    yield
    if begun:
        threading.Event().wait()

@pytest.fixture
def connection(server):
    yield
    if begun:
        threading.Event().wait()

begun = []

def test_fails(connection):
    begun.append(1)
    raise AssertionError

def test_passes(connection): begun.clear()
"""
MANY = """
import pytest

begun = []

@pytest.fixture(scope="session")
def server():
    begun.append(1)

@pytest.mark.parametrize("n", range(MOST + 2))
def test_fails(server, n): assert n < 0

def test_at_last(server): assert len(begun) == MOST + 1
"""


def failed(folder: Path, tests: str) -> list[str]:
    """The names of what fails."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(tests)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir=.", "-rfE", "-q"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), *filter(None, sys.path)])},
        capture_output=True,
        text=True,
    )
    lines = [line.split()[1] for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    assert lines, done.stdout + done.stderr
    return sorted(line.removeprefix("test_it.py::test_") for line in lines)


def test_a_failure_begins_anew_what_tests_share(tmp_path: Path) -> None:
    assert failed(tmp_path, TESTS) == ["cannot_set_up", "ends_it", "fails_by_that", "leaves_something"]


def test_where_all_fail_it_is_not_begun_for_each(tmp_path: Path) -> None:
    assert "at_last" not in failed(tmp_path, MANY.replace("MOST", str(anew.MOST)))


def test_what_hangs_is_left_as_it_is(tmp_path: Path) -> None:
    assert failed(tmp_path, HANGS) == ["fails", "fails"], "the second one is its teardown's"
