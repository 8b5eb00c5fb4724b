"""What the main thread shares with our threads still works after it was interrupted, at any instruction."""

from __future__ import annotations

import _thread
import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any

import pytest
from cellmesh.kernel_ext.cells.registry import CellRegistry
from cellmesh.kernel_ext.graph.recorder import Recorder
from cellmesh.scheduler.ipc.link import Link
from cellmesh.scheduler.ipc.messages import (
    FromScheduler,
    Message,
    MetricChanges,
    MetricsReply,
    MetricsRequest,
    Series,
    WorkerOutput,
)
from cellmesh.scheduler.ipc.transport import Channel, ConnectionLost, pair
from support.interrupts import interrupted_everywhere
from support.waiting import wait_until

import cellmesh as cm
from cellmesh.observe import metrics
from cellmesh.output import driver
from cellmesh.session import unfetched_errors
from cellmesh.session.current import current
from cellmesh.session.futures import Future
from cellmesh.session.scheduler_client import ask


class Interrupted:
    """A context manager in whose `__enter__` the process is interrupted. That is C, as a lock's is."""

    __enter__ = staticmethod(_thread.interrupt_main)

    def __init__(self) -> None:
        self.is_over = False

    def __exit__(self, *error: object) -> None:
        self.is_over = True


def test_a_statement_that_has_entered_is_left() -> None:
    """Python 3.14 by itself does not leave it."""
    once = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        with once:
            for _ in range(2):  # between two rounds Python looks
                pass
    assert once.is_over


def in_time(run: Callable[[], object], what: str) -> None:
    """See that it comes to an end, in another thread."""
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive(), what


def test_what_tasks_have_failed_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unfetched_errors, "N_KNOWN", 1)  # one is forgotten each time
    errors, tasks = unfetched_errors.KnownErrors(), itertools.count()

    def note_and_look() -> None:
        errors.note(next(tasks), "ValueError: no")
        errors.since(0)

    for number in interrupted_everywhere(note_and_look):
        in_time(lambda: errors.since(0), f"an interrupt at {number} has left the lock taken")


@pytest.fixture
def link() -> Iterator[Link]:
    """To somebody who answers each question."""
    here, there = pair(FromScheduler, MetricsRequest)
    answers = threading.Thread(target=answer, args=(there,))
    answers.start()
    link = Link(here)
    yield link
    link.close()
    answers.join()


def answer(channel: Channel) -> None:
    try:
        while True:
            question, _ = channel.receive()
            assert isinstance(question, MetricsRequest)
            channel.send(MetricsReply(question.request, []))
    except ConnectionLost:
        channel.close()


def test_a_question(link: Link) -> None:
    for number in interrupted_everywhere(lambda: ask(link, MetricsRequest, MetricsReply, 10.0)):
        assert ask(link, MetricsRequest, MetricsReply, 10.0).series == [], number


def test_a_connection() -> None:
    """Where it was made, it can be closed; where not, its thread ends with the connection."""
    made: list[Link] = []
    channels: list[Channel] = []

    def connect() -> None:
        made.append(Link(channels[0]))
        made[-1].close()

    channels[:] = pair(FromScheduler, MetricsRequest)
    for number in interrupted_everywhere(connect):
        for link in made:
            in_time(link.close, f"interrupted at instruction {number}")
        for channel in channels:
            channel.shut_down()
        wait_until(lambda: not any(thread.name == "cellmesh-link" for thread in threading.enumerate()))
        for channel in channels:
            channel.close()
        made.clear()
        channels[:] = pair(FromScheduler, MetricsRequest)
    for channel in channels:
        channel.close()


def test_a_future() -> None:
    future: Future[int] = Future()

    def look() -> None:
        future.done()
        future.add_done_callback(lambda future: None)
        with suppress(TimeoutError, RuntimeError):  # where it waits, the interrupt may come as an error of its lock
            future.result(0.0)

    for number in interrupted_everywhere(look):
        in_time(lambda: future.set_result(number), f"interrupted at instruction {number}")
        assert future.result() == number
        future = Future()


def test_what_tasks_print(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "BATCH_S", 0.0)
    written: list[str] = []

    def write(pieces: list[Message], quiet: bool) -> bool:
        written.extend(piece.text for piece in pieces if isinstance(piece, WorkerOutput))
        return False

    pump = driver.Pump(write)

    def piece(text: str) -> Message:
        return WorkerOutput(task=1, origin=0, stream="stdout", pid=10, text=text)

    for number in interrupted_everywhere(lambda: pump.add(piece("interrupted"))):
        pump.add(piece(f"{number}"))
        wait_until(lambda: f"{number}" in written)
    for number in interrupted_everywhere(pump.flush):
        pump.add(piece(f"again {number}"))
        wait_until(lambda: f"again {number}" in written)
    pump.finish()


def test_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "INTERVAL_S", 0.0)
    sent: list[MetricChanges] = []
    of: Any = SimpleNamespace(is_worker=False, bound=set(), _send=sent.append)
    outbox = metrics._Outbox(of)
    change = Series("n", "counter", "", {}, 1.0, [], [])
    for number in interrupted_everywhere(lambda: outbox.put(change)):
        outbox.put(change)
        wait_until(lambda: sent)
        sent.clear()
        if number % 20 == 0:
            outbox.unbind()
            outbox = metrics._Outbox(of)
    outbox.unbind()


@contextmanager
def recording() -> Iterator[Recorder]:
    cm.init(num_cpus=1)
    recorder = Recorder(current(), CellRegistry())
    try:
        yield recorder
    finally:
        recorder.stop()
        cm.shutdown()
        for thread in recorder._threads:
            thread.join()


def test_the_graph() -> None:
    with recording() as recorder:
        for number in interrupted_everywhere(lambda: recorder.look(lambda graph: None)):
            in_time(lambda: recorder.look(lambda graph: None), f"interrupted at instruction {number}")
        for number in interrupted_everywhere(recorder.want):
            in_time(recorder.want, f"interrupted at instruction {number}")
        sent: list[dict[str, Any]] = []
        recorder.subscribe("test", lambda data, buffers: sent.append(data))
        wait_until(lambda: sent)
