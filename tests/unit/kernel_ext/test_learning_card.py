"""Runs of learning: what they keep, what their card says, and when it is shown."""

from __future__ import annotations

import io
import math
import re
import sys
from typing import Any

import numpy as np
import pytest
from cellmesh.kernel_ext import background
from cellmesh.kernel_ext.cards.i18n import Words, catalogue_of
from cellmesh.kernel_ext.cards.learning_card import LearningCards
from cellmesh.kernel_ext.cards.learning_html import STATES, learning_html, learning_text
from cellmesh.kernel_ext.cards.learning_line import LearningLines
from cellmesh.kernel_ext.cards.learning_svg import N_LOSSES, N_POINTS, losses_of, main_svg
from support.card_reader import ALLOWED, EVIL, read
from support.waiting import wait_until

from cellmesh.observe.learning import N_METRICS_MAX, N_POINTS_MAX, LearningRun, RunState

PARENT: dict[str, Any] = {"header": {"msg_id": "cell"}}


@pytest.fixture(autouse=True)
def _polygons(monkeypatch: pytest.MonkeyPatch) -> None:
    """The band around a curve is one."""
    monkeypatch.setattr("support.card_reader.ALLOWED", ALLOWED | {"polygon"})


def result(i: int, value: float | None = None, **others: float) -> dict[str, float]:
    mean = float(i) if value is None else value
    return {
        "episode_return_mean": mean,
        "episode_return_min": mean - 1,
        "episode_return_max": mean + 1,
        "episode_length_mean": 2.0 * i,
        "episodes_total": 10 * i,
        "timesteps_total": 1000 * i,
        "steps_per_s": 5000.0,
        "loss/policy": 1 / i,
        "entropy": 0.5,
        "training_iteration": i,
        "time_total_s": 0.25 * i,
        **others,
    }


def run_of(n: int, title: str = "PPO on CartPole-v1", goal: tuple[str, float] | None = None) -> LearningRun:
    run = LearningRun(title, "lr=0.1")
    run.begin(goal)
    for i in range(1, n + 1):
        run.add(result(i))
    return run


@pytest.mark.parametrize("n", [1, 2, N_POINTS_MAX, N_POINTS_MAX + 1, 5 * N_POINTS_MAX + 3])
def test_a_run_keeps_its_whole_course_in_bounded_memory(n: int) -> None:
    view = run_of(n).look()
    means, steps = view.columns["episode_return_mean"], view.columns["timesteps_total"]
    width = 1
    while -(-n // width) > N_POINTS_MAX:
        width *= 2
    groups = [np.arange(at, min(at + width, n)) + 1.0 for at in range(0, n, width)]
    assert np.allclose(means, [group.mean() for group in groups]), "neighbours become their mean"
    assert np.array_equal(steps, [1000 * group[-1] for group in groups]), "and counts the later one"
    assert view.n_results == n and view.last == result(n) and len(view.at) == len(groups)
    assert np.all(np.diff(view.at) >= 0)


def test_what_is_missing_is_no_number_and_does_not_count() -> None:
    run = LearningRun("it")
    run.begin()
    run.add({"a": math.nan, "training_iteration": 1})
    run.add({"a": 3.0, "late": 7.0, "training_iteration": 2})
    view = run.look()
    assert np.isnan(view.columns["a"][0]) and view.columns["a"][1] == 3.0
    assert np.isnan(view.columns["late"][0]) and view.columns["late"][1] == 7.0
    run.add({f"m{i}": 1.0 for i in range(2 * N_METRICS_MAX)})
    assert len(run.look().columns) == N_METRICS_MAX


def test_the_card_says_what_there_is() -> None:
    run = run_of(20, goal=("episode_return_mean", 15.0))
    run.end("reached")
    view = run.look()
    text = learning_text(view, 0.0)
    assert text.startswith(
        "learning PPO on CartPole-v1: goal reached · return 20 (19 to 21) · episode length 40 · steps 20,000 · "
        "steps/s 5,000 · iteration 20"
    )
    html = learning_html(view, 0.0)
    shown = read(html)
    for word in ("goal reached", "lr=0.1", "20 (19 to 21)", "goal 15", "loss/policy", "entropy", "steps"):
        assert word in shown, word
    assert html.count("<svg") == 3 and "<polygon" in html and not re.search(r"overflow(-x|-y)?:(auto|scroll)", html)


@pytest.mark.parametrize("state", STATES)
def test_each_state_has_its_words(state: RunState) -> None:
    run = run_of(2)
    run.end(state, "loss/policy is nan" if state == "diverged" else "")
    view = run.look()
    assert read(learning_html(view, 0.0)).count("loss/policy is nan") == (state == "diverged")
    german = learning_html(view, 0.0, Words(catalogue_of("de_DE")))
    assert "Lernen" in german and "Schritte/s" in german


def test_a_run_without_results_or_episodes_has_a_card() -> None:
    run = LearningRun("ES on it")
    assert (
        "<svg" not in learning_html(run.look(), 0.0) and learning_text(run.look(), 0.0) == "learning ES on it: paused"
    )
    run.begin()
    run.add({"loss": 0.5, "training_iteration": 1})
    run.add({"loss": 0.25, "training_iteration": 2})
    assert learning_text(run.look(), 0.0).startswith("learning ES on it: running · iteration 2 · loss 0.25")
    assert learning_html(run.look(), 0.0).count("<svg") == 1


def test_a_return_without_its_range_has_a_card() -> None:
    run = LearningRun("ES on it")
    run.begin()
    for i in (1, 2):
        run.add({"episode_return_mean": float(i), "training_iteration": i})
    html = learning_html(run.look(), 0.0)
    assert "return 2 · " in learning_text(run.look(), 0.0) and html.count("<svg") == 1 and "<polygon" not in html


def test_nothing_foreign_is_html() -> None:
    run = LearningRun(EVIL, EVIL)
    run.begin()
    run.add({EVIL: 1.0, "training_iteration": 1})
    run.end("failed", EVIL)
    shown = read(learning_html(run.look(), 0.0))
    assert "<script>alert(1)</script>" in shown


def test_pictures_are_bounded() -> None:
    run = LearningRun("it")
    run.begin()
    for i in range(1, 3000):
        run.add(result(i, **{f"loss/{k}": float(i) for k in range(20)}))
    view = run.look()
    assert len(losses_of(view)) == N_LOSSES
    (line,) = re.findall(r'<polyline points="([^"]*)"', main_svg(view, "", ("steps", "iteration"), "goal"))
    assert len(line.split()) == N_POINTS


def test_one_card_a_cell_updated_in_place_and_saved_as_it_ends() -> None:
    shown: list[tuple[str, bool, str]] = []

    def publish(bundle: dict[str, str], display_id: str, update: bool, parent: dict[str, Any]) -> None:
        shown.append((display_id, update, bundle["text/plain"]))

    cards, run = LearningCards(publish), LearningRun("it")
    run.begin()
    cards.changed(run, PARENT)
    for i in range(1, 100):
        run.add(result(i))
        cards.changed(run, PARENT)
    cards.show(run, PARENT)
    assert len(shown) < 4 and [update for _, update, _ in shown][:1] == [False], "four times a second at most"
    wait_until(lambda: "iteration 99" in shown[-1][2], what="the last result, some time later")
    cards.refresh()
    assert "it: paused" in shown[-1][2]
    run.end("stopped")
    cards.changed(run, PARENT)
    assert "it: stopped" in shown[-1][2] and len({display for display, _, _ in shown}) == 1
    n = len(shown)
    cards.refresh()
    assert len(shown) == n, "nothing has changed"
    run.begin()
    cards.changed(run, {"header": {"msg_id": "another cell"}})
    assert len({display for display, _, _ in shown}) == 2
    background.close()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_in_a_terminal_a_line_is_redrawn_below_what_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setattr("cellmesh.kernel_ext.cards.learning_line.current_or_none", lambda: None)
    lines, run = LearningLines(), LearningRun("it")
    run.begin()
    lines.changed(run)
    print("mine")
    run.add({"training_iteration": 1})
    run.end("stopped")
    lines.changed(run)
    assert re.fullmatch(r"learning it: running\r\x1b\[2Kmine\nlearning it: stopped · .*\n", screen.getvalue())
    assert sys.stdout is screen, "nothing stays in its place"
