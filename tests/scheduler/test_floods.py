"""Nothing that a user's program prints, raises or calls things ends a session; nor does what is no message, whoever
sends it.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from cellmesh.scheduler.ipc import transport
from cellmesh.scheduler.ipc.link import Link
from cellmesh.scheduler.ipc.messages import (
    MAX_TEXT_CHARS,
    FromPeer,
    FromScheduler,
    Message,
    NodeEvent,
    TaskFailed,
    WorkerOutput,
)
from cellmesh.scheduler.ipc.transport import Channel
from cellmesh.scheduler.local_scheduler import worker_pipes
from cellmesh.scheduler.node import session_dir
from cellmesh.scheduler.node.handle import Node
from support.waiting import wait_until

import cellmesh as cm
from cellmesh.session.current import current

PIECE = 1 << 20
STRAY = "a\udcffb\0\x1b[2J\ud83d"  # no Unicode: what the names of files may be


@pytest.fixture
def node() -> Iterator[Node]:
    """The node of a session with two CPUs."""
    cm.init(num_cpus=2, object_store_memory=64 << 20)
    yield current().node
    cm.shutdown()


@pytest.fixture
def heard(node: Node) -> list[Message]:
    """What its link brings."""
    messages: list[Message] = []
    node.link.add_listener(messages.append)
    return messages


def printed(heard: list[Message], stream: str = "stdout") -> str:
    return "".join(m.text for m in list(heard) if isinstance(m, WorkerOutput) and m.stream == stream)


def told_and_shown(text: str) -> tuple[int, int]:
    """Characters that were left out, as the notes tell, and those that were not."""
    notes = re.findall(r"\n\[cellmesh dropped [\d,]+ lines \(([\d,]+) characters\) here: .*?\]\n", text)
    rest = re.sub(r"\n\[cellmesh dropped .*?\]\n", "", text)
    return sum(int(n.replace(",", "")) for n in notes), len(rest)


@cm.remote
def pour(piece: bytes, n: int) -> None:
    """Past Python's streams, as programs in C and children do."""
    for _ in range(n):
        left = memoryview(piece)
        while left:
            left = left[os.write(1, left) :]


@cm.remote
def alive() -> int:
    return os.getpid()


# ---------------------------------------------------------------- what tasks print
@pytest.mark.parametrize(
    "piece",
    [b"0123456789abcde\n" * (PIECE // 16), bytes(PIECE), b"\x1b[2J\x1b]0;t\x07" * (PIECE // 10), b"y\n" * (PIECE // 2)],
    ids=["lines", "NUL, no newline", "escapes", "short lines"],
)
def test_a_flood_past_python_is_cut_and_counted_and_ends_nothing(
    node: Node, heard: list[Message], piece: bytes
) -> None:
    n = 12
    cm.get([pour.remote(piece, n) for _ in range(2)], timeout=60)
    wait_until(lambda: sum(told_and_shown(printed(heard))) == 2 * n * len(piece), 30, "all is shown or told")
    dropped, shown = told_and_shown(printed(heard))
    assert dropped and shown < 4 * worker_pipes.BURST
    assert max(len(m.text) for m in heard if isinstance(m, WorkerOutput)) <= MAX_TEXT_CHARS
    assert cm.get(alive.remote(), timeout=20)


def test_bytes_that_are_no_text_end_nothing(node: Node, heard: list[Message]) -> None:
    cm.get([pour.remote(bytes(range(128, 256)) * (PIECE // 128), 8) for _ in range(2)], timeout=60)
    wait_until(lambda: "cellmesh dropped" in printed(heard), 20)
    assert cm.get(alive.remote(), timeout=20)


def test_who_dies_in_a_flood_leaves_the_note_and_its_last_words(node: Node, heard: list[Message]) -> None:
    @cm.remote(max_retries=0)
    def floods_and_dies() -> None:
        for _ in range(200):
            os.write(2, b"x" * 30_000 + b"\n")
        os.write(2, b"the last words\n")
        os.kill(os.getpid(), 9)

    with pytest.raises(cm.exceptions.WorkerCrashedError) as raised:
        cm.get(floods_and_dies.remote(), timeout=60)
    assert "the last words" in "".join(raised.value.__notes__)
    wait_until(lambda: sum(told_and_shown(printed(heard, "stderr"))) == 200 * 30_001 + len("the last words\n"), 20)


def test_a_crash_with_a_long_stack_is_shown_in_pieces(node: Node, heard: list[Message]) -> None:
    @cm.remote(max_retries=0)
    def crashes_deep() -> None:
        import ctypes

        ready = threading.Semaphore(0)

        def deep(n: int) -> None:
            if n:
                deep(n - 1)
            else:
                ready.release()
                threading.Event().wait()

        for _ in range(40):
            threading.Thread(target=deep, args=(90,), daemon=True).start()
        for _ in range(40):
            ready.acquire()
        ctypes.string_at(0)

    with pytest.raises(cm.exceptions.WorkerCrashedError):
        cm.get(crashes_deep.remote(), timeout=60)
    wait_until(lambda: "in crashes_deep" in printed(heard, "stderr"), 20)
    assert len(printed(heard, "stderr")) > 2 * MAX_TEXT_CHARS
    assert cm.get(alive.remote(), timeout=20)


def test_a_display_that_is_no_unicode_is_shown(node: Node, heard: list[Message]) -> None:
    class Stray:
        def __repr__(self) -> str:
            return STRAY

    @cm.remote
    def displays() -> None:
        from IPython.display import display

        display(Stray())

    cm.get(displays.remote(), timeout=60)
    bundle = wait_until(
        lambda: next((m.bundle for m in list(heard) if isinstance(m, WorkerOutput) and m.bundle), ""), 20
    )
    assert json.loads(bundle)["data"]["text/plain"] == "a?b\0\x1b[2J?"


# ---------------------------------------------------------------- what they raise and are called
@pytest.mark.parametrize(
    "make",
    [
        lambda: ValueError(STRAY),
        lambda: ValueError("x" * 300_000 + STRAY),
        lambda: type(STRAY.replace("\0", ""), (Exception,), {})(),
        lambda: FileNotFoundError(2, "no such file", STRAY),
        lambda: type("Exits", (Exception,), {"__reduce__": lambda self: (sys.exit, (STRAY * 100_000,))})(),
    ],
    ids=["message", "long", "class", "path", "exits when made anew"],
)
def test_an_error_that_is_no_unicode_is_described_and_told(
    node: Node, heard: list[Message], make: Callable[[], Exception]
) -> None:
    @cm.remote
    def fails() -> None:
        raise make()

    with pytest.raises(cm.exceptions.TaskError) as raised:
        cm.get(fails.remote(), timeout=60)
    assert "could not be described" not in str(raised.value) and "in fails" in str(raised.value)
    told = wait_until(lambda: next((m for m in list(heard) if isinstance(m, TaskFailed)), None), 20)
    assert told is not None and told.name.endswith("fails")


def test_a_function_called_strangely_runs_and_prints(node: Node, heard: list[Message]) -> None:
    def prints() -> str:
        print("here")
        return "done"

    prints.__name__ = prints.__qualname__ = STRAY.replace("\0", "") * 300
    assert cm.get(cm.remote(prints).remote(), timeout=60) == "done"
    wait_until(lambda: "here\n" in printed(heard), 20)


def test_a_program_in_a_folder_whose_name_is_no_text(tmp_path: Path) -> None:
    import subprocess

    folder = os.path.join(os.fsencode(tmp_path), b"d\xff")
    os.mkdir(folder)
    for name, text in (
        (b"beside.py", "X = 7\n"),
        (
            b"main.py",
            (
                "import cellmesh as cm\nimport beside\ncm.init(num_cpus=1, object_store_memory=64 << 20)\n"
                "@cm.remote\ndef f():\n    import beside\n    return beside.X\n"
                "print(cm.get(f.remote(), timeout=60))\ncm.shutdown()\n"
            ),
        ),
    ):
        with open(os.path.join(folder, name), "w") as file:
            file.write(text)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop("PYTHONSAFEPATH", None)
    ran = subprocess.run(
        [sys.executable, os.path.join(folder, b"main.py")], env=environment, capture_output=True, text=True, timeout=90
    )
    assert ran.stdout == "7\n", ran.stderr


# ---------------------------------------------------------------- what is no message
def raw(node: Node) -> socket.socket:
    end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    end.settimeout(20)
    end.connect(node.address)
    return end


def is_cut_off(end: socket.socket) -> bool:
    try:
        return end.recv(1) == b""
    except ConnectionResetError:
        return True


NO_MESSAGE = [
    b"\x03garbage",
    b"\x03" + msgspec.msgpack.encode(WorkerOutput(1, 1, "x" * 50_000, 1)),
    b"\x03\x81\xa4type\xa5\n\x1b[2",
    b"\x07",
    b"\x02",
]


def test_garbage_costs_whoever_sends_it_and_few_lines_of_the_log(node: Node) -> None:
    for i in range(300):
        end = raw(node)
        end.send(NO_MESSAGE[i % len(NO_MESSAGE)])
        assert is_cut_off(end)
        end.close()
    assert cm.get(alive.remote(), timeout=20)
    log = Path(node.session_dir, session_dir.LOG_NAME).read_text()
    lines = [line for line in log.split("\n") if "is cut off" in line]
    assert 0 < len(lines) <= 25 and len(log) < 20_000 and "\x1b" not in log


def test_what_the_driver_itself_sends_and_nobody_understands_costs_that_message(
    node: Node, heard: list[Message]
) -> None:
    for _ in range(100):
        node.link._channel._send_packet(b"\x03garbage", (), 0)

    @cm.remote
    def prints() -> None:
        print("still heard")

    cm.get(prints.remote(), timeout=20)
    wait_until(lambda: "still heard\n" in printed(heard), 20)
    log = Path(node.session_dir, session_dir.LOG_NAME).read_text()
    assert 0 < log.count("is not understood") <= 25


def test_what_comes_before_garbage_is_not_lost_with_it() -> None:
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    channel, others = Channel(here, FromPeer), Channel(there, FromScheduler)
    others.send(NodeEvent("cluster", "before"))
    others._send_packet(b"\x03garbage", (), 0)
    others.send(NodeEvent("cluster", "behind"))
    found = []
    with pytest.raises(transport.Unreadable):
        for message, _ in channel.arriving():
            found.append(message.text)
    assert found == ["before"] and [message.text for message, _ in channel.receive_ready()] == ["behind"]
    channel.close()
    others.close()


def test_a_driver_does_without_a_message_that_it_does_not_understand() -> None:
    peer, scheduler = transport.pair(FromScheduler, FromPeer)
    link, told = Link(peer), []
    link.add_listener(told.append)
    for _ in range(50):
        scheduler._send_packet(b"\x03" + msgspec.msgpack.encode({"type": "\x1b" * 50_000}), (), 0)
    scheduler.send(NodeEvent("cluster", "go on"))
    wait_until(lambda: NodeEvent("cluster", "go on") in told, 20)
    lost, _ = told
    assert lost.kind == "output_lost" and len(lost.text) < 1000 and "\x1b" not in lost.text
    assert not link.wait_lost(0)
    link.close()
    scheduler.close()
