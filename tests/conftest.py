"""Leak checks for every test, and the folder in which sessions and clusters of this run live.

A test must leave nothing: no process, no thread, no descriptor, no mapped segment, no session folder. What fixtures of
wider scope hold was there before the test began and is theirs; at the end of the run nothing at all may be left.
A test that cannot help it says so: `@pytest.mark.may_keep("threads", "zmq keeps its I/O thread")`.
"""

from __future__ import annotations

import gc
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from typing import TypeVar

import cloudpickle
import pytest
from cellmesh.scheduler.node import launch
from cellmesh.scheduler.node.handle import WorkerModules
from support import outcomes
from support.capture import keep_all
from support.commands import forked
from support.shared import anew
from support.waiting import MARKER, Holdings, after_garbage, processes, wait_until

from cellmesh.startup import worker_modules

IN_CI = os.environ.get("CI", "").lower() in ("1", "true", "yes")
NOT_INSTALLED = re.compile(
    "could not import|apt-get install|pip install|npm ci"
)  # what a skip says that should be none: `make test` installs it
R = TypeVar("R", pytest.TestReport, pytest.CollectReport)
SETTLE_S = 5.0  # what has been told to end may take this long to be gone


def pytest_addoption(parser: pytest.Parser) -> None:
    outcomes.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    outcomes.begin(config)
    config.pluginmanager.register(anew.Anew())
    # A shell's `make test &` ignores SIGINT, and so would every program that a test starts and then interrupts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Sessions of this run get folders of their own. Short, because a unix socket's path ends at 107 bytes.
    scratch = tempfile.mkdtemp(prefix="cm-", dir="/tmp")
    os.chmod(scratch, 0o700)
    os.environ["XDG_RUNTIME_DIR"] = os.environ["TMPDIR"] = os.environ["XDG_STATE_HOME"] = scratch
    tempfile.tempdir = None
    os.environ[MARKER] = f"{os.getpid()}-{os.urandom(4).hex()}"
    config.add_cleanup(lambda: shutil.rmtree(scratch, ignore_errors=True))


def pytest_itemcollected(item: pytest.Item) -> None:
    if " at 0x" in item.nodeid:
        raise pytest.UsageError(f"{item.nodeid} has another name in each run, so it could not be run again by itself")


def pytest_collection_finish() -> None:
    # Thousands of tests and all that they import stay until the run ends. A collection of garbage that looks through
    # them takes a quarter of a second, and many a test causes several; what is frozen is not looked at.
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.freeze()  # likewise: every IPython shell that a test has made collects garbage when the interpreter ends


def _judged(report: R) -> R:
    """In CI what is not installed is a failure: nobody reads what was skipped there."""
    if IN_CI and report.skipped and isinstance(report.longrepr, tuple) and NOT_INSTALLED.search(report.longrepr[2]):
        report.outcome = "failed"
        report.longrepr = f"{report.longrepr[2]} (CI=true: this is a failure)"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return _judged((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _judged((yield))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Function) -> None:
    """Let go of what fixtures have given the test: the last one's would keep its session when that is looked for."""
    item.funcargs.clear()


def _settled(before: Holdings, kept: set[str]) -> dict[str, list[str]]:
    """What is left once SETTLE_S have passed or nothing is, without the kinds in `kept`."""

    def remaining() -> dict[str, list[str]]:
        return {kind: what for kind, what in Holdings.now().left_since(before).items() if kind not in kept}

    try:
        wait_until(after_garbage(lambda: not remaining()), SETTLE_S)
    except AssertionError:
        return remaining()
    return {}


def _clean_up(before: Holdings) -> None:
    """End what a failing test left, so that the tests after it are judged on their own."""
    cellmesh = sys.modules.get("cellmesh")
    if cellmesh is not None and cellmesh.is_initialized():
        cellmesh.shutdown()
    for process in processes() - before.processes:
        try:
            os.kill(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _check(before: Holdings, kept: set[str]) -> None:
    left = _settled(before, kept)
    if left:
        if "processes" in left:
            _clean_up(before)
        pytest.fail(
            "left behind: " + "; ".join(f"{kind}: {', '.join(what)}" for kind, what in left.items()), pytrace=False
        )


@pytest.fixture
def capfd(capfd: pytest.CaptureFixture[str]) -> pytest.CaptureFixture[str]:
    """That, which loses nothing."""
    keep_all(capfd)
    return capfd


@pytest.fixture
def code_travels(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a test module defines is sent by value, as from a notebook: workers cannot import test modules."""
    module = sys.modules[request.module.__name__]
    cloudpickle.register_pickle_by_value(module)
    yield
    cloudpickle.unregister_pickle_by_value(module)


@pytest.fixture(scope="session", autouse=True)
def _nothing_left_by_the_run() -> Iterator[None]:
    before = Holdings.now()
    yield
    # Libraries may keep threads and descriptors for the life of a process; processes and files are never excused.
    _check(before, {"threads", "descriptors"})


@pytest.fixture(scope="session", autouse=True)
def _forks(_nothing_left_by_the_run: None) -> Iterator[None]:
    """Who forks the sessions of tests, and the commands that they give on machines."""
    with forked.served():
        yield


@pytest.fixture(autouse=True)
def _own_interpreter(request: pytest.FixtureRequest) -> Iterator[None]:
    """Sessions of a test that says so begin as users' do."""
    assert forked.server is not None
    forked.server.revive()
    if request.node.get_closest_marker("own_interpreter") is None:
        yield
        return
    launch.begin = forked.begin_as_users_do
    yield
    launch.begin = forked.begin


@pytest.fixture(autouse=True)
def _not_as_ray(request: pytest.FixtureRequest) -> Iterator[None]:
    """What importing `compat.ray` changes in this process, for the tests of that, is undone for all others."""
    if "cellmesh.compat.ray" not in sys.modules or request.path.parent.name == "compat":
        yield
        return
    from cellmesh.objstore._core import refs_are_plain

    from cellmesh import front_end

    before = refs_are_plain(False), front_end.dialect, front_end.current
    front_end.dialect = front_end.Dialect()
    if type(front_end.current).__module__.startswith("cellmesh.compat"):
        front_end.current = front_end.Program()
    yield
    refs_are_plain(before[0])
    _, front_end.dialect, front_end.current = before


@pytest.fixture(scope="session", autouse=True)
def modules_of_programs() -> Iterator[Callable[[], WorkerModules]]:
    """What sessions have their workers import by what the program has. Ours has imported all that its tests need: each
    session would import pyarrow and a search's modules for its workers, which takes more than most tests do.
    """
    whole = worker_modules.worker_modules
    worker_modules.worker_modules = lambda: worker_modules.WORKER_MODULES
    yield whole
    worker_modules.worker_modules = whole


@pytest.fixture
def add_begun_by_others() -> Callable[[Holdings], None]:
    """Adds what has begun in the test and is that of a session that others share, as a conftest.py below says."""
    return lambda holdings: None


@pytest.fixture(autouse=True)
def _nothing_left_by_the_test(
    request: pytest.FixtureRequest,
    _nothing_left_by_the_run: None,
    _own_interpreter: None,
    add_begun_by_others: Callable[[Holdings], None],
) -> Iterator[None]:
    before = Holdings.now()
    yield
    add_begun_by_others(before)
    _check(before, {mark.args[0] for mark in request.node.iter_markers("may_keep")})
