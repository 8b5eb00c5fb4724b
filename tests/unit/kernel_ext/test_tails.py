"""What a card keeps of a task's output."""

from __future__ import annotations

from cellmesh.kernel_ext.output.tails import N_CHARS, N_LINES, N_TASKS, Tails


def test_pieces_become_lines_without_colours() -> None:
    tails = Tails()
    for piece in ("a", "b\nc\x1b[31mred\x1b[0m", "\n", "10%\r50%\r100%\r\n"):
        tails.add(1, piece)
    assert tails.of(1) == "ab\ncred\n100%"
    assert tails.of(2) == "" and tails.n_chars(2) == 0


def test_the_last_lines_are_kept_and_it_is_said_that_there_were_more() -> None:
    tails = Tails()
    for i in range(100):
        tails.add(1, f"line {i}\n")
    assert tails.of(1).splitlines() == ["…", *(f"line {i}" for i in range(100 - N_LINES, 100))]
    tails.add(2, "x" * 10 * N_CHARS)
    assert tails.of(2) == "…\n" + "x" * N_CHARS
    assert tails.n_chars(2) == 10 * N_CHARS


def test_the_tasks_that_printed_last_are_kept() -> None:
    tails = Tails()
    for task in (*range(N_TASKS), 0, N_TASKS):
        tails.add(task, "x")
    assert (tails.of(0), tails.of(1), tails.of(N_TASKS)) == ("xx", "", "x")
