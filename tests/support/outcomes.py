"""A record of a run of tests, as it goes: what has begun, failed and ended, a line of JSON each.

`scripts/run_tests.py` reads it to run again what failed, and to name the test in which a run was ended.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


class Record:
    """Writes the record. A test may fail more than once: in its setup, itself, and in its teardown."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w", buffering=1)
        self._seconds = 0.0  # that the test which runs has taken, its fixtures included

    def _write(self, **line: Any) -> None:
        self._file.write(json.dumps(line) + "\n")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._seconds = 0.0
        self._write(began=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds += report.duration
        if report.failed:
            self._write(failed=report.nodeid, why=report.longreprtext)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._write(ended=nodeid, seconds=round(self._seconds, 3))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write(failed=report.nodeid, why=report.longreprtext)

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):  # else what stands behind it did not run
            self._write(complete=True)

    def pytest_unconfigure(self) -> None:
        self._file.close()


def add_option(parser: pytest.Parser) -> None:
    parser.addoption("--record", type=Path, metavar="FILE", help="write what begins, fails and ends, as lines of JSON")


def begin(config: pytest.Config) -> None:
    if path := config.getoption("--record"):
        config.pluginmanager.register(Record(path))
