"""The lines that tasks have printed: whole, numbered, and bounded."""

from __future__ import annotations

from cellmesh.kernel_ext.output import log_lines
from cellmesh.kernel_ext.output.log_lines import LogLines

ALL = 10**9


def texts(lines: LogLines, now: float = 0.0) -> list[tuple[int, str]]:
    return [(line.task, line.text) for line in lines.since(0, now, ALL)[1]]


def test_pieces_become_lines_for_each_task_and_stream() -> None:
    lines = LogLines()
    lines.add(1.0, 7, "stdout", 1, "he")
    lines.add(1.1, 8, "stdout", 2, "other\n")
    lines.add(1.2, 7, "stderr", 1, "oops\n")
    lines.add(1.3, 7, "stdout", 1, "llo\nwor")
    assert texts(lines, now=1.4) == [(8, "other"), (7, "oops"), (7, "hello")]
    assert lines.count == 4


def test_an_unfinished_line_counts_once_nobody_goes_on_with_it() -> None:
    lines = LogLines()
    lines.add(1.0, 7, "stdout", 1, "50 %")
    assert texts(lines, now=1.5) == [] and lines.count == 1
    assert texts(lines, now=2.5) == [(7, "50 %")] and lines.count == 1


def test_of_a_redrawn_line_the_last_state_remains_and_colours_go() -> None:
    lines = LogLines()
    lines.add(1.0, 7, "stdout", 1, "10 %\r50 %\r\x1b[31m90 %\x1b[0m\r\n")
    assert texts(lines) == [(7, "90 %")]


def test_numbers_go_on_when_old_lines_are_forgotten(monkeypatch) -> None:
    monkeypatch.setattr(log_lines, "N_LINES_MAX", 3)
    lines = LogLines()
    lines.add(0.0, 1, "stdout", 1, "".join(f"{n}\n" for n in range(5)))
    first, found = lines.since(0, 0.0, ALL)
    assert first == 2 and [line.text for line in found] == ["2", "3", "4"]
    assert lines.since(4, 0.0, ALL) == (4, found[2:])
    assert lines.since(99, 0.0, ALL) == (5, [])


def test_an_answer_is_as_long_as_asked_for_and_a_line_too(monkeypatch) -> None:
    lines = LogLines()
    lines.add(0.0, 1, "stdout", 1, "x" * 10_000 + "\n" + "y\n" * 10)
    _, found = lines.since(0, 0.0, 100)
    assert len(found) == 1 and len(found[0].text) == log_lines.LINE_CHARS_MAX and found[0].text.endswith("…")
    assert len(lines.since(1, 0.0, 100)[1]) == 2
