"""The card of an experiment: every fact is there, nothing foreign gets through as HTML, pictures are bounded."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cellmesh.kernel_ext.cards.experiment_card import ExperimentCards
from cellmesh.kernel_ext.cards.experiment_facts import N_GREY, N_POINTS, N_ROWS, ExperimentFacts, facts_of
from cellmesh.kernel_ext.cards.experiment_html import STATES, experiment_html, experiment_text
from cellmesh.kernel_ext.cards.experiment_svg import curves_svg, parallel_svg
from cellmesh.kernel_ext.cards.i18n import Words, catalogue_of
from cellmesh.kernel_ext.cards.plot_svg import ticks
from support.card_reader import EVIL, read
from support.waiting import wait_until

from cellmesh.tune import Experiment, journal
from cellmesh.tune.records import Became, Closed, Definition, Ended, Launched, Opened, Reported, Suggested, Told
from cellmesh.tune.view import ExperimentView


def experiment(
    configs: list[dict[str, Any]], curves: dict[int, list[float]], metric: str | None = "accuracy", mode: str = "max"
) -> ExperimentView:
    """An experiment with these trials; those with a curve have run."""
    view = ExperimentView()
    definition = Definition(
        trainable="f",
        space={},
        scheduler={},
        search=None,
        stop=None,
        num_samples=len(configs) + 1,
        seed=0,
        resources={},
    )
    view.add([Opened(at=100.0, version=1, name="digits", plan={"metric": metric, "mode": mode}, definition=definition)])
    for trial, config in enumerate(configs):
        view.add([Suggested(at=100.0, trial=trial, config=config)])
    for trial, curve in curves.items():
        view.add([Launched(at=101.0, trial=trial, attempt=1)])
        view.add(
            Reported(at=102.0, trial=trial, attempt=1, result={"accuracy": value, "training_iteration": i + 1})
            for i, value in enumerate(curve)
        )
    return view


def test_a_narrow_table_leaves_out_whole_columns_and_has_no_scrollbar() -> None:
    configs: list[dict[str, Any]] = [{f"parameter_{i}": trial * i for i in range(1, 9)} for trial in range(3)]
    html = experiment_html(facts_of(experiment(configs, {0: [0.5], 1: [0.25]}), 103.0, True))
    assert not re.search(r"overflow(-x|-y)?:(auto|scroll)", html)
    rows = re.findall(r'<tr role="row" style="([^"]*)">(.*?)</tr>', html)
    assert len(rows) == 4 and all("flex-wrap:wrap" in style and "overflow:hidden" in style for style, _ in rows)
    widths = {tuple(re.findall(r"flex:0 0 (\d+)ch", cells)) for _, cells in rows}
    assert len(widths) == 1, "cells lie below each other, and rows end at the same column"
    assert len(next(iter(widths))) == 12


def running(folder: Path) -> journal.Writer:
    """Of an experiment with one trial, which has reported nothing."""
    writer = journal.Writer(folder)
    definition = Definition(
        trainable="f", space={}, scheduler={}, search=None, stop=None, num_samples=1, seed=0, resources={}
    )
    writer.write(Opened(at=100.0, version=1, name="now", plan={"metric": "m", "mode": "max"}, definition=definition))
    writer.write(Suggested(at=100.0, trial=0, config={}))
    writer.write(Launched(at=101.0, trial=0, attempt=1))
    return writer


def test_what_happens_while_a_card_is_shown_is_told(tmp_path: Path) -> None:
    writer = running(tmp_path)
    texts: list[str] = []

    def publish(bundle: dict[str, str], display_id: str, update: bool, parent: dict[str, Any]) -> None:
        texts.append(bundle["text/plain"])
        if not update:  # the trial's only report comes before anybody follows the journal
            writer.write(Reported(at=102.0, trial=0, attempt=1, result={"m": 7.0, "training_iteration": 1}))

    ExperimentCards(publish).show(Experiment(tmp_path), {})
    wait_until(lambda: "best m: 7" in texts[-1], what="the report")
    writer.write(Closed(at=103.0))
    wait_until(lambda: "now: finished" in texts[-1], what="the end")
    writer.close()


def test_what_the_end_of_a_cell_has_shown_is_not_shown_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Callable[[bool], object]] = []
    monkeypatch.setattr(
        "cellmesh.kernel_ext.cards.experiment_card.following",
        SimpleNamespace(add=lambda experiment, size_bytes, changed: told.append(changed)),
    )
    clock = itertools.count(110)  # the card says how long the experiment has run: each look gives another text
    monkeypatch.setattr("time.time", lambda: next(clock))
    texts: list[str] = []
    with closing(running(tmp_path)) as writer:
        cards = ExperimentCards(lambda bundle, display_id, update, parent: texts.append(bundle["text/plain"]))
        cards.show(Experiment(tmp_path), {})
        writer.write(Reported(at=102.0, trial=0, attempt=1, result={"m": 7.0, "training_iteration": 1}))
        cards.refresh()
        assert "best m: 7" in texts[-1]
        monkeypatch.setattr("cellmesh.kernel_ext.cards.live_display.UPDATE_INTERVAL_S", 0.0)
        told[0](False)
        assert len(texts) == 2
        writer.write(Reported(at=103.0, trial=0, attempt=1, result={"m": 8.0, "training_iteration": 2}))
        told[0](False)
        assert "best m: 8" in texts[-1] and len(texts) == 3


def small() -> ExperimentView:
    configs = [{"lr": 0.1 * (i + 1), "depth": i % 2, "net": {"act": "relu"}} for i in range(5)]
    view = experiment(configs, {0: [0.1, 0.5], 1: [0.2, 0.9], 2: [0.3, 0.4], 3: []})
    view.add([Became(at=110.0, trial=1, state="TERMINATED")])
    view.add([Ended(at=111.0, trial=2, attempt=1, outcome="failed", error="ValueError: no", line="Cell In[3]:5 in f")])
    view.add([Became(at=111.0, trial=2, state="ERROR"), Became(at=111.0, trial=3, state="PAUSED")])
    return view


def card(view: ExperimentView, is_run: bool = True, **more: Any) -> ExperimentFacts:
    return facts_of(view, 112.5, is_run, **more)


def test_a_card_says_what_is_known() -> None:
    facts = card(small(), cell="In [3]")
    html = read(experiment_html(facts))
    for expected in (
        "experiment",
        "digits",
        "running",
        "2 of 6 trials ended · 1 running · 1 waiting · 1 paused · 1 failed",
        "best accuracy: 0.9, trial 1 · lr=0.2, depth=1",
        "trial 2 failed: ValueError: no",
    ):
        assert expected in html and expected in experiment_text(facts)
    assert "In [3] · 12.5 s" in html and "Cell In[3]:5 in f" in html
    assert [row.number for row in facts.rows] == [1, 0, 2, 3, 4]
    assert facts.names == ("lr", "depth"), "what is the same in all trials is not said"
    assert len(experiment_text(facts).splitlines()) == 3


@pytest.mark.parametrize(
    ("why", "failed", "is_run", "state"),
    [
        ("", False, False, "finished"),
        ("interrupted", False, False, "stopped"),
        ("the disk is full", True, False, "failed"),
        (None, False, False, "left"),
        (None, False, True, "running"),
    ],
)
def test_states(why: str | None, failed: bool, is_run: bool, state: str) -> None:
    view = small()
    if why is not None:
        view.add([Closed(at=120.0, why=why, failed=failed)])
    facts = card(view, is_run)
    assert facts.state == state and (why or "") in read(experiment_html(facts))
    assert facts.elapsed_s == (20.0 if why is not None else 12.5)


def test_all_paused() -> None:
    view = small()
    view.add([Became(at=111.0, trial=0, state="PAUSED")])
    assert card(view).state == "paused" and "%tune resume digits" in experiment_html(card(view))


def test_small_is_best_where_it_is_asked_for() -> None:
    facts = card(experiment([{"lr": i} for i in range(3)], {0: [3.0], 1: [1.0], 2: [math.nan]}, mode="min"))
    assert facts.best is not None and facts.best.number == 1
    assert [row.number for row in facts.rows] == [1, 0, 2]


def test_without_a_metric_the_first_number_is_drawn() -> None:
    facts = card(experiment([{"lr": 1}], {0: [0.5, 0.7]}, metric=None))
    assert facts.metric == "accuracy" and "<polyline" in curves_svg(facts, "", "", "")


def test_many_trials_make_no_larger_a_card() -> None:
    def of(n: int) -> ExperimentFacts:
        configs = [{"lr": 10.0 ** -(i % 5), "b": i} for i in range(n)]
        return card(experiment(configs, {i: [i + j / 200 for j in range(200)] for i in range(n)}))

    few, many = of(80), of(200)
    assert len(many.rows) == N_ROWS and len(many.lines) <= N_GREY + 3
    assert all(len(line.curve) <= N_POINTS + 1 for line in many.lines)
    assert len(experiment_html(many)) < 1.5 * len(experiment_html(few)) < 150_000
    assert [line.number for line in many.lines[-3:]] == [197, 198, 199], "the best lie above the others"


def test_nothing_foreign_gets_through() -> None:
    view = experiment([{EVIL: EVIL}, {EVIL: 2}], {0: [0.1], 1: [0.2]})
    view.name, view.plan = EVIL, {"metric": "accuracy", "mode": "max"}
    view.add([Ended(at=1.0, trial=0, attempt=1, outcome="failed", error=EVIL, line=EVIL), Told(at=1.0, text=EVIL)])
    view.add([Closed(at=2.0, why=EVIL)])
    for state in STATES:
        html = experiment_html(facts_of(view, 3.0, True, EVIL))
        assert "<script" not in html and "<img" not in html and state
        read(html)


def test_pictures_scale_by_what_is_in_them() -> None:
    facts = card(experiment([{"lr": 10.0**-i, "act": "ab"[i % 2]} for i in range(4)], {i: [10.0**i] for i in range(4)}))
    history = curves_svg(facts, "label", "iteration", "trial")
    assert history.count("<circle") == 4 and ">trial<" in history, "who reports once is drawn by trial"
    assert [text for text in re.findall(r">(1(?:e\+)?\d*)<", history) if text != "1"][:3] == ["10", "100", "1000"]
    places = re.findall(r'<polyline points="([^"]+)"', parallel_svg(facts, "label"))
    assert len(places) == 4 and all(len(place.split()) == 3 for place in places)
    heights = sorted(float(place.split()[0].partition(",")[2]) for place in places)
    steps = [b - a for a, b in itertools.pairwise(heights)]
    assert max(steps) - min(steps) < 0.2, "a logarithmic axis"
    assert parallel_svg(card(experiment([{"lr": 1}, {"lr": 2}], {0: [1.0], 1: [2.0]})), "") == "", "one parameter"


@pytest.mark.parametrize(
    ("low", "high", "is_log", "expected"),
    [
        (0.0, 1.0, False, [0, 0.5, 1.0]),
        (0.1, 0.9, False, [0.2, 0.4, 0.6, 0.8]),
        (1e-4, 1e-1, True, [1e-4, 1e-3, 1e-2, 1e-1]),
        (2.0, 2.0, False, [2.0]),
        (1e-30, 1.0, True, None),
    ],
)
def test_ticks_are_round(low: float, high: float, is_log: bool, expected: list[float] | None) -> None:
    found = ticks(low, high, is_log)
    assert len(found) <= 6 and all(low * 0.999 <= tick <= high * 1.001 for tick in found)
    assert expected is None or found == pytest.approx(expected)


def test_the_readers_language() -> None:
    html = experiment_html(card(small()), Words(catalogue_of("de")))
    assert "2 von 6 Versuchen beendet" in html and "Versuch 2 fehlgeschlagen" in html
