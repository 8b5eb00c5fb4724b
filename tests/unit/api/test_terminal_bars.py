"""Progress bars at the end of a terminal."""

from __future__ import annotations

import io
import sys

import pytest

from cellmesh.output.terminal_bars import N_SHOWN, Bars, Guards


def bar(name: str, text: str, closed: bool = False) -> dict[str, object]:
    return {"id": name, "text": text, "closed": closed}


def screen(*written: str) -> list[str]:
    """What a terminal shows after these writes."""
    lines, row = [""], 0
    for piece in "".join(written).replace("\x1b[2K", "\0K").replace("\x1b[1A", "\0A").split("\0"):
        command, text = (piece[0], piece[1:]) if piece[:1] in ("K", "A") else ("", piece)
        if command == "K":
            lines[row] = ""
        elif command == "A":
            row -= 1
            del lines[row + 1 :]
        for char in text:
            if char == "\n":
                row += 1
                lines.append("")
            elif char != "\r":
                lines[row] += char
    return lines


def test_each_bar_has_a_line_and_keeps_it() -> None:
    bars = Bars()
    bars.update(1, "(f) ", bar("a", "10%"))
    bars.update(2, "(g) ", bar("b", "20%"))
    first = bars.draw(80)
    bars.update(1, "(f) ", bar("a", "50%"))
    assert screen(first, bars.erase(), "text\n", bars.draw(80)) == ["text", "(f) 50%", "(g) 20%"]


def test_a_bar_that_is_over_leaves_its_line_or_nothing() -> None:
    bars = Bars()
    bars.update(1, "", bar("a", "10%"))
    bars.update(1, "", bar("b", "20%"))
    assert bars.update(1, "", bar("a", "100%", closed=True)) == "100%"
    assert bars.update(1, "", bar("b", "", closed=True)) == ""
    assert bars.draw(80) == "" and bars.erase() == ""


def test_bars_of_a_dead_process_go() -> None:
    bars = Bars()
    bars.update(1, "", bar("a", "one"))
    bars.update(2, "", bar("a", "two"))
    bars.forget(1)
    assert bars.draw(80) == "two"


def test_lines_fit_the_window_and_their_number_is_limited() -> None:
    bars = Bars()
    for i in range(N_SHOWN + 4):
        bars.update(i, "", bar("a", "x" * 200))
    lines = bars.draw(40).split("\n")
    assert len(lines) == N_SHOWN and lines[0] == "x" * 39 and lines[-1] == "... 5 more bars"


def test_what_the_process_writes_goes_above_the_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    bars = Bars()
    bars.update(1, "", bar("a", "10%"))
    bars.update(1, "", bar("b", "20%"))

    def erase() -> None:
        guards.lift()
        terminal.write(bars.erase())

    guards = Guards(erase)
    for text in ("first\n", "second"):
        terminal.write(("" if guards.ends_line else "\n") + bars.draw(80))
        guards.install()
        assert not sys.stdout.closed, "it is the stream otherwise"
        print(text, end="")
        assert sys.stdout is terminal and sys.stderr is terminal
    assert not guards.ends_line
    terminal.write("\n" + bars.draw(80))
    assert screen(terminal.getvalue()) == ["first", "second", "10%", "20%"]
