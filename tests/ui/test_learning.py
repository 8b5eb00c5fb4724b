"""The view of learning in a real JupyterLab: live, rewound, and in a recording."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect
from support.waiting import wait_until
from ui.cells import ADD, start
from ui.lab import Lab
from ui.panel import PATIENCE_MS, Panel

LEARN = (
    ADD
    + """
cm.get(add.remote(1, 2))
from cellmesh import front_end
from cellmesh.observe.learning import LearningRun

def results(run, first, last):
    for i in range(first, last):
        run.add({"episode_return_mean": i * 10.0, "episode_return_min": i * 8.0, "episode_return_max": i * 11.0,
                 "timesteps_total": i * 128.0, "training_iteration": i,
                 "policy_loss": 1 / i, "steps_per_s": 512.0})
        front_end.current.learning_changed(run)

runs = [LearningRun("PPO on CartPole-v1", f"lr={lr}, seed=0") for lr in (0.1, 0.2)]
for run in runs:
    run.begin(("episode_return_mean", 90.0))
    results(run, 1, 6)
runs[1].end("diverged", "policy_loss is NaN in iteration 6")
front_end.current.learning_changed(runs[1])
"""
)
FURTHER = 'results(runs[0], 6, 10)\nruns[0].end("reached")\nfront_end.current.learning_changed(runs[0])'
AFTER = "cm.get(add.remote(3, 4))"


@pytest.fixture
def panel(lab: Lab) -> Panel:
    return Panel(lab.page)


def test_runs_are_watched_rewound_and_saved(lab: Lab, panel: Panel, browser: Browser) -> None:
    start(lab, LEARN, FURTHER, AFTER)
    lab.run_cell(1)
    assert not lab.errors_of(1), lab.output(1)
    panel.root.get_by_role("tab", name="Learning").click(timeout=PATIENCE_MS)
    view = panel.root.locator(".cm-learning")
    rows = view.locator(".cm-list .cm-row")
    expect(rows).to_have_count(2, timeout=PATIENCE_MS)
    expect(rows.last).to_contain_text("1 · PPO on CartPole-v1")
    expect(rows.last).to_contain_text("paused")
    expect(rows.first).to_contain_text("diverged")
    wait_until(lambda: panel.colours_drawn() > 5, what="curves")

    # what is added is shown; the values at the pointer, of whatever metric
    lab.run_cell(2)
    expect(rows.last).to_contain_text("goal reached", timeout=PATIENCE_MS)
    expect(rows.last).to_contain_text("90")
    area = panel.canvas.bounding_box()
    assert area
    right, middle = area["x"] + area["width"] - 16, area["y"] + area["height"] / 2
    tooltip = view.locator(".cm-tooltip")

    def point() -> bool:
        lab.page.mouse.move(right, middle)
        return tooltip.is_visible()

    wait_until(point, what="values at the pointer")
    expect(tooltip).to_contain_text("Steps 1152")
    expect(tooltip).to_contain_text("1 · PPO on CartPole-v1 90")
    view.get_by_role("radio", name="Iterations").click()
    view.get_by_role("combobox", name="Metric").select_option("policy_loss")
    wait_until(point, what="values of another metric")
    expect(tooltip).to_contain_text("Iterations 9")
    expect(tooltip).to_contain_text("0.1111")

    # a run says with what it learns, and why it is over; a search leaves the others out
    view.get_by_role("searchbox").fill("lr=0.2")
    expect(rows).to_have_count(1)
    rows.first.click()
    expect(view.locator(".cm-trial")).to_contain_text("lr=0.2, seed=0")
    expect(view.locator(".cm-trial-error")).to_contain_text("policy_loss is NaN in iteration 6")
    view.get_by_role("searchbox").fill("")
    expect(rows).to_have_count(2)

    # rewound, here and in recordings
    lab.run_cell(3)
    check_rewound(panel, "Now")
    for name in ("learning.html", "learning.cellmesh"):
        panel.root.get_by_role("button", name="Save the session").click()
        field = panel.root.locator(".cm-history input")
        field.fill(name)
        field.press("Enter")
        expect(panel.root).to_contain_text(f"Saved {name}", timeout=PATIENCE_MS)
    panel.root.get_by_role("button", name="Open", exact=True).click()
    document = Panel(lab.page, within=".jp-Document:not(.jp-NotebookPanel)")
    document.root.get_by_role("tab", name="Learning").click(timeout=PATIENCE_MS)
    check_rewound(document, "End")
    page = browser.new_page(viewport={"width": 1000, "height": 800}, color_scheme="dark")
    page.goto((lab.server.root / "learning.html").as_uri())
    recorded = Panel(page, within="#run")
    recorded.root.get_by_role("tab", name="Learning").click(timeout=PATIENCE_MS)
    check_rewound(recorded, "End")
    page.close()


def check_rewound(panel: Panel, end: str) -> None:
    """At the beginning of the session nothing has learned, at its end both runs have."""
    rows = panel.root.locator(".cm-learning .cm-list .cm-row")
    expect(rows).to_have_count(2, timeout=PATIENCE_MS)
    wait_until(lambda: panel.colours_drawn() > 5, what="curves")
    slider = panel.root.get_by_role("slider")

    def rewind() -> bool:  # JupyterLab moves the focus to what has been opened, some time after that is shown
        slider.press("Home")
        return slider.get_attribute("aria-valuenow") == "0"

    wait_until(rewind, what="the beginning of the session")
    expect(rows).to_have_count(0, timeout=PATIENCE_MS)
    panel.root.get_by_role("button", name=end, exact=True).click()
    expect(rows).to_have_count(2, timeout=PATIENCE_MS)
    expect(rows.last).to_contain_text("goal reached")
