"""What tasks print and display, from the worker's streams to the driver's link."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cellmesh.scheduler.ipc import held_text, transport
from cellmesh.scheduler.ipc.messages import (
    MAX_NAME_CHARS,
    MAX_TEXT_CHARS,
    FromPeer,
    FromScheduler,
    NodeEvent,
    WorkerOutput,
)
from cellmesh.scheduler.ipc.transport import Channel
from cellmesh.scheduler.worker import output as worker_output
from cellmesh.scheduler.worker.output import Output, TaskStream
from support.waiting import wait_until

import cellmesh as cm
from cellmesh.session.current import current


# ---------------------------------------------------------------- the streams alone
class FakeClient:
    """A worker's client, as far as output asks."""

    index = 3

    def __init__(self) -> None:
        self.current_task, self.origin = 7, 70
        self.holds_output = False

    def task_info(self, call: int) -> dict[str, int]:
        return {"seq": call * 10, "origin": call * 100}

    def clients(self) -> list[dict[str, int]]:
        return [{"index": 2, "last_task": 1, "origin": 1}, {"index": 3, "last_task": 7, "origin": 70}]


class Bench:
    """An output whose messages are read by the test, and a clock that stands still unless moved."""

    def __init__(self, worker: Channel, scheduler: Channel) -> None:
        self.client = FakeClient()
        self.now = 1000.0
        self.held = held_text.create()
        self.output = Output(self.client, worker, os.dup(self.held))
        # Due times are looked at, not waited for. In this object, not in the class: a stream that is collected after
        # the test flushes, too.
        self.output._start_flusher = lambda: None
        self.stdout, self.stderr = TaskStream(self.output, "stdout", 1), TaskStream(self.output, "stderr", 2)
        self._scheduler = scheduler

    def received(self) -> list[WorkerOutput]:
        return [message for message, _ in self._scheduler.receive_ready() if isinstance(message, WorkerOutput)]

    def last_words(self, n_received: int) -> list[WorkerOutput]:
        """What the local scheduler would find, had the worker ended now, which has got so many messages of it."""
        return list(held_text.last_words(self.held, os.getpid(), n_received))

    def text(self, stream: str = "stdout") -> str:
        return "".join(message.text for message in self.received() if message.stream == stream)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    worker, scheduler = transport.pair(FromScheduler, FromPeer)
    moved: list[Bench] = []
    monkeypatch.setattr(worker_output.time, "monotonic", lambda: moved[0].now if moved else 1000.0)
    moved.append(Bench(worker, scheduler))
    yield moved[0]
    moved[0].output._pending.clear()
    moved[0].output._held.clear()  # the mapping goes now, not when the garbage is collected
    os.close(moved[0].held)
    worker.close()
    scheduler.close()


def test_a_line_is_sent_at_once_with_its_task(bench: Bench) -> None:
    print("hello", 5, file=bench.stdout)
    (message,) = bench.received()
    assert (message.task, message.origin, message.stream, message.text) == (7, 70, "stdout", "hello 5\n")
    assert message.pid == os.getpid()


def test_an_unfinished_line_waits_a_moment(bench: Bench) -> None:
    print("50%", end="", file=bench.stdout)
    assert bench.received() == [] and bench.output.due == pytest.approx(bench.now + worker_output.PARTIAL_S)
    print(" done", file=bench.stdout)
    assert bench.text() == "50% done\n"


def test_lines_in_quick_succession_travel_together(bench: Bench) -> None:
    for i in range(100):
        print(i, file=bench.stdout)
    (first,) = bench.received()
    assert first.text == "0\n" and bench.output.due == pytest.approx(bench.now + worker_output.JOIN_S)
    bench.now += 1.1 * worker_output.JOIN_S
    print("more", file=bench.stdout)
    (second,) = bench.received()
    assert second.text == "".join(f"{i}\n" for i in range(1, 100)) + "more\n"


def test_a_flush_sends_but_not_a_thousand_times(bench: Bench) -> None:
    for i in range(1000):
        print(i, end="\r", file=bench.stdout, flush=True)
    (first,) = bench.received()
    assert first.text == "0\r"
    bench.output.flush()
    assert bench.text().endswith("999\r")


def test_what_is_held_back_goes_with_the_end_of_the_task(bench: Bench) -> None:
    print("first", file=bench.stdout)
    assert not bench.client.holds_output, "nothing is held"
    print("second", file=bench.stdout)
    print("third", end="", file=bench.stderr)
    assert bench.client.holds_output and [message.text for message in bench.received()] == ["first\n"]
    bench.output.task_ends()
    assert [message.text for message in bench.received()] == ["second\n", "third"]


def test_what_was_dropped_is_told_at_the_end_of_a_task_but_not_of_each(bench: Bench) -> None:
    notes = 0
    for _ in range(1000):
        bench.client.holds_output = False
        bench.stdout.write("x" * 2000 + "\n")
        bench.output.task_ends()
        notes += bench.text().count("cellmesh dropped")
    assert bench.client.holds_output and 1 <= notes <= worker_output.NOTES_BURST
    bench.now += 1
    bench.output.task_ends()
    assert bench.text().count("cellmesh dropped") == 1


def test_what_waits_is_found_by_whoever_outlives_the_worker(bench: Bench) -> None:
    print("first", file=bench.stdout)
    assert bench.last_words(1) == []
    print("second", "ü\udcff", file=bench.stdout)
    print("third", end="", file=bench.stderr)
    bench.output.name = "Counter"
    print(" more", end="", file=bench.stderr)
    second, third = bench.last_words(1)
    assert (second.task, second.origin, second.pid, second.text) == (7, 70, os.getpid(), "second ü?\n")
    assert (third.stream, third.text) == ("stderr", "third more")
    bench.output.flush()
    assert bench.last_words(3) == []


def test_what_was_being_sent_when_the_worker_ended_is_neither_lost_nor_shown_twice(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    print("first", file=bench.stdout)
    print("second", file=bench.stdout)
    found: list[list[str]] = []

    def send(message: WorkerOutput) -> None:
        found.extend([message.text for message in bench.last_words(n)] for n in (1, 2))

    monkeypatch.setattr(bench.output._channel, "send", send)
    bench.output.flush()
    assert found == [["second\n"], []], "the second message has not come, or has"


def test_memory_for_what_waits_suffices_for_all_that_is_held(bench: Bench) -> None:
    print("first", file=bench.stdout)
    bench.output.name = "\U0001f600" * MAX_NAME_CHARS
    text = "\U0001f600" * (MAX_TEXT_CHARS - 2) + "\n"
    bench.stdout.write(text)
    (held,) = bench.last_words(1)
    assert held.text == text and held.name == bench.output.name


def test_text_of_another_task_does_not_join(bench: Bench) -> None:
    print("of seven", end="", file=bench.stdout)
    bench.client.current_task, bench.client.origin = 8, 80
    print("of eight", file=bench.stdout)
    bench.output.flush()
    assert [(m.task, m.origin, m.text) for m in bench.received()] == [(7, 70, "of seven"), (8, 80, "of eight\n")]


def test_a_thread_of_a_task_prints_for_the_task(bench: Bench) -> None:
    bench.client.current_task = 0  # for threads that the task has started
    thread = threading.Thread(target=lambda: print("from below", file=bench.stdout))
    thread.start()
    thread.join()
    (message,) = bench.received()
    assert (message.task, message.origin, message.text) == (7, 70, "from below\n")


def test_long_text_is_cut_into_messages(bench: Bench) -> None:
    text = "".join(f"{i:06}\n" for i in range(20_000))
    bench.stdout.write(text)
    received = bench.received()
    assert max(len(m.text) for m in received) <= MAX_TEXT_CHARS and "".join(m.text for m in received) == text


def test_a_flood_is_cut_off_and_told(bench: Bench) -> None:
    line = "x" * 99 + "\n"
    drained = 0
    for _ in range(3 * worker_output.TEXT_BURST // 100):
        bench.stdout.write(line)
        drained += len(bench.text())
        bench.now += 1e-5
    assert drained <= worker_output.TEXT_BURST + worker_output.TEXT_RATE
    bench.output.flush()
    bench.now += 100
    print("the end", file=bench.stdout)
    text = bench.text()
    assert "cellmesh dropped" in text and "lines" in text and text.endswith("the end\n")


def test_what_is_no_unicode_is_replaced(bench: Bench) -> None:
    print("a\udcffb\ud83d", "ü", file=bench.stdout)
    assert bench.text() == "a?b? ü\n"


def test_bytes_are_text_too(bench: Bench) -> None:
    encoded = "grün\n".encode()
    bench.stdout.buffer.write(encoded[:3])
    bench.stdout.buffer.write(memoryview(encoded)[3:])
    bench.output.flush()
    assert bench.text() == "grün\n"


def test_the_streams_behave_as_streams(bench: Bench) -> None:
    assert bench.stdout.writable() and not bench.stdout.isatty() and not bench.stdout.readable()
    assert (bench.stdout.encoding, bench.stdout.fileno(), bench.stderr.fileno()) == ("utf-8", 1, 2)
    assert bench.stdout.write("abc") == 3
    bench.stdout.writelines(["d\n", "e\n"])
    bench.stdout.reconfigure(line_buffering=True)
    with pytest.raises(TypeError, match="must be str, not bytes"):
        bench.stdout.write(b"no")
    with pytest.raises(io.UnsupportedOperation):
        bench.stdout.read()
    bench.output.flush()
    assert bench.text() == "abcd\ne\n"


def test_a_print_survives_the_end_of_the_local_scheduler(bench: Bench) -> None:
    bench._scheduler.close()
    print("nobody hears this", file=bench.stdout)
    print("nor this", end="", file=bench.stdout, flush=True)


def test_displays_come_after_what_was_printed_before(bench: Bench) -> None:
    print("first", end="", file=bench.stdout)
    bench.output.show("display", {"text/plain": "7"}, {}, {"display_id": "x"})
    first, second = bench.received()
    assert first.text == "first"
    assert (second.stream, second.task) == ("display", 7)
    assert json.loads(second.bundle) == {"data": {"text/plain": "7"}, "metadata": {}, "transient": {"display_id": "x"}}


def test_a_display_too_large_is_replaced_by_a_sentence(bench: Bench) -> None:
    bench.output.show("display", {"image/png": "x" * (5 << 20)}, {}, {})
    assert "does not show a display of 5 MB" in bench.text("stderr")


def test_too_many_displays_are_dropped_and_told(bench: Bench) -> None:
    n_shown = 0
    for _ in range(40):
        sender = threading.Thread(target=bench.output.show, args=("display", {"image/png": "x" * (1 << 20)}, {}, {}))
        sender.start()
        message, _ = bench._scheduler.receive()  # larger than the socket holds
        sender.join()
        n_shown += isinstance(message, WorkerOutput) and message.stream == "display"
    assert n_shown * (1 << 20) <= worker_output.DISPLAY_BURST


# ---------------------------------------------------------------- real workers
class Listener:
    """The output that a session's driver has received."""

    def __init__(self) -> None:
        self.outputs: list[WorkerOutput] = []
        current().node.link.add_listener(self._add)

    def _add(self, message: object) -> None:
        if isinstance(message, WorkerOutput):
            self.outputs.append(message)

    def text(self, stream: str) -> str:
        return "".join(message.text for message in self.outputs if message.stream == stream)

    def wait_for_text(self, stream: str, text: str) -> WorkerOutput:
        """The message that `text` begins in. A line may come in several: a worker sends what it has after a while."""
        wait_until(lambda: text in self.text(stream), 20, lambda: f"{text!r} on {stream}; so far {self.outputs}")
        begin, end = self.text(stream).index(text), 0
        for message in self.outputs:
            end += len(message.text) if message.stream == stream else 0
            if end > begin:
                return message
        raise AssertionError(f"{text!r} was on {stream} and no longer is: {self.outputs}")

    def wait_for_display(self, accept: Callable[[WorkerOutput, dict[str, Any]], bool]) -> dict[str, Any]:
        def found() -> dict[str, Any] | None:
            bundles = ((m, json.loads(m.bundle)) for m in self.outputs if m.bundle)
            return next((bundle for message, bundle in bundles if accept(message, bundle)), None)

        bundle = wait_until(found, 30, lambda: f"a display; so far {self.outputs}")
        assert bundle is not None
        return bundle


@pytest.fixture
def listener() -> Iterator[Listener]:
    cm.init(num_cpus=2, object_store_memory=64 << 20)
    current().client.origin = 42
    yield Listener()
    cm.shutdown()


def test_prints_know_their_cell(listener: Listener) -> None:
    @cm.remote
    def prints() -> None:
        print("to stdout")
        print("to stderr", file=sys.stderr)

    cm.get(prints.remote())
    out, err = listener.wait_for_text("stdout", "to stdout\n"), listener.wait_for_text("stderr", "to stderr\n")
    assert out.origin == err.origin == 42 and out.task == err.task > 0


def test_what_goes_past_python_arrives_as_well(listener: Listener) -> None:
    @cm.remote
    def below_python() -> None:
        import ctypes

        os.write(1, b"by descriptor\n")
        subprocess.run(["sh", "-c", "echo by a child; echo its error >&2"], check=True)
        ctypes.CDLL(None).printf(b"by C\n")

    cm.get(below_python.remote())
    for text in ("by descriptor\n", "by a child\n", "by C\n"):
        listener.wait_for_text("stdout", text)
    listener.wait_for_text("stderr", "its error\n")


def test_a_forked_childs_prints_arrive(listener: Listener) -> None:
    @cm.remote
    def forks() -> int:
        pid = os.fork()
        if pid == 0:
            print("from the child")
            print("its error", file=sys.stderr)
            os._exit(0)
        return os.waitpid(pid, 0)[1]

    assert cm.get(forks.remote()) == 0
    listener.wait_for_text("stdout", "from the child\n")
    listener.wait_for_text("stderr", "its error\n")


def test_output_of_a_task_arrives_while_it_runs(listener: Listener) -> None:
    @cm.remote
    def talks_and_waits() -> None:
        print("progress", end="")
        threading.Event().wait()

    ref = talks_and_waits.remote()
    listener.wait_for_text("stdout", "progress")
    cm.cancel(ref, force=True)


def test_what_tasks_have_printed_is_there_once_it_is_asked_for(listener: Listener) -> None:
    @cm.remote
    def prints(i: int) -> int:
        print("one", i)
        print("two", i, file=sys.stderr)
        os.write(1, b"three\n")
        print("four", i, end="")
        return i

    @cm.remote(num_cpus=0)
    class Prints:
        async def call(self, i: int) -> None:
            print("five", i)
            print("six", i)

    @cm.remote
    def yields() -> Iterator[int]:
        for i in range(20):
            print("seven", i)
            print("eight", i)
            yield i
        threading.Event().wait()

    actor, stream = Prints.remote(), yields.remote()
    cm.get([prints.remote(i) for i in range(20)] + [actor.call.remote(i) for i in range(20)])
    assert [cm.get(next(stream)) for _ in range(20)] == list(range(20))
    current().hear_printed()
    out, err = listener.text("stdout"), listener.text("stderr")
    cm.cancel(stream, force=True)
    for word in ("one", "three", "four", "five", "six", "seven", "eight"):
        assert out.count(word) == 20, (word, out)
    assert err.count("two") == 20


def test_a_local_scheduler_that_does_not_answer_is_waited_for_a_moment_and_that_is_said(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cellmesh.session.session.DRAIN_S", 0.02)
    of, told = current(), []
    of.node.link.add_listener(lambda message: told.append(message) if isinstance(message, NodeEvent) else None)
    os.kill(of.node.scheduler_pid, signal.SIGSTOP)
    try:
        of.hear_printed()
    finally:
        os.kill(of.node.scheduler_pid, signal.SIGCONT)
    assert [message.kind for message in told] == ["output_lost"] and "last lines may be missing" in told[0].text
    monkeypatch.undo()
    of.hear_printed()
    assert len(told) == 1


def test_log_to_driver_can_be_switched_off() -> None:
    cm.init(num_cpus=1, object_store_memory=64 << 20, log_to_driver=False)
    listener = Listener()

    @cm.remote
    def prints() -> None:
        print("unheard")
        os.write(1, b"unheard too\n")

    cm.get(prints.remote())
    cm.shutdown()
    assert listener.outputs == []


def test_a_flooding_task_is_bounded_and_ends(listener: Listener) -> None:
    @cm.remote
    def floods() -> str:
        for _ in range(200_000):
            print("x" * 100)
        os.write(2, b"y" * 5_000_000)
        return "done"

    assert cm.get(floods.remote(), timeout=60) == "done"
    listener.wait_for_text("stdout", "cellmesh dropped")
    assert len(listener.text("stdout")) < 4 << 20 and len(listener.text("stderr")) < 4 << 20


def test_display_without_a_shell(listener: Listener) -> None:
    @cm.remote
    def displays() -> bool:
        from IPython.display import HTML, DisplayHandle, clear_output, display, update_display

        display(HTML("<b>bold</b>"), metadata={"text/html": {"isolated": True}})
        handle = display({"a": 1}, display_id="fixed")
        assert isinstance(handle, DisplayHandle)
        handle.update([1, 2])
        update_display("third", display_id="fixed")
        clear_output(wait=True)
        from IPython.core.interactiveshell import InteractiveShell

        return InteractiveShell.initialized()

    assert cm.get(displays.remote()) is False
    html = listener.wait_for_display(lambda m, b: "text/html" in b["data"])
    assert html["data"]["text/html"] == "<b>bold</b>" and html["metadata"]["text/html"] == {"isolated": True}
    shown = listener.wait_for_display(lambda m, b: m.stream == "display" and "display_id" in b["transient"])
    assert shown["data"]["text/plain"] == "{'a': 1}"
    listener.wait_for_display(lambda m, b: m.stream == "update_display" and b["data"]["text/plain"] == "[1, 2]")
    listener.wait_for_display(lambda m, b: m.stream == "update_display" and b["data"]["text/plain"] == "'third'")
    listener.wait_for_display(lambda m, b: m.stream == "clear_output" and b["data"] == {"wait": True})
    assert {message.origin for message in listener.outputs} == {42}


def test_a_plot_is_shown(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")

    @cm.remote
    def plots() -> None:
        os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"  # as a notebook's kernel sets it
        import matplotlib.pyplot as plt

        plt.plot([1, 2, 3])
        plt.show()

    cm.get(plots.remote())
    bundle = listener.wait_for_display(lambda m, b: "image/png" in b["data"])
    assert bundle["data"]["image/png"].startswith("iVBOR")


def test_widgets_are_shown_as_they_are_and_without_a_model(listener: Listener) -> None:
    pytest.importorskip("ipywidgets")

    @cm.remote
    def shows_a_widget() -> None:
        import ipywidgets
        from IPython.display import display

        display(ipywidgets.IntSlider())

    cm.get(shows_a_widget.remote())
    bundle = listener.wait_for_display(lambda m, b: "IntSlider" in b["data"].get("text/plain", ""))
    assert set(bundle["data"]) == {"text/plain", "text/html"}
