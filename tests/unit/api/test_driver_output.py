"""What people read of what tasks print: prefixes, progress bars, equal lines; and the pump's thread comes and goes."""

from __future__ import annotations

import io
import sys
import threading
from typing import Any

import pytest
from cellmesh.scheduler.ipc.messages import Message, NodeEvent, WorkerOutput
from support.waiting import wait_until

from cellmesh.output import driver
from cellmesh.output.driver import DIM, LINE_CHARS_MAX, PENDING_CHARS_MAX, Pump, TaskText


def read(text: TaskText, quiet: bool = True) -> str:
    return "".join(piece for _, piece in text.take(quiet))


def tell(text: TaskText, what: str, task: int = 1, pid: int = 10, name: str = "f", stream: str = "stdout") -> None:
    text.add(stream, what, task=task, pid=pid, name=name)


def test_each_line_says_whose_it_is() -> None:
    text = TaskText()
    tell(text, "a\nb\n")
    tell(text, "c\n", task=2, pid=11, name="g")
    assert read(text) == "(f pid=10) a\n(f pid=10) b\n(g pid=11) c\n"


def test_what_the_terminal_cannot_show_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    for encoding in ("ascii", "utf-8"):
        shown = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(shown, encoding))
        driver._write("stdout", "gr\u00fcn a\udcffb\n")
        assert shown.getvalue().decode(encoding) == (
            "gr\\xfcn a\\udcffb\n" if encoding == "ascii" else "gr\u00fcn a\\udcffb\n"
        )


def test_prefixes_are_dimmed_where_there_are_colours() -> None:
    text = TaskText(DIM)
    tell(text, "a\n")
    assert read(text) == "\x1b[2m(f pid=10)\x1b[0m a\n"


def test_streams_keep_their_order() -> None:
    text = TaskText()
    tell(text, "1\n")
    tell(text, "2\n", stream="stderr")
    tell(text, "3\n")
    assert text.take() == [("stdout", "(f pid=10) 1\n"), ("stderr", "(f pid=10) 2\n"), ("stdout", "(f pid=10) 3\n")]


def test_a_line_that_arrives_in_pieces_is_one_line() -> None:
    text = TaskText()
    tell(text, "a")
    assert read(text, quiet=False) == "(f pid=10) a"
    tell(text, "b")
    tell(text, "c\nd")
    assert read(text) == "bc\n(f pid=10) d"
    assert not text.holds


def test_another_task_breaks_an_unfinished_line() -> None:
    text = TaskText()
    tell(text, "working...")
    assert read(text) == "(f pid=10) working..."
    tell(text, "done\n", task=2, pid=11)
    tell(text, "ready\n")
    assert read(text) == "\n(f pid=11) done\n(f pid=10) ready\n"


def test_equal_lines_of_other_tasks_are_counted() -> None:
    text = TaskText()
    for task in range(100):
        tell(text, "hello\n", task=task, pid=10 + task % 4)
    assert read(text, quiet=False) == "(f pid=10) hello\n" and text.holds
    tell(text, "bye\n", task=5)
    assert read(text) == "(f, 99 more on 4 workers) hello\n(f pid=10) bye\n"
    assert not text.holds


def test_equal_lines_of_one_task_are_all_shown() -> None:
    text = TaskText()
    tell(text, "tick\ntick\n")
    tell(text, "tick\n")
    assert read(text) == "(f pid=10) tick\n" * 3


def test_after_a_quiet_time_a_line_is_shown_again() -> None:
    text = TaskText()
    tell(text, "hello\n")
    assert read(text) == "(f pid=10) hello\n"
    tell(text, "hello\n", task=2)
    assert read(text) == "(f pid=10) hello\n"


def test_a_progress_bar_is_redrawn_with_its_prefix() -> None:
    text = TaskText()
    tell(text, "\r 10%")
    assert read(text, quiet=False) == "(f pid=10)  10%"
    tell(text, "\r 20%")
    tell(text, "\r 30%")
    assert read(text, quiet=False) == "\r(f pid=10)  30%"
    tell(text, "\r100%\n")
    assert read(text) == "\r(f pid=10) 100%\n"


def test_a_line_that_ends_with_a_carriage_return_is_drawn_over_by_what_comes_next() -> None:
    text = TaskText()
    tell(text, "10%\r")
    assert read(text) == "(f pid=10) 10%" and not text.holds
    tell(text, "20%\r")
    assert read(text) == "\r(f pid=10) 20%"
    tell(text, "ready\r\n")
    assert read(text) == "\r(f pid=10) ready\n"


def test_of_several_progress_bars_one_is_live_and_none_is_lost() -> None:
    text = TaskText()
    for percent in range(0, 100, 10):
        tell(text, f"\r{percent}%", task=1, pid=10)
        tell(text, f"\r{percent}%", task=2, pid=11)
        assert "pid=11" not in read(text, quiet=False)
    assert read(text) == "\n(f pid=11) 90%"
    tell(text, "\r100%\n", task=1, pid=10)
    assert read(text) == "\n(f pid=10) 100%\n"


def test_many_unfinished_lines_are_all_shown_when_it_gets_quiet() -> None:
    text = TaskText()
    for task in range(3):
        tell(text, f"{task}", task=task, pid=task)
    assert read(text) == "(f pid=0) 0\n(f pid=1) 1\n(f pid=2) 2"


def test_plain_text_passes_unchanged_and_starts_on_a_line_of_its_own() -> None:
    text = TaskText()
    text.add_plain("stdout", "a")
    text.add_plain("stdout", "b\rc")
    assert read(text) == "ab\rc"
    tell(text, "x\n")
    text.add_plain("stdout", "d\n")
    assert read(text) == "\n(f pid=10) x\nd\n"


def test_an_endless_line_is_bounded() -> None:
    text = TaskText()
    tell(text, "x" * (3 * LINE_CHARS_MAX))
    assert len(read(text)) < LINE_CHARS_MAX + 100


def piece(text: str) -> WorkerOutput:
    return WorkerOutput(task=1, origin=0, stream="stdout", pid=10, text=text)


def test_the_pump_writes_in_order_and_its_thread_ends() -> None:
    written: list[Message] = []
    pump = Pump(lambda pieces, quiet: bool(written.extend(pieces)))
    for i in range(1000):
        pump.add(piece(str(i)))
    wait_until(lambda: len(written) == 1000)
    assert [message.text for message in written] == [str(i) for i in range(1000)]
    wait_until(lambda: not any(thread.name == "cellmesh-output" for thread in threading.enumerate()))
    pump.add(piece("again"))
    wait_until(lambda: len(written) == 1001)
    pump.finish()


def test_what_is_held_is_written_when_it_gets_quiet() -> None:
    calls: list[tuple[int, bool]] = []

    def write(pieces: list[Message], quiet: bool) -> bool:
        calls.append((len(pieces), quiet))
        return not quiet

    pump = Pump(write)
    pump.add(piece("x"))
    wait_until(lambda: calls == [(1, False), (0, True)])
    pump.finish()


def test_after_finish_nothing_waits() -> None:
    written: list[str] = []
    pump = Pump(lambda pieces, quiet: bool(written.extend(p.text for p in pieces)))
    pump.add(piece("a"))
    pump.finish()
    assert written == ["a"]
    pump.add(piece("b"))
    assert written == ["a", "b"]


def test_too_much_is_dropped_and_counted() -> None:
    written: list[Message] = []
    stuck = threading.Event()

    def write(pieces: list[Message], quiet: bool) -> bool:
        stuck.wait(10)
        written.extend(pieces)
        return False

    pump = Pump(write)
    chunk = "x" * (PENDING_CHARS_MAX // 100)
    for _ in range(300):
        pump.add(piece(chunk))
    stuck.set()
    wait_until(lambda: any(isinstance(message, NodeEvent) for message in written))
    pump.finish()
    lost = [message.text for message in written if isinstance(message, NodeEvent)]
    shown = sum(isinstance(message, WorkerOutput) for message in written)
    assert len(lost) == 1 and "characters of output are not shown" in lost[0]
    assert shown < 300 and f"{(300 - shown) * len(chunk):,}" in lost[0]


class Tee:
    """What a user may put in the place of a stream: print() asks for nothing else."""

    def __init__(self, fails: Exception | None = None) -> None:
        self.texts: list[str] = []
        self.fails = fails

    def write(self, text: str) -> None:
        if self.fails is not None:
            raise self.fails
        self.texts.append(text)


class ClosedMeanwhile(io.StringIO):
    def write(self, text: str) -> int:
        self.close()
        return len(text)


def test_a_stream_that_fails_does_not_end_what_comes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def write_to(stream: Any, text: str) -> None:
        monkeypatch.setattr(sys, "stdout", stream)
        driver._write("stdout", text)

    full, tee = Tee(OSError(28, "No space left on device")), Tee()
    for text in ("lost\n", "lost, too\n"):
        write_to(full, text)
    write_to(ClosedMeanwhile(), "lost\n")
    write_to(tee, "shown\n")
    full.fails = None
    write_to(full, "shown\n")
    assert tee.texts == full.texts == ["shown\n"]
    assert [record.getMessage() for record in caplog.records] == [
        "what tasks print cannot be written to sys.stdout: OSError: [Errno 28] No space left on device"
    ]
