"""What the local scheduler reads from a worker's descriptors."""
from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from cellmesh.scheduler.local_scheduler import worker_pipes
from cellmesh.scheduler.local_scheduler.worker_pipes import OutputPipe, StackPipe, Tail, readable_stack
from cellmesh.scheduler.messages import N_TAIL_LINES


@pytest.fixture
def pipe() -> Iterator[list[int]]:
    """Reading and writing end; a test that closes one takes it out of the list."""
    ends = list(os.pipe())
    yield ends
    for fd in ends:
        os.close(fd)


def test_the_tail_keeps_the_last_lines() -> None:
    tail = Tail()
    tail.add("".join(f"line {i}\n" for i in range(100)) + "unfin")
    tail.add("ished")
    assert tail.lines() == (*(f"line {i}" for i in range(100 - N_TAIL_LINES + 1, 100)), "unfinished")


def test_the_tail_bounds_its_lines() -> None:
    tail = Tail()
    for _ in range(10):
        tail.add("x" * 100_000)
    tail.add("\nshort\n\n")
    assert [len(line) for line in tail.lines()] == [worker_pipes.MAX_LINE_CHARS, 5]


def test_text_arrives_whole_although_bytes_do_not(pipe: list[int]) -> None:
    reader, writer = pipe
    output = OutputPipe(reader, "stdout", None, 0.0)
    assert output.read(0.0) == ""
    os.write(writer, "ü".encode()[:1])
    assert output.read(0.0) == ""
    os.write(writer, "ü".encode()[1:] + b"\xff")
    assert output.read(0.0) == "ü\ufffd"
    os.close(pipe.pop())
    assert output.read(0.0) is None


def test_a_flood_is_read_but_not_shown(pipe: list[int]) -> None:
    reader, writer = pipe
    os.set_blocking(writer, False)
    tail = Tail()
    output = OutputPipe(reader, "stderr", tail, 0.0)
    shown = 0
    for _ in range(200):
        os.write(writer, b"x" * 30_000 + b"\n")
        shown += len(output.read(0.0) or "")
    os.write(writer, b"the end\n")
    assert shown <= worker_pipes.BURST
    assert "dropped" in (output.read(1000.0) or "")
    assert tail.lines()[-1] == "the end"


def test_a_dump_is_over_when_it_has_been_quiet(pipe: list[int]) -> None:
    reader, writer = pipe
    stacks = StackPipe(reader)
    stacks.expect(deadline=5.0)
    os.write(writer, b"Thread 0x1")
    assert stacks.read(1.0) and stacks.deadline == 1.0 + worker_pipes.DUMP_QUIET_S
    os.write(writer, b" (most recent call first):\n")
    assert stacks.read(1.01) and stacks.deadline == 1.01 + worker_pipes.DUMP_QUIET_S
    assert stacks.take() == "Thread 0x1 (most recent call first):\n"
    assert stacks.deadline is None and stacks.take() == ""


HIDDEN = "/app/cellmesh/scheduler"
FLUSHER = (f'Thread 0x01 (most recent call first):\n  File "{threading.__file__}", line 1 in wait\n'
           f'  File "{HIDDEN}/worker/output.py", line 9 in run\n  File "{threading.__file__}", line 2 in _bootstrap\n')
USERS_THREAD = (f'Thread 0x02 (most recent call first):\n  File "/tmp/cell.py", line 7 in background\n'
                f'  File "{threading.__file__}", line 2 in _bootstrap\n')
MAIN = (f'Current thread 0x03 (most recent call first):\n  File "/tmp/cell.py", line 5 in inner\n'
        f'  File "/tmp/cell.py", line 2 in outer\n  File "{HIDDEN}/worker/main.py", line 70 in main\n'
        f'  File "<frozen runpy>", line 88 in _run_code\n')
MAIN_READ = ('Current thread 0x03 (most recent call last):\n  File "/tmp/cell.py", line 2 in outer\n'
             '  File "/tmp/cell.py", line 5 in inner')
IDLE = f'Current thread 0x03 (most recent call first):\n  File "{HIDDEN}/worker/main.py", line 70 in main\n'


def test_a_stack_reads_like_a_traceback_of_the_users_code() -> None:
    read = readable_stack("\n".join([FLUSHER, USERS_THREAD, MAIN]), HIDDEN)
    assert read == (f'Thread 0x02 (most recent call last):\n  File "{threading.__file__}", line 2 in _bootstrap\n'
                    f'  File "/tmp/cell.py", line 7 in background\n\n{MAIN_READ}')


def test_a_worker_without_work_has_no_stack_to_show() -> None:
    assert readable_stack("\n".join([FLUSHER, IDLE]), HIDDEN) == "" == readable_stack("", HIDDEN)


def test_a_crash_says_what_it_was() -> None:
    dump = f"Fatal Python error: Segmentation fault\n\n{MAIN}\nExtension modules: numpy (total: 1)\n"
    assert readable_stack(dump, HIDDEN) == f"Fatal Python error: Segmentation fault\n\n{MAIN_READ}"
