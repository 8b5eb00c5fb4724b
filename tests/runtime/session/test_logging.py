"""What tasks log reaches the handlers of the driver, as its levels, handlers and filters are."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from support.flags import Flag
from support.waiting import wait_until

import cellmesh
from cellmesh.session.current import current

pytestmark = pytest.mark.timeout(60)

log = logging.getLogger("tests.logged")


class Taken(logging.Handler):
    """Keeps records."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def messages(self) -> list[str]:
        return [record.getMessage() for record in self.records]

    def wait(self, *messages: str) -> None:
        """Until these have come, in this order, and nothing else."""
        wait_until(lambda: len(self.records) >= len(messages))
        assert self.messages() == list(messages)


@pytest.fixture
def taken(cm: ModuleType) -> Iterator[Taken]:
    """What arrives at a handler of the root logger; the logger of this module is at INFO."""
    handler = Taken()
    logging.root.addHandler(handler)
    log.setLevel(logging.INFO)
    yield handler
    logging.root.removeHandler(handler)
    log.setLevel(logging.NOTSET)
    log.propagate = True


def say(*levels: int) -> int:
    for level in levels:
        log.log(level, "%s of %d", logging.getLevelName(level), level)
    return os.getpid()


def test_a_record_arrives_as_it_was_made(cm: ModuleType, taken: Taken) -> None:
    class Local:
        def __reduce__(self) -> object:
            raise TypeError("not for others")

        def __str__(self) -> str:
            return "local"

    @cellmesh.remote
    def fail(n: int) -> int:
        try:
            return n // 0
        except ZeroDivisionError:
            log.exception("divided %s", Local(), extra={"user": "ann", "n": n, "what": Local()}, stack_info=True)
            return os.getpid()

    pid = cm.get(fail.remote(7))
    taken.wait("divided local")
    (record,) = taken.records
    assert (record.name, record.levelno, record.levelname) == ("tests.logged", logging.ERROR, "ERROR")
    assert (record.pathname, record.funcName, record.process) == (__file__, "fail", pid)
    assert [vars(record)[name] for name in ("user", "n", "what")] == ["ann", 7, "local"]
    text = logging.Formatter("%(levelname)s %(lineno)d %(message)s").format(record)
    assert text.startswith(f"ERROR {record.lineno} divided local\nTraceback") and "ZeroDivisionError" in text
    assert text.endswith('extra={"user": "ann", "n": n, "what": Local()}, stack_info=True)')
    own = logging.makeLogRecord({})
    assert record.created <= own.created and -0.01 < own.relativeCreated - record.relativeCreated < 60_000


def test_records_below_the_level_here_are_not_made(cm: ModuleType, taken: Taken) -> None:
    heard: list[object] = []
    current().node.link.add_listener(heard.append)
    cm.get(cm.remote(say).remote(logging.DEBUG, logging.INFO, logging.WARNING))
    taken.wait("INFO of 20", "WARNING of 30")
    assert len([message for message in heard if getattr(message, "stream", "") == "log"]) == 2


def test_a_level_that_is_set_holds_at_once_in_what_runs(
    cm: ModuleType, taken: Taken, flag: Callable[[str], Flag]
) -> None:
    @cellmesh.remote
    class Speaker:
        def say(self, *levels: int) -> int:
            return say(*levels)

    @cellmesh.remote
    def long() -> None:
        say(logging.DEBUG)
        flag("said").set()
        flag("set").wait()
        say(logging.DEBUG)

    speaker = Speaker.remote()
    cm.get(speaker.say.remote(logging.DEBUG))
    running = long.remote()
    flag("said").wait()
    log.setLevel(logging.DEBUG)
    pid = cm.get(speaker.say.remote(logging.DEBUG))
    flag("set").set()
    cm.get(running)
    taken.wait("DEBUG of 10", "DEBUG of 10")
    log.setLevel(logging.ERROR)
    assert cm.get(speaker.say.remote(logging.WARNING, logging.ERROR)) == pid
    taken.wait("DEBUG of 10", "DEBUG of 10", "ERROR of 40")
    logging.disable(logging.ERROR)
    try:
        cm.get(speaker.say.remote(logging.ERROR, logging.CRITICAL))
    finally:
        logging.disable(logging.NOTSET)
    taken.wait("DEBUG of 10", "DEBUG of 10", "ERROR of 40", "CRITICAL of 50")


def test_a_level_that_a_task_sets_stays_when_others_change_here(cm: ModuleType, taken: Taken) -> None:
    @cellmesh.remote
    class Speaker:
        def verbose(self) -> None:
            log.setLevel(logging.DEBUG)

        def say(self) -> int:
            return say(logging.DEBUG)

    speaker = Speaker.remote()
    cm.get(speaker.verbose.remote())
    other = logging.getLogger("tests.other")
    other.setLevel(logging.ERROR)
    try:
        cm.get(speaker.say.remote())
    finally:
        other.setLevel(logging.NOTSET)
    taken.wait("DEBUG of 10")


def test_handlers_and_filters_of_a_logger_here_count(cm: ModuleType, taken: Taken) -> None:
    own = Taken()
    own.setLevel(logging.ERROR)
    log.addHandler(own)
    log.propagate = False

    def not_even(record: logging.LogRecord) -> bool:
        return record.levelno != 35

    log.addFilter(not_even)
    try:
        cm.get(cm.remote(say).remote(logging.WARNING, 35, logging.ERROR, 45))
        own.wait("ERROR of 40", "Level 45 of 45")
    finally:
        log.removeFilter(not_even)
        log.removeHandler(own)
    assert taken.records == []


def test_what_a_handler_of_the_task_prints_comes_once(cm: ModuleType, taken: Taken, capfd, tmp_path: Path) -> None:
    path = tmp_path / "file.log"

    @cellmesh.remote
    class Own:
        def __init__(self) -> None:
            logging.getLogger("lib").addHandler(logging.NullHandler())
            logging.getLogger("lib").addHandler(logging.FileHandler(path))
            logging.getLogger("lib.loud").addHandler(logging.StreamHandler())

        def say(self) -> None:
            logging.getLogger("lib").warning("to the file and the driver")
            logging.getLogger("lib.loud").warning("to the file and stderr")
            logging.basicConfig(level=logging.DEBUG)  # has no effect here either
            logging.getLogger("lib.quiet").debug("by nobody")

    cm.get(Own.remote().say.remote())
    taken.wait("to the file and the driver")
    assert path.read_text() == "to the file and the driver\nto the file and stderr\n"
    shown = ""

    def has_come() -> bool:
        nonlocal shown
        shown += capfd.readouterr().err
        return "to the file and stderr" in shown

    wait_until(has_come)
    assert shown.count("to the file") == 1 and taken.messages() == ["to the file and the driver"]


def test_a_task_that_sets_logging_up_anew_is_left_alone(cm: ModuleType, taken: Taken, capfd) -> None:
    @cellmesh.remote(max_retries=0)
    def own() -> None:
        logging.basicConfig(level=logging.DEBUG, format="own:%(message)s", force=True)
        log.debug("set up in the task")

    log.setLevel(logging.NOTSET)
    cm.get(own.remote())
    shown = ""

    def has_come() -> bool:
        nonlocal shown
        shown += capfd.readouterr().err
        return "set up in the task" in shown

    wait_until(has_come)
    assert "own:set up in the task\n" in shown and shown.count("set up") == 1 and taken.records == []


def test_threads_nested_tasks_and_forked_children_of_tasks(cm: ModuleType, taken: Taken, capfd) -> None:
    @cellmesh.remote
    def outer() -> None:
        thread = threading.Thread(target=log.info, args=("by a thread",))
        thread.start()
        thread.join()
        cellmesh.get(cellmesh.remote(log.info).remote("by a nested task"))
        pid = os.fork()
        if pid == 0:
            log.info("by a child")
            sys.stderr.flush()
            os._exit(0)
        os.waitpid(pid, 0)

    cm.get(outer.remote())
    taken.wait("by a thread", "by a nested task")
    shown = ""

    def has_come() -> bool:
        nonlocal shown
        shown += capfd.readouterr().err
        return "by a child" in shown

    wait_until(has_come)


def test_what_a_handler_here_raises_is_shown_and_ends_nothing(cm: ModuleType, taken: Taken, capfd) -> None:
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise SystemExit(3) if record.levelno == logging.ERROR else OSError("no room")

    broken = Broken()
    log.addHandler(broken)
    try:
        cm.get(cm.remote(say).remote(logging.WARNING, logging.ERROR))
        shown = ""

        def has_come() -> bool:
            nonlocal shown
            shown += capfd.readouterr().err
            return "no room" in shown and "SystemExit: 3" in shown

        wait_until(has_come)
    finally:
        log.removeHandler(broken)
    assert shown.count("a handler or filter of logging has raised") == 2
    cm.get(cm.remote(say).remote(logging.INFO))
    taken.wait("INFO of 20")


def test_arguments_that_do_not_fit_are_told_as_in_any_process(cm: ModuleType, taken: Taken, capfd) -> None:
    cm.get(cm.remote(lambda: log.info("%d", "no number")).remote())
    shown = ""

    def has_come() -> bool:
        nonlocal shown
        shown += capfd.readouterr().err
        return "Logging error" in shown and "no number" in shown

    wait_until(has_come)
    assert taken.records == []


def test_a_flood_is_cut_off_at_the_worker_and_told(cm: ModuleType, taken: Taken, capfd) -> None:
    @cellmesh.remote
    def flood(n: int) -> None:
        for i in range(n):
            log.info("%d %s", i, "x" * 20_000)

    cm.get(flood.remote(200))
    shown = ""

    def has_come() -> bool:
        nonlocal shown
        shown += capfd.readouterr().err
        return "cellmesh dropped" in shown

    wait_until(has_come)
    assert 20 <= len(taken.records) < 150


def test_a_session_that_has_ended_leaves_logging_as_it_was(cm: ModuleType) -> None:
    assert "_clear_cache" in vars(logging.root.manager)
    pid = os.fork()
    if pid == 0:  # a child is no client: what it sets is its own
        code = 1
        try:
            log.setLevel(logging.CRITICAL)
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    cm.shutdown()
    assert "_clear_cache" not in vars(logging.root.manager)


PROGRAM = """
import logging, cellmesh as cm
cm.init(num_cpus=1)
log = logging.getLogger("tests.program")
{setup}

@cm.remote
def say():
    {in_task}
    log.info("info")
    log.warning("warning")

cm.get(say.remote())
"""


@pytest.mark.parametrize(
    ("setup", "in_task", "shown"),
    [
        ("", "pass", ["(say pid=N) warning"]),
        ("log.setLevel(logging.INFO)", "pass", ["(say pid=N) warning"]),
        (
            "",
            "logging.basicConfig(level=20)",
            ["(say pid=N) INFO:tests.program:info", "(say pid=N) WARNING:tests.program:warning"],
        ),
        ("logging.basicConfig(level=20, format='%(message)s!')", "pass", ["info!", "warning!"]),
        ("logging.basicConfig(format='%(message)s!')", "logging.basicConfig(level=20)", ["warning!"]),
    ],
    ids=["not set up", "a level alone", "set up in the task", "set up here", "set up here and in the task"],
)
def test_a_program(setup: str, in_task: str, shown: list[str], tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(setup=setup, in_task=in_task)],
        capture_output=True,
        text=True,
        timeout=50,
        cwd=tmp_path,
        check=True,
    )
    assert re.sub(r"pid=\d+", "pid=N", run.stderr).splitlines() == shown and not run.stdout
