"""The card of futures by rank."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cellmesh.kernel_ext.cards.group_html import RankFacts, group_html, group_text, numbers_of
from cellmesh.kernel_ext.cards.html import CardFacts
from cellmesh.kernel_ext.cards.preview import summarize


def ranks(*values: Any) -> list[RankFacts]:
    return [RankFacts(i, CardFacts(str(i), "finished", preview=summarize(x))) for i, x in enumerate(values)]


@pytest.mark.parametrize(
    "values, numbers",
    [
        ((1, 2.5), [1.0, 2.5]),
        ((np.float32(0.5), np.array(2)), [0.5, 2.0]),
        ((1, "2"), None),
        (([1], [2]), None),
        ((1.0, float("nan")), None),
        ((np.arange(3), np.arange(3)), None),
    ],
)
def test_whether_the_values_are_numbers(values: tuple[Any, ...], numbers: list[float] | None) -> None:
    assert numbers_of(ranks(*values)) == numbers


def test_numbers_have_a_bar_for_each_rank() -> None:
    html = group_html("loss", ranks(0.5, -1.5, 2))
    assert html.count("<rect") == 3 and "<title>rank 1: -1.5</title>" in html
    assert html.count('scope="row"') == 3
    assert "<svg" not in group_html("loss", ranks("a", "b")), "words have none"
    assert "<svg" not in group_html("loss", ranks(0.5)), "one number says itself"


def test_a_row_has_the_value_or_what_is_wrong() -> None:
    failed = RankFacts(3, CardFacts("3", "failed", error="ValueError: <b>"))
    some = [*ranks(1, "x" * 200, np.zeros((30, 4))), failed, RankFacts(4, CardFacts("4", "running"))]
    text = group_text("loss", some).splitlines()
    assert text[:2] == ["loss by rank", "  rank 0: 1"]
    assert text[2].startswith("  rank 1: 'xxx") and len(text[2]) < 90, "long ones are cut"
    assert text[3:] == [
        "  rank 2: numpy.ndarray · 30 × 4 · float64",
        "  rank 3: ValueError: <b>",
        "  rank 4: ◐ running",
    ]
    html = group_html("loss", some)
    assert "ValueError: &lt;b&gt;" in html and "<b>" not in html and "3 of 5 finished" in html


def test_of_many_ranks_the_rest_is_counted() -> None:
    assert group_text("x", ranks(*range(70))).endswith("\nand 6 more ranks")
    assert "and 6 more ranks" in group_html("x", ranks(*range(70)))
