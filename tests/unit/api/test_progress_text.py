"""Progress bars of tasks as text and HTML."""

from __future__ import annotations

import pytest

from cellmesh.output.progress_text import (
    N_GROUPS,
    WINDOW_S,
    Counts,
    Rate,
    View,
    html_of,
    in_time,
    plain_text,
    text_lines,
)


def test_one_function_has_one_line() -> None:
    view = View({"f": Counts(8, finished=2, failed=1, running=2)}, rate=0.5)
    assert text_lines(view) == ["f  37%|███████▌            | 3/8 · 2 running · 1 failed · 0.5/s · 10 s left"]


def test_several_have_one_each_below_that_of_all() -> None:
    view = View({"load": Counts(10, finished=10), "score": Counts(20, finished=4, cancelled=1, running=2)})
    lines = text_lines(view)
    assert [line.split()[:2] for line in lines] == [
        ["tasks", "50%|██████████"],
        ["load", "100%|████████████████████|"],
        ["score", "25%|█████"],
    ]
    assert lines[2].endswith("| 5/20 · 2 running · 1 cancelled")
    assert len({line.index("|") for line in lines}) == 1, "bars begin below each other"


def test_many_functions_are_counted_together() -> None:
    view = View({f"f{i}": Counts(2, finished=1) for i in range(N_GROUPS + 5)})
    assert len(text_lines(view)) == N_GROUPS + 1 and text_lines(view)[-1].startswith("6 more functions")
    assert " 6/12" in text_lines(view)[-1]


def test_what_is_over_says_how_long_it_took() -> None:
    assert text_lines(View({"f": Counts(3, finished=3)}, elapsed_s=75, is_over=True))[0].endswith("3/3 · in 1 min 15 s")
    assert "first error: ValueError: x" in plain_text(
        View({"f": Counts(1, failed=1)}, is_over=True, error="ValueError: x")
    )


def test_all_but_one_is_not_a_hundred_percent() -> None:
    assert " 99%|" in text_lines(View({"f": Counts(100_000, finished=99_999)}))[0]
    assert "100%|" in text_lines(View({"f": Counts()}))[0], "nothing to do is done"


def test_html_escapes_what_is_foreign_and_can_be_read_aloud() -> None:
    html = html_of(View({"<script>": Counts(4, finished=1, running=1)}, title="<b>", error="<i>"))
    assert "<script>" not in html and "<b>" not in html and "<i>" not in html
    assert 'role="progressbar" aria-valuemin="0" aria-valuemax="4" aria-valuenow="1"' in html
    assert 'aria-valuetext="1 of 4, 1 running"' in html and "width:25.00%" in html


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        ([(0.0, 0)], None),
        ([(0.0, 5), (1.0, 5)], None),
        ([(0.0, 0), (2.0, 4)], 2.0),
        ([(0.0, 0), (100.0, 100), (100.0 + WINDOW_S, 130)], 2.0),  # what was long ago does not count
    ],
)
def test_rate(looks: list[tuple[float, int]], expected: float | None) -> None:
    rate = Rate()
    assert [rate.look(*look) for look in looks][-1] == expected


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.04 s"), (9.9, "9.9 s"), (42, "42 s"), (75, "1 min 15 s"), (7300, "2 h 1 min")]
)
def test_time(seconds: float, text: str) -> None:
    assert in_time(seconds) == text
