"""Cards: every fact is there, nothing foreign gets through as HTML, and the HTML is well-formed."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cellmesh.kernel_ext.cards.html import STATES, CardFacts, card_html, card_text
from cellmesh.kernel_ext.cards.i18n import Words, catalogue_of
from cellmesh.kernel_ext.cards.preview import png, summarize
from cellmesh.kernel_ext.magics.inspect import _of_future
from hypothesis import given, settings
from hypothesis import strategies as st
from support.card_reader import EVIL, read

from cellmesh.text import duration, in_bytes


def facts(**more: object) -> CardFacts:
    known = {
        "id": "ab",
        "state": "finished",
        "function": "add",
        "cell": "In [3]",
        "pid": 77,
        "queued_s": 0.001,
        "ran_s": 0.25,
        "size": 8_000_000,
    }
    return CardFacts(**{**known, **more})


def test_a_card_says_what_is_known() -> None:
    text = read(card_html(facts(preview=summarize(np.arange(100.0)))))
    for expected in (
        "add",
        "finished",
        "In [3]",
        "pid 77",
        "queued 1 ms, ran 250 ms",
        "numpy.ndarray",
        "100",
        "float64",
        "8 MB",
        "mean",
        "49.5",
    ):
        assert expected in text


def test_one_that_waits_on_another_machine_says_where_and_since_when() -> None:
    sent = facts(state="queued", is_sent=True, since="12:00:01", node="ray", pid=0, queued_s=0.001, ran_s=None)
    assert "sent to ray at 12:00:01" in read(card_html(sent))
    runs = facts(state="running", since="12:00:03", node="ray", pid=0, queued_s=0.001, ran_s=None)
    assert "sent to ray" not in read(card_html(runs))


def test_what_loading_arguments_took_stands_apart() -> None:
    assert "queued 1 ms, arguments 20 ms, ran 250 ms" in read(card_html(facts(loaded_s=0.02)))


@pytest.mark.parametrize(
    "most, said", [(5, "waits 3.2 s for its next attempt, 2 of 5"), (-1, "waits 3.2 s for its next attempt")]
)
def test_what_waits_for_its_next_attempt_says_for_how_long(most: int, said: str) -> None:
    card = facts(state="retrying", attempt=1, most_attempts=most, retry_in_s=3.2, queued_s=None, ran_s=None, size=None)
    assert said in read(card_html(card)) and card_text(card).endswith(said)


def test_what_it_waited_for_its_inputs_is_told_apart() -> None:
    assert "waited 600 ms for its inputs, queued 1 ms, ran 250 ms" in read(card_html(facts(inputs_s=0.6)))
    assert "inputs" not in read(card_html(facts(inputs_s=0.0)))


@pytest.mark.parametrize(
    ("language", "said"),
    [
        (
            "de_DE",
            ("fertig", "wartete 1 ms, lief 250 ms", "Länge 50", "49 weitere Zeilen und 1 weitere Spalte", "ausgegeben"),
        ),
        ("ja", ("完了", "ほか 49 行、ほか 1 列")),
        ("en", ("finished", "49 more rows and 1 more column")),
        ("", ("finished",)),
        ("../..", ("finished",)),
    ],
)
def test_the_card_is_in_the_readers_language_its_text_in_english(language: str, said: tuple[str, ...]) -> None:
    table = {"columns": ["a"], "types": ["int"], "index": None, "rows": [[1]], "n_rows": 50, "n_columns": 2}
    made = facts(preview={"type": "list", "length": 50, "table": table}, output="epoch 1")
    html = read(card_html(made, Words(catalogue_of(language))))
    assert all(words in html for words in said), html
    assert "49 more rows and 1 more column" in card_text(made) and "queued 1 ms, ran 250 ms" in card_text(made)


@pytest.mark.parametrize("state", STATES)
def test_every_state_has_a_card(state: str) -> None:
    assert STATES[state][1] in read(card_html(facts(state=state))) and STATES[state][1] in card_text(facts(state=state))


def test_foreign_text_stays_text() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({EVIL: [EVIL], "x": [1]}, index=[EVIL])
    html = card_html(facts(function=EVIL, cell=EVIL, since=EVIL, note=EVIL, preview=summarize(frame)))
    assert EVIL.replace("\x00", "\ufffd") in read(html).replace("\x00", "\ufffd") and "<script" not in html
    html = card_html(facts(state="failed", function=EVIL, error=EVIL, traceback=EVIL * 10))
    assert read(html) and "<script" not in html and "<img" not in html


def test_a_values_own_html_stands_in_a_frame_without_rights() -> None:
    class Evil:
        def _repr_html_(self) -> str:
            return EVIL

    html = card_html(facts(preview=summarize(Evil())))
    assert '<iframe sandbox=""' in html and read(html) and "<script" not in html


def test_a_traceback_is_folded() -> None:
    html = card_html(facts(state="failed", error="ValueError: no", traceback="Traceback ...\n  line 2"))
    assert "<details" in html and "<details open" not in html and "line 2" in read(html)


def test_what_the_task_has_printed_is_folded_under_its_last_line() -> None:
    html = card_html(facts(output=f"epoch 1\n{EVIL}"))
    assert "<details style" in html and "epoch 1" in read(html) and "<script" not in html
    assert card_text(facts(output="epoch 1\nepoch 2")).endswith("│ epoch 1\n│ epoch 2")


@pytest.mark.parametrize(
    "state, typed",
    [
        ("running", ["%cancel total", "%inspect total"]),
        ("finished", ["%fetch total"]),
        ("failed", ["%retry total", "%inspect --pdb total"]),
        ("cancelled", ["%retry total"]),
    ],
)
def test_a_card_says_what_can_be_typed(state: str, typed: list[str]) -> None:
    html = card_html(facts(state=state, variable="total", traceback="Traceback"))
    assert all(f">{line}</code>" in html for line in typed)
    assert "--pdb" not in card_html(facts(state=state, variable="total")), "of a process that was killed"
    assert "%" not in re.sub(r'style="[^"]*"', "", card_html(facts(state=state))), "nobody could name it"


def test_only_png_is_a_picture() -> None:
    picture = png(np.zeros((2, 2, 3), np.uint8))
    assert "data:image/png;base64," in card_html(facts(preview={"type": "x", "image": picture}))
    for image in (b"GIF89a", "data:text/html,<script>", b"<svg onload=alert(1)>", None):
        assert "<img" not in card_html(facts(preview={"type": "x", "image": image}))


@settings(max_examples=80, deadline=None)
@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.floats(), st.text(max_size=30), st.integers()),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    )
)
def test_any_value_has_a_well_formed_card(value: object) -> None:
    made = facts(preview=summarize(value))
    read(card_html(made))
    assert card_text(made).startswith("add: finished · In [3] · pid 77")


def test_a_table_as_text_is_aligned() -> None:
    pandas = pytest.importorskip("pandas")
    text = card_text(facts(preview=summarize(pandas.DataFrame({"a": range(10), "bb": range(10)}))))
    assert text.splitlines()[2:] == ["a  bb", *[f"{i}   {i}" for i in range(6)], "4 more rows"]


@pytest.mark.parametrize(
    "seconds, text",
    [
        (0, "0 µs"),
        (4.2e-4, "420 µs"),
        (0.0123, "12.3 ms"),
        (1.5, "1.5 s"),
        (59.96, "1 min 0 s"),
        (75, "1 min 15 s"),
        (7260, "2 h 1 min"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    "n, text", [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (8_000_000, "8 MB"), (2.5e12, "2.5 TB")]
)
def test_amounts(n: float, text: str) -> None:
    assert in_bytes(n) == text


def test_of_what_runs_elsewhere_it_is_said_where_its_stack_can_be_seen() -> None:
    facts = CardFacts("1", "running", node="elm 3dce", pid_there=7)
    ref: Any = SimpleNamespace(client=None)
    ((title, text),) = _of_future(ref, SimpleNamespace(all_facts=lambda ref: facts), None).sections
    assert title == "Where it is now (pid 7 on elm 3dce)" and "there `cellmesh stack 7` shows it" in text
