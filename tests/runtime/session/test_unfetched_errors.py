"""Errors that nobody fetches, and the ways in which a task can end badly."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from types import ModuleType

import pytest
from cellmesh.scheduler.ipc.messages import WorkerDied
from support.waiting import wait_until

import cellmesh
from cellmesh.session.current import running
from cellmesh.session.unfetched_errors import UnfetchedErrors

pytestmark = [pytest.mark.timeout(60), pytest.mark.session("shared")]


@cellmesh.remote
def fail(text: str):
    raise ValueError(text)


@pytest.fixture
def shown(cm: ModuleType, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture):
    """What has been printed to stderr so far; errors are shown after a moment."""
    monkeypatch.setattr("cellmesh.session.unfetched_errors.PATIENCE_S", 0.3)
    seen: list[str] = []

    def text() -> str:
        seen.append(capfd.readouterr().err)
        return "".join(seen)

    return text


# ---------------------------------------------------------------- nobody asks
def test_an_error_nobody_fetches_is_shown_once(cm: ModuleType, shown) -> None:
    kept = [fail.remote("alone") for _ in range(3)]
    wait_until(lambda: "nobody has asked" in shown())
    assert "the task 'fail' has failed" in shown() and "ValueError: alone" in shown()
    kept.append(fail.remote("again"))
    wait_until(lambda: "ValueError: again" in shown())
    assert shown().count("ValueError: alone") <= 2  # two workers, and the same error in each is one error


def test_what_is_fetched_is_not_shown(cm: ModuleType, shown) -> None:
    @cm.remote
    def fetch_inside(refs):
        try:  # pytest.raises would import pytest there, for longer than the patience
            cm.get(refs[0])
        except ValueError:
            return True

    @cm.remote
    def use(value):
        return value

    inherited = use.remote(fail.remote("inherited"))
    for ref in (fail.remote("fetched"), inherited):
        with pytest.raises(ValueError):
            cm.get(ref)
    assert cm.get(fetch_inside.remote([fail.remote("inside")]))
    fail.remote("sentinel")
    wait_until(lambda: "ValueError: sentinel" in shown())
    assert not [word for word in ("fetched\n", "inherited", "inside") if f"ValueError: {word}" in shown()]


def test_the_news_of_a_death_does_not_replace_the_error_that_was_fetched_before_it(cm: ModuleType) -> None:
    """It comes by another way, and sometimes later."""
    ref = cm.remote(max_retries=0)(lambda: os._exit(3)).remote()
    with pytest.raises(cm.exceptions.WorkerCrashedError):
        cm.get(ref)
    session, other = running(), ref.creator + 1_000_000
    session.hear(WorkerDied(pid=1, index=-1, code=3, task=ref.creator))
    assert session.errors.of(ref.creator)[0].startswith("WorkerCrashedError: ")
    for code in (3, -9):
        session.hear(WorkerDied(pid=1, index=-1, code=code, task=other))
    assert session.errors.of(other)[0] == "its process was killed by SIGKILL", "of two attempts the last counts"


def test_many_errors_are_few_lines(cm: ModuleType, shown) -> None:
    cm.wait([fail.remote(f"number {i}") for i in range(150)], num_returns=150)
    wait_until(lambda: "more errors that nobody has asked for" in shown())
    assert shown().count("nobody has asked for its value") <= 15


@pytest.mark.session("own")
def test_error_info_lists_them(cm: ModuleType) -> None:
    cm.wait([fail.remote("listed")])
    (row,) = wait_until(cm.error_info)
    assert row["name"] == "fail" and row["type"] == "failed" and row["pid"] > 0
    assert "listed" in wait_until(lambda: cm.error_info()[0]["message"])


def test_a_thread_waits_only_while_an_error_does() -> None:
    errors = UnfetchedErrors(lambda text: None)

    def is_waiting() -> bool:
        return any(thread.name == "cellmesh-unfetched" for thread in threading.enumerate())

    for key in range(2):
        errors.failed(key, "fail", "ValueError")
        assert is_waiting()
        errors.fetched(key)
        wait_until(lambda: not is_waiting())
    errors.failed(3, "fail", "ValueError")
    errors.close()
    assert not is_waiting()


# ---------------------------------------------------------------- how tasks end
def say_and(end):
    def task():
        os.write(2, b"last words\n")
        end()

    return task


@pytest.mark.parametrize(
    "end, words",
    [
        (lambda: os._exit(3), "exit status 3"),
        (os.abort, "SIGABRT"),
        (lambda: ctypes.string_at(0), "SIGSEGV"),
        (lambda: os.kill(os.getpid(), signal.SIGTERM), "SIGTERM"),
    ],
    ids=["exit", "abort", "segfault", "terminated"],
)
def test_a_worker_that_dies_leaves_its_last_words(cm: ModuleType, end, words: str) -> None:
    with pytest.raises(cm.exceptions.WorkerCrashedError, match=words) as raised:
        cm.get(cm.remote(max_retries=0)(say_and(end)).remote(), timeout=30)
    assert "last words" in "".join(raised.value.__notes__)


def test_a_recursion_without_end(cm: ModuleType) -> None:
    def recurse(n):
        return recurse(n + 1)

    with pytest.raises(RecursionError):
        cm.get(cm.remote(recurse).remote(0), timeout=30)


def test_exception_groups_work_with_except_star(cm: ModuleType) -> None:
    @cm.remote
    def group():
        raise ExceptionGroup("several", [ValueError("a"), KeyError("b")])

    caught = []
    try:
        cm.get(group.remote())
    except* ValueError as part:
        caught += part.exceptions
    except* KeyError as part:
        caught += part.exceptions
    assert [type(error) for error in caught] == [ValueError, KeyError]
