"""The view of trials in a real JupyterLab, while a search runs."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect
from support.waiting import wait_until
from ui.cells import start
from ui.lab import Lab
from ui.panel import PATIENCE_MS, Panel

SEARCH = """
from cellmesh import tune
import pathlib, time
gate = pathlib.Path("gate")
def train(config):
    for step in range(1, 6):
        tune.report(loss=config["lr"] / step, step=step)
    if config["kind"] == "bad":
        raise ValueError("the loss is too large")
    while config["kind"] == "slow" and not gate.exists():
        tune.report(loss=config["lr"], step=step)
        step += 1
        time.sleep(0.02)
space = {"lr": tune.grid_search([0.1, 0.2, 0.3]), "kind": tune.grid_search(["quick", "bad", "slow"])}
search = tune.Tuner(train, space,
    metric="loss", mode="min", name="digits", storage_path="tune", resources={"cpu": 0.2}, max_concurrent=9).start()
"""

SAVED = """
from cellmesh import tune
def train(config):
    for step in range(1, 6):
        tune.report(loss=config["lr"] / step, step=step)
    if config["kind"] == "bad":
        raise ValueError("the loss is too large")
space = {"lr": tune.grid_search([0.1, 0.2, 0.3]), "kind": tune.grid_search(["quick", "bad", "good"])}
search = tune.Tuner(train, space, metric="loss", mode="min", name="saved", storage_path="tune").fit()
"""


@pytest.fixture
def panel(lab: Lab) -> Panel:
    return Panel(lab.page)


def numbers(panel: Panel) -> list[str]:
    """The trials in the table, from above."""
    return panel.root.locator(".cm-trials .cm-list .cm-row-name").all_inner_texts()


def test_a_search_is_watched_sorted_and_steered(lab: Lab, panel: Panel) -> None:
    start(lab, SEARCH, "search.wait(60); len(search)")
    lab.run_cell(1)
    assert not lab.errors_of(1), lab.output(1)
    tab = panel.root.get_by_role("tab", name="Trials")
    expect(tab).to_be_visible(timeout=PATIENCE_MS)
    tab.click()
    view = panel.root.locator(".cm-trials")
    expect(view).to_contain_text("digits", timeout=PATIENCE_MS)
    expect(view).to_contain_text("3 running", timeout=PATIENCE_MS)
    expect(view).to_contain_text("3 failed", timeout=PATIENCE_MS)
    expect(view.locator(".cm-trial-counts")).to_contain_text(" it/s", timeout=PATIENCE_MS)
    rows = view.locator(".cm-list .cm-row")
    expect(rows).to_have_count(9)
    wait_until(lambda: panel.colours_drawn() > 5, what="curves")
    assert view.locator("canvas.cm-sparkline").count() >= 9

    # sorted by what is clicked; the best first at the beginning
    view.get_by_role("button", name="lr").click()
    wait_until(lambda: [text for text in view.locator(".cm-list .cm-row").first.all_inner_texts() if "0.3" in text])
    view.get_by_role("button", name="Trial", exact=True).click()
    wait_until(lambda: numbers(panel) == [str(n) for n in range(9)], what="in order of the numbers")

    # a failed one says why, in the table and below it
    view.get_by_role("searchbox").fill("failed")
    expect(rows).to_have_count(3)
    rows.first.click()
    expect(view.locator(".cm-trial-error")).to_contain_text("ValueError: the loss is too large")
    view.get_by_role("button", name="Task", exact=True).click()
    body = panel.card.frame_locator("iframe").locator("body")
    expect(body).to_contain_text("ValueError", timeout=PATIENCE_MS)
    lab.page.keyboard.press("Escape")

    # one that runs is stopped, and the others go on; the same trial is chosen in every plot
    view.get_by_role("searchbox").fill("running")
    expect(rows).to_have_count(3)
    rows.first.click()
    (number,) = rows.first.locator(".cm-row-name").all_inner_texts()
    expect(view.locator(".cm-trial")).to_contain_text("iterations/s", timeout=PATIENCE_MS)
    for plot in ("Parallel", "Scatter", "Curves"):
        view.get_by_role("radio", name=plot).click()
        wait_until(lambda: panel.colours_drawn() > 5, what=plot)
        expect(view.locator(".cm-trial")).to_contain_text(f"Trial {number}")
    view.get_by_role("button", name=f"Stop trial {number}").click()
    expect(view).to_contain_text("2 running", timeout=PATIENCE_MS)
    expect(view.locator(".cm-trial")).to_contain_text("ended", timeout=PATIENCE_MS)
    view.get_by_role("button", name="Pause all trials").click()
    expect(view).to_contain_text("2 paused", timeout=PATIENCE_MS)
    view.get_by_role("button", name="Resume all trials").click()
    expect(view).to_contain_text("2 running", timeout=PATIENCE_MS)
    view.get_by_role("button", name="Stop all trials").click()
    expect(view.get_by_role("button", name="Stop all trials")).to_have_count(0, timeout=PATIENCE_MS)
    lab.run_cell(2)
    assert lab.output(2).strip() == "9"


def test_a_search_is_saved_with_the_session_and_rewound(lab: Lab, panel: Panel, browser: Browser) -> None:
    start(lab, SAVED)
    lab.run_cell(1)
    assert not lab.errors_of(1), lab.output(1)
    for name in ("search.html", "search.cellmesh"):
        panel.root.get_by_role("button", name="Save the session").click()
        field = panel.root.locator(".cm-history input")
        field.fill(name)
        field.press("Enter")
        expect(panel.root).to_contain_text(f"Saved {name}", timeout=PATIENCE_MS)
    panel.root.get_by_role("button", name="Open", exact=True).click()
    lab.page.evaluate("() => window.notebookPanel.sessionContext.shutdown()")
    document = Panel(lab.page, within=".jp-Document:not(.jp-NotebookPanel)")
    check_recorded(document)
    page = browser.new_page(viewport={"width": 1000, "height": 800}, color_scheme="dark")
    page.goto((lab.server.root / "search.html").as_uri())
    check_recorded(Panel(page, within="#run"))
    page.close()


def check_recorded(panel: Panel) -> None:
    """The trials of a recording: all of them, of any metric, as they were at any moment, and nothing to be steered."""
    panel.root.get_by_role("tab", name="Trials").click()
    view = panel.root.locator(".cm-trials")
    rows = view.locator(".cm-list .cm-row")
    expect(rows).to_have_count(9, timeout=PATIENCE_MS)
    expect(view).to_contain_text("3 failed")
    wait_until(lambda: panel.colours_drawn() > 5, what="curves")
    view.get_by_role("combobox", name="Metric").select_option("step")
    wait_until(lambda: panel.colours_drawn() > 5, what="curves of another metric")
    view.get_by_role("searchbox").fill("failed")
    expect(rows).to_have_count(3)
    rows.first.click()
    expect(view.locator(".cm-trial-error")).to_contain_text("ValueError: the loss is too large")
    for action in ("Stop", "Task"):
        expect(view.get_by_role("button", name=action)).to_have_count(0)
    view.get_by_role("searchbox").fill("")
    panel.root.get_by_role("slider").press("Home")
    expect(rows).to_have_count(0)
    panel.root.get_by_role("button", name="End", exact=True).click()
    expect(rows).to_have_count(9)
