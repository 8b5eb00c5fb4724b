"""Which ranks a text means, and how the output of ranks is folded."""

from __future__ import annotations

from typing import Any

import pytest
from cellmesh.kernel_ext.cells.analysis.read import CellError
from cellmesh.kernel_ext.ranks import folding
from cellmesh.kernel_ext.ranks.auto import is_plain
from cellmesh.kernel_ext.ranks.folding import (
    Folded,
    Output,
    Shown,
    Text,
    View,
    fold,
    in_words,
    strip_html,
    strip_text,
)
from cellmesh.kernel_ext.ranks.ranks import parse_ranks


@pytest.mark.parametrize(
    "text, ranks", [("0", (0,)), ("0,2", (0, 2)), ("2-4", (2, 3, 4)), ("3,0-1, 1", (3, 0, 1)), ("12", (12,))]
)
def test_ranks_are_written_as_numbers_and_ranges(text: str, ranks: tuple[int, ...]) -> None:
    assert parse_ranks(text) == ranks


@pytest.mark.parametrize("text", ["", "a", "0-", "-1", "1,,2", "3-1", "0..2"])
def test_what_names_no_ranks_is_refused(text: str) -> None:
    with pytest.raises(CellError, match="names no ranks"):
        parse_ranks(text)


def printed(*pieces: str | tuple[str, str]) -> Output:
    output = Output()
    for piece in pieces:
        output.add(*(("stdout", piece) if isinstance(piece, str) else piece))
    return output


def test_pieces_of_a_stream_are_one_text_and_redrawn_lines_are_as_they_were_last() -> None:
    output = printed("step 1\rste", "p 2\r\x1b[31mdone\x1b[0m\nne", "xt", ("stderr", "oh\n"), "more\n")
    assert output.parts == (Text("stdout", "done\nnext"), Text("stderr", "oh\n"), Text("stdout", "more\n"))


def test_ranks_that_print_the_same_are_folded_in_the_order_of_the_first() -> None:
    parts = {rank: printed("odd\n" if rank % 2 else "even\n").parts for rank in (3, 2, 1, 0)}
    folded = fold({**parts, 4: ()})
    assert folded == [Folded((0, 2), (Text("stdout", "even\n"),)), Folded((1, 3), (Text("stdout", "odd\n"),))]
    assert strip_text(folded, ["rank 4 has died"]) == "rank 4 has died\nranks 0, 2:\n  even\nranks 1, 3:\n  odd"


def shown(data: dict[str, Any], display_id: str) -> Output:
    output = Output()
    output.show(data, display_id, is_update=False)
    return output


def test_the_same_display_is_folded_whatever_it_is_updated_by() -> None:
    plot = {"text/plain": "<Figure>", "image/png": "aGVsbG8="}
    outputs = {rank: shown(plot, f"of {rank}") for rank in range(2)}
    (both,) = fold({rank: output.parts for rank, output in outputs.items()})
    assert both.ranks == (0, 1)
    assert 'src="data:image/png;base64,aGVsbG8="' in strip_html([both], [])
    outputs[1].show({"text/plain": "<Figure 2>"}, "of 1", is_update=True)
    outputs[1].show({"text/plain": "lost"}, "of nobody", is_update=True)
    assert [one.parts for one in fold({rank: output.parts for rank, output in outputs.items()})] == [
        (Shown(plot, "of 0"),),
        (Shown({"text/plain": "<Figure 2>"}, "of 1"),),
    ]


def test_what_is_cleared_is_gone_at_once_or_when_something_new_comes() -> None:
    output = printed("a\n")
    output.clear(wait=True)
    assert output.parts == (Text("stdout", "a\n"),)
    output.add("stdout", "b\n")
    assert output.parts == (Text("stdout", "b\n"),)
    output.clear(wait=False)
    assert output.parts == ()


def test_output_is_bounded_and_says_that_it_was_cut() -> None:
    output = printed(("stderr", "first\n"))
    for i in range(folding.N_CHARS_MAX // 100 + 10):
        output.add("stdout", f"{i:99}\n")
    cut, text = output.parts
    assert cut == Text("stderr", "…\n")
    assert isinstance(text, Text) and len(text.text) == folding.N_CHARS_MAX and text.text.endswith("1009\n")
    for _ in range(folding.N_DISPLAYS_MAX + 5):
        output.show({"text/plain": "x"}, "", is_update=False)
    assert len(output.parts) == folding.N_DISPLAYS_MAX + 1


def n_tabs(page: str) -> int:
    assert page.count("<details name=") in (0, page.count("<details"))
    return page.count("<details name=")


LONG = (Text("stdout", "line\n" * (folding.N_LINES_SHORT + 5)),)


def test_html_of_a_strip_escapes_text_and_has_tabs_for_what_is_long() -> None:
    page = strip_html([Folded((0,), (Text("stdout", "<b>"),)), Folded((1,), LONG)], ["<i> waits"], name="one")
    assert "&lt;b&gt;" in page and "&lt;i&gt; waits" in page and "<b>" not in page
    assert n_tabs(page) == 2 and page.count('<details name="one" open>') == 1 and "<script" not in page
    assert page.index("rank 0") < page.index("&lt;b&gt;") < page.index("rank 1") < page.index("line\nline")
    assert strip_html([Folded((0,), (Shown({"text/html": "<u>x</u>", "text/plain": "x"}),))], []).count("<u>x</u>") == 1
    assert strip_html([], []) == ""


def test_short_outputs_of_few_and_what_all_have_are_seen_at_once() -> None:
    short = [Folded((rank,), (Text("stdout", f"{rank}\n"),)) for rank in range(folding.N_BLOCKS + 1)]
    assert n_tabs(strip_html(short, [])) == len(short)
    assert n_tabs(strip_html(short[:-1], [])) == n_tabs(strip_html([Folded((0, 1), LONG)], [])) == 0
    assert strip_html(short[:-1], []).count("<details open>") == folding.N_BLOCKS


def test_ranks_in_words() -> None:
    assert (in_words((2,)), in_words((0, 1, 3))) == ("rank 2", "ranks 0-1, 3")


def test_all_apart_nothing_is_folded_nor_behind_a_tab_and_a_title_stands_above() -> None:
    parts = {rank: LONG for rank in (1, 0)}
    assert [one.ranks for one in fold(parts, all_apart=True)] == [(0,), (1,)]
    odd = fold({**parts, 2: (*LONG, Text("stderr", "odd\n"))})
    assert n_tabs(strip_html(odd, [])) == 2
    assert n_tabs(strip_html(odd, [], View(all=True))) == 0
    assert strip_html(odd, [], View(all=True)).count("<details open>") == 2
    assert strip_text([], [], View(title="In rank 0 <b>")) == "In rank 0 <b>"
    assert "In rank 0 &lt;b&gt;" in strip_html([], [], View(title="In rank 0 <b>"))


def test_a_value_in_words_is_as_long_as_it_looks_and_a_picture_is_long() -> None:
    short = (Text("stdout", "hello\n"), Shown({"text/plain": "np.float64(3.05)"}))
    picture = (Text("stdout", "hello\n"), Shown({"text/plain": "<Figure>", "image/png": "aGVsbG8="}))
    first = Folded((0,), (Text("stdout", "first"),))
    assert n_tabs(strip_html([first, Folded((1,), short)], [])) == 0
    assert n_tabs(strip_html([first, Folded((1,), picture)], [])) == 2


@pytest.mark.parametrize(
    "cell, plain",
    [
        ("x = 1", True),
        ("# of what comes\n\nx\n%time y = 2", True),
        ("", False),
        ("\n# nothing\n", False),
        ("\n%%time\nx", False),
        ("%ranks here", False),
        ("%load_ext cellmesh\n  !ls\nx?", False),
        ("print('?')", True),
    ],
)
def test_cells_of_magics_alone_are_not_plain(cell: str, plain: bool) -> None:
    assert is_plain(cell.splitlines(keepends=True)) is plain
