"""scripts/run_tests.py: what failed is run again by itself, what hangs is ended, and the last lines say what it was."""

from __future__ import annotations

import importlib
import os
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.repository import files

ROOT = Path(__file__).resolve().parents[2]
TESTS = """
import pathlib, signal, time, pytest

HERE = pathlib.Path(__file__).parent

def test_passes(): pass
def test_fails(): assert 1 == 2, "never"
def test_fails_once():
    before = HERE / "before"
    if not before.exists():
        before.touch()
        assert 1 == 3, "the first time"
def test_hangs():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    (HERE / "hangs").touch()
    while True:
        time.sleep(60)
def test_gives_up(): pytest.exit("enough", returncode=2)
def test_after(): pass
"""
CONFTEST = """
from support import outcomes

pytest_addoption = outcomes.add_option
pytest_configure = outcomes.begin
"""


@pytest.fixture(scope="module")
def runner() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts"))
        names = ("run_tests", "testing.kinds", "testing.running", "testing.summary", "testing.unchanged")
        loaded = {name.split(".")[-1]: importlib.import_module(name) for name in names}
    return SimpleNamespace(**loaded)


@pytest.fixture
def kind(tmp_path: Path, runner: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a kind of some of TESTS; its records and the list of flaky tests lie in the test's own folder."""
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    monkeypatch.setattr(runner.running, "ROOT", tmp_path)
    monkeypatch.setattr(runner.run_tests, "FLAKY", tmp_path / "build/flaky.txt")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "tests"), *filter(None, sys.path)]))
    pytest_here = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir=."]

    def make(*names: str, limit_s: int = 100) -> Any:
        what = [f"test_it.py::{name}" for name in names]
        return runner.kinds.Kind(
            "some", [*pytest_here, *what], limit_s, recorded=True, one=lambda test: [*pytest_here, test]
        )

    return make


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_all_passes(runner: Any, kind: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert runner.run_tests.run_all([kind("test_passes", "test_after")], again=True) == 0
    assert lines_of(capsys)[-2:] == ["0 flaky", "2 passed, 0 failed, 0 skipped"]


def test_what_passes_alone_is_flaky_and_the_run_is_green(
    runner: Any, kind: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert runner.run_tests.run_all([kind("test_passes", "test_fails_once")], again=True) == 0
    lines = lines_of(capsys)
    assert lines[-2:] == ["1 flaky", "2 passed, 0 failed, 0 skipped"]
    log = lines[lines.index("FLAKY    some: test_it.py::test_fails_once") :]
    assert any(line.endswith("AssertionError: the first time") for line in log)
    assert "AssertionError: the first time" in (tmp_path / "build/flaky.txt").read_text()


def test_what_fails_again_is_red_and_named_at_the_end(
    runner: Any, kind: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert runner.run_tests.run_all([kind("test_fails", "test_fails_once", "test_passes")], again=True) == 1
    lines = lines_of(capsys)
    assert lines[-2:] == ["1 flaky", "2 passed, 1 failed, 0 skipped"]
    end = lines[lines.index(f"{'=' * 24} what failed {'=' * 24}") :]
    assert end[1] == "FAILED   some: test_it.py::test_fails" and "AssertionError: never" in end[2]
    assert sum("again, by itself" in line for line in lines) == 3  # twice and once


def test_a_test_that_hangs_is_ended_with_its_stack(
    runner: Any, kind: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hangs as deeply as can be: it hears no alarm. The limit comes as soon as it has begun."""

    class Limit:
        def __init__(self, limit_s: float, end: Any, arguments: Any) -> None:
            self._thread = runner.running.threading.Thread(target=self._wait, args=(end, arguments))

        def start(self) -> None:
            self._thread.start()

        def cancel(self) -> None:
            self._thread.join()

        def _wait(self, end: Any, arguments: Any) -> None:
            from support.waiting import wait_until

            wait_until((tmp_path / "hangs").exists, 60)
            end(*arguments)

    threading = SimpleNamespace(**{**vars(runner.running.threading), "Timer": Limit})
    monkeypatch.setattr(runner.running, "threading", threading)
    assert runner.run_tests.run_all([kind("test_passes", "test_hangs", "test_after")], again=True) == 1
    text = capsys.readouterr().out
    assert "Current thread" in text and "in test_hangs" in text
    assert "the run ended in test_it.py::test_hangs" in text[text.index("what failed") :]
    assert "again, by itself" not in text  # nobody knows of what stands behind it
    assert "(ended after its limit of 100 s)" in text


def test_a_run_that_stops_halfway_is_red_although_what_failed_passes_alone(
    runner: Any, kind: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    some = kind("test_fails_once", "test_gives_up", "test_after")
    assert runner.run_tests.run_all([some], again=True) == 1
    assert "FLAKY    some: test_it.py::test_fails_once" in (lines := lines_of(capsys))
    assert "FAILED   some: as a whole" in lines and lines[-2:] == ["1 flaky", "1 passed, 1 failed, 0 skipped"]


def test_what_needs_nothing_runs_while_the_rest_is_installed(
    runner: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Each waits for the other: a pipe is opened when both of its ends are."""
    os.mkfifo(tmp_path / "pipe")
    bare = runner.kinds.Kind("bare", ["cat", str(tmp_path / "pipe")], 60, bare=True)
    (outcome,) = runner.run_tests.while_installing(f"sh -c 'echo installed > {tmp_path}/pipe'", [bare])
    assert (outcome.kind.name, outcome.status) == ("bare", "ok") and "installed" in lines_of(capsys)
    other = runner.kinds.Kind("other", ["true"], 60)
    assert runner.run_tests.run_all([other], before=[outcome]) == 0
    assert [line.split()[1] for line in lines_of(capsys) if line.startswith("ok ")] == ["bare", "other"]


def test_what_runs_meanwhile_ends_with_an_installation_that_fails_whose_reason_comes_last(
    runner: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        bare = runner.kinds.Kind("bare", ["sh", "-c", "echo begun; sleep 600"], 700, bare=True)
        runner.run_tests.while_installing("sh -c 'seq 100; echo not there >&2; exit 3'", [bare])
    lines = lines_of(capsys)
    assert ended.value.code == 3 and lines[-1] == "not there"
    assert "not installed" in lines[-41]


def test_what_is_missing_is_said_before_anything_begins(runner: Any, capsys: pytest.CaptureFixture[str]) -> None:
    begun: list[str] = []
    first = runner.kinds.Kind("first", ["true"], 10, lambda: begun.append("looked") or None)
    second = runner.kinds.Kind("second", ["true"], 10, lambda: "no such program; install it")
    assert runner.run_tests.missing([first, second]) == {"second": "no such program; install it"}
    assert begun == ["looked"]
    outcome = runner.running.Outcome(second, "NOT RUN", 0, note="no such program; install it")
    assert not runner.summary.is_green([outcome], in_ci=True) and runner.summary.is_green([outcome], in_ci=False)
    assert "THE SECOND TESTS WERE NOT RUN: no such program" in runner.summary.what_failed([outcome], in_ci=True)


def test_another_python_is_found_by_its_name_or_its_variable(
    runner: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def program(name: str, says: str) -> str:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\necho {says}\n")
        path.chmod(0o700)
        return str(path)

    missing = runner.kinds.check_python.missing
    monkeypatch.setenv("PATH", str(tmp_path))
    assert missing("3.99") == ("no Python 3.99: have python3.99 on PATH, or CELLMESH_PYTHON_3_99 name the program")
    program("python3.99", "3.11")
    assert missing("3.99")
    monkeypatch.setenv("CELLMESH_PYTHON_3_99", program("another", "3.99"))
    assert not missing("3.99")
    monkeypatch.delenv("CELLMESH_PYTHON_3_99")
    program("python3.99", "3.99")
    assert not missing("3.99")
    for version in runner.kinds.OTHER_PYTHONS:  # pins are what such a run installs
        assert (ROOT / f"scripts/pins/{version}.txt").exists()


def test_a_check_that_passed_runs_again_when_what_it_reads_has_changed(
    runner: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in (runner.unchanged, runner.running):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(runner.run_tests, "FLAKY", tmp_path / "flaky.txt")
    monkeypatch.setattr(runner.unchanged, "PASSED", tmp_path / "build/passed")
    read = tmp_path / "read"
    command = ["sh", "-c", "echo run >> runs && grep -q right read"]
    kind = runner.kinds.Kind("some check", command, 10, inputs=lambda: tmp_path.glob("read*"))

    def runs() -> int:
        return len((tmp_path / "runs").read_text().splitlines())

    def is_green(kind: Any) -> bool:
        return runner.run_tests.run_all([kind]) == 0

    read.write_text("wrong")
    assert not is_green(kind) and not is_green(kind) and runs() == 2  # what failed is never taken as seen
    read.write_text("right")
    assert is_green(kind) and runs() == 3 and is_green(kind) and runs() == 3
    assert "ok       some check" in (out := capsys.readouterr().out) and "(passed before, with the same files)" in out
    read.write_text("wrong")
    assert not is_green(kind) and runs() == 4
    read.write_text("right")
    (tmp_path / "read too").touch()
    assert is_green(kind) and runs() == 5  # another file
    assert is_green(replace(kind, command=[*command, "-v"])) and runs() == 6
    monkeypatch.setattr(runner.unchanged, "environment", lambda: "another release of a tool")
    assert is_green(kind) and runs() == 7


def test_what_checks_read_is_all_that_they_read(runner: Any) -> None:
    kinds = [kind for kind in (*runner.kinds.LINT, *runner.kinds.KINDS) if kind.inputs]
    read = {kind.name: {str(path.relative_to(ROOT)) for path in kind.inputs()} for kind in kinds}
    assert set(read) == {"types", "public types", "analyzer of C", "front end"}
    package = {
        name for name in files("cellmesh", "kernel_ext", "objstore", "scheduler") if name.endswith((".py", ".pyi"))
    }
    assert package | {"cellmesh/py.typed", "scripts/typings/pyarrow/ipc.pyi", "pyproject.toml"} <= read["types"]
    core = {name for name in files("objstore/core") if name.endswith((".c", ".h"))}
    assert core | {"objstore/core/Makefile", "objstore/core/build.mk"} == read["analyzer of C"]
    assert {*files("labextension"), "package.json", "package-lock.json"} <= read["front end"]
    assert not [name for names in read.values() for name in names if name.startswith("labextension/built")]


def test_programs_in_c_are_named_with_what_they_printed(runner: Any) -> None:
    output = (
        "ok      arena_test                       12 ms\nFAILED  crash_test                   status 1\n"
        "crash_test.c:3: no\nmake[1]: *** [run-crash_test] Error 1\ncore tests (plain): failed: crash_test fuzz_test\n"
    )
    first, second = runner.running.failed_programs(output)
    assert (first.name, second.name) == ("crash_test", "fuzz_test")
    assert first.why.endswith("crash_test.c:3: no\n")
    (kind,) = [kind for kind in runner.kinds.KINDS if kind.name == "c under sanitizers"]
    assert kind.one("crash_test")[-1] == "TESTS=crash_test" and "SAN=address,undefined" in kind.one("crash_test")


def test_a_long_list_of_failures_fits_on_a_screen(runner: Any) -> None:
    failures = [runner.running.Failure(f"test_{n}", "E   one\nE   two\n" * 50) for n in range(100)]
    outcome = runner.running.Outcome(runner.kinds.KINDS[0], "FAILED", 1, failed=100, failures=failures)
    lines = runner.summary.what_failed([outcome], in_ci=False).strip().splitlines()
    assert len(lines) <= runner.summary.MOST_LINES and lines[-1] == "... and 71 more, named above"


def test_every_test_belongs_to_a_kind(runner: Any) -> None:
    commands = [kind.command for kind in (*runner.kinds.LINT, *runner.kinds.KINDS)]
    named = {word for command in commands for word in command if word.startswith("tests/")}
    left_out = {word.partition("=")[2] for command in commands for word in command if word.startswith("--ignore=")}
    assert left_out <= named  # what one kind leaves out is another's
    lost = [name for name in files("tests") if Path(name).name.startswith("test_") and name.endswith(".py")]
    lost = [name for name in lost if not any(name == each or name.startswith(f"{each}/") for each in named)]
    assert not lost


def test_a_budget_stands_beside_what_a_kind_took(runner: Any) -> None:
    kind = runner.kinds.Kind("some", ["true"], 10, budget_s=120)
    table = runner.summary.table([runner.running.Outcome(kind, "ok", 34.4, passed=5)], 60)
    assert table.splitlines()[-1].split() == ["ok", "some", "34", "s", "of", "120", "5", "passed"]
