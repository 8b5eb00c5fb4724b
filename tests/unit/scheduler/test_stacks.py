"""Dumps of a worker's stack: when one is complete, and what of it people see."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest
from cellmesh.scheduler.local_scheduler.stacks import DUMP_QUIET_S, StackPipe, readable_stack


@pytest.fixture
def pipe() -> Iterator[list[int]]:
    """Reading and writing end; a test that closes one takes it out of the list."""
    ends = list(os.pipe())
    yield ends
    for fd in ends:
        os.close(fd)


def test_a_dump_is_over_when_it_has_been_quiet(pipe: list[int]) -> None:
    reader, writer = pipe
    stacks = StackPipe(reader)
    stacks.expect(deadline=5.0)
    os.write(writer, b"Thread 0x1")
    assert stacks.read(1.0) and stacks.deadline == 1.0 + DUMP_QUIET_S
    os.write(writer, b" (most recent call first):\n")
    assert stacks.read(1.01) and stacks.deadline == 1.01 + DUMP_QUIET_S
    assert stacks.take() == "Thread 0x1 (most recent call first):\n"
    assert stacks.deadline is None and stacks.take() == ""


HIDDEN = "/app/cellmesh/scheduler"
FLUSHER = (
    f'Thread 0x01 (most recent call first):\n  File "{threading.__file__}", line 1 in wait\n'
    f'  File "{HIDDEN}/worker/output.py", line 9 in run\n  File "{threading.__file__}", line 2 in _bootstrap\n'
)
USERS_THREAD = (
    f'Thread 0x02 (most recent call first):\n  File "/tmp/cell.py", line 7 in background\n'
    f'  File "{threading.__file__}", line 2 in _bootstrap\n'
)
MAIN = (
    f'Current thread 0x03 (most recent call first):\n  File "/tmp/cell.py", line 5 in inner\n'
    f'  File "/tmp/cell.py", line 2 in outer\n  File "{HIDDEN}/worker/main.py", line 70 in main\n'
    f'  File "<frozen runpy>", line 88 in _run_code\n'
)
MAIN_READ = (
    'Current thread 0x03 (most recent call last):\n  File "/tmp/cell.py", line 2 in outer\n'
    '  File "/tmp/cell.py", line 5 in inner'
)
IDLE = f'Current thread 0x03 (most recent call first):\n  File "{HIDDEN}/worker/main.py", line 70 in main\n'


def test_a_stack_reads_like_a_traceback_of_the_users_code() -> None:
    read = readable_stack("\n".join([FLUSHER, USERS_THREAD, MAIN]), HIDDEN)
    assert read == (
        f'Thread 0x02 (most recent call last):\n  File "{threading.__file__}", line 2 in _bootstrap\n'
        f'  File "/tmp/cell.py", line 7 in background\n\n{MAIN_READ}'
    )


def test_a_worker_without_work_has_no_stack_to_show() -> None:
    assert readable_stack("\n".join([FLUSHER, IDLE]), HIDDEN) == "" == readable_stack("", HIDDEN)


def test_a_crash_says_what_it_was() -> None:
    dump = f"Fatal Python error: Segmentation fault\n\n{MAIN}\nExtension modules: numpy (total: 1)\n"
    assert readable_stack(dump, HIDDEN) == f"Fatal Python error: Segmentation fault\n\n{MAIN_READ}"
