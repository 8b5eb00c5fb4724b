"""A stray write into the shared segment, by any attached process: a fact is not shown, or an error says what has
happened.
"""

from __future__ import annotations

import asyncio
import json
import mmap
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from cellmesh.scheduler.ipc.messages import Message, NodeEvent
from cellmesh.scheduler.node import session_dir
from support.flags import Flag
from support.waiting import wait_until

import cellmesh
from cellmesh.exceptions import SessionLostError, StoreCorruptedError
from cellmesh.session.current import running

pytestmark = pytest.mark.timeout(90)

# Offsets in objstore/core/layout.h.
HEADER_SIGNATURE, HEADER_CLIENTS, HEADER_OBJECTS, HEADER_TASKS, HEADER_LOCK = 12, 56, 72, 80, 128
HEADER_TABLES = {"classes": 48, "clients": 56, "actors": 64, "objects": 72, "tasks": 80, "events": 88, "readers": 96}
HEADER_N_LIVE_OBJECTS, HEADER_N_LIVE_TASKS = 244, 248
CLIENT_ACTOR_1, CLIENT_TASK_1, CLIENT_SIZE = 88, 96, 128
OBJECT_OFFSET, OBJECT_INLINE, OBJECT_N_REFS, OBJECT_SIZE = 16, 96, 96, 128
TASK_FUNCTION, TASK_RESOURCE_CLASS, TASK_N_REFS, TASK_SIZE = 16, 24, 32, 128
STRAY = 0xFFFFFFF0


class Segment:
    """The words of the running session's segment."""

    def __init__(self) -> None:
        self._fd = running().node.fd
        (self._clients,) = struct.unpack("<Q", self._word(HEADER_CLIENTS, 8))
        (self._objects,) = struct.unpack("<Q", self._word(HEADER_OBJECTS, 8))
        (self._tasks,) = struct.unpack("<Q", self._word(HEADER_TASKS, 8))

    def _word(self, offset: int, size: int, new: bytes | None = None) -> bytes:
        with mmap.mmap(self._fd, os.fstat(self._fd).st_size) as memory:
            if new is not None:
                memory[offset : offset + size] = new
            return memory[offset : offset + size]

    def write(self, offset: int, value: int) -> None:
        self._word(offset, 4, struct.pack("<I", value))

    def zero_page(self, table: str | None) -> None:
        """The first page of a table, or of the header."""
        (begin,) = struct.unpack("<Q", self._word(HEADER_TABLES[table], 8)) if table else (0,)
        self._word(begin // mmap.PAGESIZE * mmap.PAGESIZE, mmap.PAGESIZE, bytes(mmap.PAGESIZE))

    def write_client(self, index: int, field: int, value: int) -> None:
        self.write(self._clients + CLIENT_SIZE * index + field, value)

    def write_object(self, ref: Any, field: int, value: int) -> None:
        self.write(self._objects + OBJECT_SIZE * ref._slot + field, value)

    def write_task_of(self, index: int, field: int, value: int) -> None:
        """In the slot of the task that client `index` runs."""
        (task_1,) = struct.unpack("<I", self._word(self._clients + CLIENT_SIZE * index + CLIENT_TASK_1, 4))
        self.write(self._tasks + TASK_SIZE * (task_1 - 1) + field, value)


@cellmesh.remote
def identity(x: int) -> int:
    return x


@pytest.mark.parametrize("field", [CLIENT_TASK_1, CLIENT_ACTOR_1])
def test_a_driver_s_slot_that_leads_nowhere_ends_nobody(cm: ModuleType, field: int) -> None:
    me = running().client.index
    Segment().write_client(me, field, STRAY)
    refs = [identity.remote(i) for i in range(100)]  # the scheduler has to look at all clients
    assert cm.get(refs, timeout=60) == list(range(100))
    row = next(row for row in running().client.clients() if row["index"] == me)
    assert row["task"] == 0 and row["actor"] == -1
    assert len(running().client.check()) == 1, "and it is known that something is amiss"


def test_a_stray_word_in_the_header_ends_the_session_at_the_next_demand(cm: ModuleType) -> None:
    heard: list[Message] = []
    running().node.link.add_listener(heard.append)
    assert cm.get(identity.remote(1)) == 1
    Segment().write(HEADER_SIGNATURE, STRAY)
    with pytest.raises(StoreCorruptedError, match="has overwritten"):
        wait_until(lambda: cm.get([identity.remote(i) for i in range(10)]) is None, 20)
    wait_until(
        lambda: [
            event
            for event in heard
            if isinstance(event, NodeEvent) and event.kind == "session_ends" and "has overwritten" in event.text
        ],
        20,
        "the scheduler says why it ends",
    )


@pytest.mark.parametrize("field", [OBJECT_OFFSET, OBJECT_N_REFS])
def test_a_driver_that_drops_a_value_which_leads_nowhere_is_told(cm: ModuleType, field: int) -> None:
    ref = cm.put([cm.put("x" * 1000)])
    Segment().write_object(ref, field, STRAY)
    del ref
    with pytest.raises(StoreCorruptedError, match="has overwritten"):
        wait_until(lambda: cm.get([identity.remote(i) for i in range(100)]) is None, 20)


def test_a_lock_in_nobody_s_name_ends_the_session(cm: ModuleType) -> None:
    assert cm.get(identity.remote(1)) == 1
    segment = Segment()

    def puts() -> bool:
        segment.write(HEADER_LOCK, STRAY)  # each time, as whoever held the lock overwrites it with a free one
        return cm.put(1) is None

    with pytest.raises(StoreCorruptedError, match="has overwritten"):
        wait_until(puts, 20)


def test_a_damaged_value_is_an_error_of_its_own(cm: ModuleType) -> None:
    ref = cm.put(5)
    Segment().write_object(ref, OBJECT_INLINE, STRAY)
    with pytest.raises(StoreCorruptedError, match="has overwritten an object's bytes"):
        cm.get(ref)
    assert cm.get(identity.remote(6), timeout=60) == 6


@cellmesh.remote
class Echo:
    def say(self, x: int) -> int:
        return x


async def awaited(ref: Any) -> Any:
    return await ref


def right_or_told(look: Callable[[], Any], right: Any) -> bool:
    """Whether the session has ended. A damaged value is an error of its own, after which the session may go on."""
    try:
        assert look() == right
    except (StoreCorruptedError, SessionLostError) as error:
        assert "has overwritten" in str(error)
        return isinstance(error, SessionLostError) or "session has ended" in str(error)
    return False


@pytest.mark.parametrize("table", [None, *HEADER_TABLES])
def test_whatever_page_is_zeroed_values_are_right_or_it_is_told_soon(cm: ModuleType, table: str | None) -> None:
    echo = Echo.remote()
    ref = cm.put("x" * 1000)
    assert cm.get([echo.say.remote(1), identity.remote(2)]) == [1, 2]
    Segment().zero_page(table)
    looks: list[tuple[Callable[[], Any], Any]] = [
        (lambda: cm.get(identity.remote(3), timeout=10), 3),
        (lambda: cm.get(echo.say.remote(4), timeout=10), 4),
        (lambda: cm.get(ref, timeout=10), "x" * 1000),
        (lambda: cm.get([identity.remote(i) for i in range(20)], timeout=10), [*range(20)]),
        (lambda: cm.get(Echo.remote().say.remote(5), timeout=10), 5),
    ]
    ended = [right_or_told(*look) for look in looks]
    assert ended == sorted(ended), "a session that has ended gives no more values"


@pytest.mark.parametrize("wait", ["get", "wait", "await"])
def test_who_waits_is_told_that_the_table_of_clients_is_zeroed(
    cm: ModuleType, flag: Callable[[str], Flag], wait: str
) -> None:
    go = flag("go")

    @cm.remote
    def until(go: Flag) -> None:
        go.wait()

    ref = until.remote(go)
    wait_until(lambda: len(cm.state.list_tasks(filters=[("state", "=", "running")])) == 1, 10)
    Segment().zero_page("clients")
    waits = {
        "get": lambda: cm.get(ref),
        "wait": lambda: cm.wait([ref]),
        "await": lambda: asyncio.run(awaited(ref)),
    }
    with pytest.raises((StoreCorruptedError, SessionLostError), match="has overwritten"):
        waits[wait]()
    go.set()


def test_a_driver_lives_whatever_is_overwritten() -> None:
    program = Path(__file__).with_name("stray_writes.py")
    done = subprocess.run([sys.executable, str(program), "0", "3"], capture_output=True, text=True, timeout=80)
    assert done.returncode == 0, done.stdout + done.stderr


LOOKS = {
    "tasks": lambda client, ref: client.tasks(),
    "count_tasks": lambda client, ref: client.count_tasks(),
    "children": lambda client, ref: client.children(0),
    "info": lambda client, ref: client.info(ref),
    "cancel": lambda client, ref: client.cancel(ref, False),
    "cancel_pending": lambda client, ref: client.cancel_pending([ref]),
}


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("field", [TASK_FUNCTION, TASK_RESOURCE_CLASS, TASK_N_REFS])
def test_who_looks_at_a_task_that_leads_nowhere_is_told(
    cm: ModuleType, flag: Callable[[str], Flag], field: int, look: str
) -> None:
    @cm.remote
    def wait() -> None:
        flag("started").set()
        flag("go").wait()

    ref = wait.remote()
    flag("started").wait()
    worker = next(row["index"] for row in running().client.clients() if row["state"] == "busy")
    Segment().write_task_of(worker, field, STRAY)
    with pytest.raises(StoreCorruptedError, match="has overwritten"):
        LOOKS[look](running().client, ref)


def doctor(status: int) -> dict[str, str]:
    """What `cellmesh doctor` says of each session's problem, by the line it stands in."""
    command = [sys.executable, "-m", "cellmesh.cli", "doctor", "--json"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert found.returncode == status and not found.stderr, found.stdout + found.stderr
    return {row["what"]: row["problem"] for row in json.loads(found.stdout) if row["what"].startswith("session ")}


def test_the_doctor_looks_through_each_session_s_tables(cm: ModuleType) -> None:
    line = f"session {running().node.session_id}: its tables are sound"
    assert cm.get(identity.remote(1)) == 1
    assert doctor(status=0)[line] == ""
    for count in (HEADER_N_LIVE_OBJECTS, HEADER_N_LIVE_TASKS):
        Segment().write(count, STRAY)
    problem = doctor(status=1)[line]
    assert problem.startswith("living objects are counted: number 0, found 42949672")
    assert "; living tasks are counted: " in problem
    assert problem.endswith("; and at least 1 more"), problem


@pytest.fixture
def impostor() -> Iterator[str]:
    """The id of what looks like a session, where nobody answers."""
    session, folder = session_dir.create()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(os.path.join(folder, session_dir.SOCKET_NAME))
        listener.listen()

        def hang_up() -> None:
            with suppress(OSError):  # shut down below
                while True:
                    listener.accept()[0].close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        yield session
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
    session_dir.remove(folder)


def test_the_doctor_names_a_session_that_cannot_be_joined(impostor: str) -> None:
    found = doctor(status=1)
    assert list(found) == [f"session {impostor}: its tables are sound"]
    assert found.popitem()[1].startswith("it cannot be looked at: the session at ")
