"""What the local scheduler reads from a worker's descriptors."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from cellmesh.scheduler.ipc.messages import N_TAIL_LINES
from cellmesh.scheduler.local_scheduler import worker_pipes
from cellmesh.scheduler.local_scheduler.worker_pipes import OutputPipe, Tail


@pytest.fixture
def pipe() -> Iterator[list[int]]:
    """Reading and writing end; a test that closes one takes it out of the list."""
    ends = list(os.pipe())
    yield ends
    for fd in ends:
        os.close(fd)


def test_the_tail_keeps_the_last_lines() -> None:
    tail = Tail()
    tail.add("stdout", "".join(f"line {i}\n" for i in range(100)) + "unfin")
    tail.add("stdout", "ished")
    assert tail.lines() == (*(f"line {i}" for i in range(100 - N_TAIL_LINES + 1, 100)), "unfinished")


def test_the_tail_bounds_its_lines() -> None:
    tail = Tail()
    for _ in range(10):
        tail.add("stderr", "x" * 100_000)
    tail.add("stderr", "\nshort\n\n")
    assert [len(line) for line in tail.lines()] == [worker_pipes.MAX_LINE_CHARS, 5]


def test_the_tail_of_a_task_has_no_lines_of_others() -> None:
    tail = Tail()
    tail.add("stderr", "one\n", task=1)
    tail.add("stderr", "by nobody\n")
    tail.add("stderr", "two\ntwo, unfinished", task=2)
    assert tail.lines(2) == ("by nobody", "two", "two, unfinished") and tail.lines(3) == ("by nobody",)
    assert tail.lines() == ("one", "by nobody", "two", "two, unfinished")


def test_the_tail_has_the_lines_of_both_streams_in_order() -> None:
    tail = Tail()
    tail.add("stdout", "one\ntw")
    tail.add("stderr", "three\n")
    tail.add("stdout", "o\nfour")
    assert tail.lines() == ("one", "three", "two", "four")


def test_a_flood_on_stdout_leaves_the_errors_in_the_tail() -> None:
    tail = Tail()
    tail.add("stderr", "what went wrong\n")
    tail.add("stdout", "".join(f"{i}\n" for i in range(1000)))
    assert tail.lines() == ("what went wrong", *(str(i) for i in range(1000 - N_TAIL_LINES + 1, 1000)))


def test_text_arrives_whole_although_bytes_do_not(pipe: list[int]) -> None:
    reader, writer = pipe
    output = OutputPipe(reader, "stdout", Tail(), 0.0)
    assert output.read() == ""
    os.write(writer, "ü".encode()[:1])
    assert output.read() == ""
    os.write(writer, "ü".encode()[1:] + b"\xff")
    assert output.read() == "ü\ufffd"
    os.close(pipe.pop())
    assert output.read() is None


def test_a_flood_is_read_but_not_shown(pipe: list[int]) -> None:
    reader, writer = pipe
    os.set_blocking(writer, False)
    tail = Tail()
    output = OutputPipe(reader, "stderr", tail, 0.0)
    shown = 0
    for _ in range(200):
        os.write(writer, b"x" * 30_000 + b"\n")
        shown += len(output.admit(output.read() or "", 0.0))
    os.write(writer, b"the end\n")
    assert shown <= worker_pipes.BURST
    assert "dropped" in output.admit(output.read() or "", 1000.0)
    assert tail.lines()[-1] == "the end"
