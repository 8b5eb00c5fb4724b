"""The local scheduler's loop: events reach those who waited for them, deadlines those whose they are."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest
from cellmesh.scheduler.local_scheduler.loop import Loop


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


@pytest.fixture
def pipes() -> Iterator[list[tuple[int, int]]]:
    pairs = [os.pipe() for _ in range(2)]
    yield pairs
    for fd in (fd for pair in pairs for fd in pair):
        os.close(fd)


class Alarm:
    """Something to do at a time, once."""

    def __init__(self, deadline: float | None) -> None:
        self.deadline = deadline
        self.passed: list[float] = []

    def pass_deadline(self, now: float) -> None:
        self.passed.append(now)
        self.deadline = None


def test_an_event_is_not_for_who_got_its_number_meanwhile(loop: Loop, pipes: list[tuple[int, int]]) -> None:
    called: list[str] = []

    def replaces_the_other(fd: int) -> None:
        called.append("first")
        (other,) = (pair[0] for pair in pipes if pair[0] != fd)
        loop.forget(other)
        os.close(other)
        os.dup2(fd, other)  # something new has the number now
        loop.watch(other, lambda fd: called.append("new"))

    for reader, writer in pipes:
        os.write(writer, b"x")
        loop.watch(reader, lambda fd: replaces_the_other(fd))
    loop.call_handlers(0)
    assert called == ["first"]


def test_a_handler_that_stays_meanwhile_is_called(loop: Loop, pipes: list[tuple[int, int]]) -> None:
    called: list[int] = []
    reader, writer = pipes[0]
    os.write(writer, b"x")
    loop.watch(reader, called.append)
    loop.call_handlers(0)
    assert called == [reader]
    loop.forget(reader)
    loop.forget(reader)  # again
    loop.call_handlers(0)
    assert called == [reader] and not loop.is_watched(reader)


def test_who_wants_to_write_is_called_when_that_is_possible(loop: Loop, pipes: list[tuple[int, int]]) -> None:
    called: list[int] = []
    _, writer = pipes[0]
    loop.watch(writer, called.append)
    loop.call_handlers(0)
    assert called == []
    loop.want_writing(writer, True)
    loop.call_handlers(0)
    loop.want_writing(writer, False)
    loop.call_handlers(0)
    assert called == [writer]


def test_a_deadline_ends_the_wait_and_is_passed_once(loop: Loop) -> None:
    due, later, never = Alarm(time.monotonic()), Alarm(time.monotonic() + 1000), Alarm(None)
    for alarm in (later, due, never):
        loop.add_timed(alarm)
    loop.run_once()
    assert len(due.passed) == 1 and later.passed == never.passed == []
