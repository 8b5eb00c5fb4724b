"""The panel by keyboard, by screen reader, by command and in little room: every reader can use it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect
from support.waiting import wait_until
from ui.cells import ADD, SLOW, TREE, start
from ui.lab import Lab
from ui.panel import PATIENCE_MS, Panel

FAILING = """@cm.remote
def load(path): return open(path).read()
@cm.remote
def clean(text): return text.strip()
@cm.remote
def report(*texts): return len(texts)
parts = [clean.remote(load.remote(path)) for path in ("no-such-file.csv", "/dev/null")]
cm.wait([report.remote(*parts)]);"""


@pytest.fixture
def panel(lab: Lab) -> Panel:
    return Panel(lab.page)


def run(lab: Lab, *cells: str) -> None:
    start(lab, *cells)
    for index in range(1, len(cells) + 1):
        lab.run_cell(index)


def test_keys_of_the_graph_do_not_scroll_the_notebook(lab: Lab) -> None:
    run(lab, ADD, TREE, "%graph")
    widget = Panel(lab.page, within=".jp-OutputArea")
    widget.expect_tasks(7)
    pressed = """(canvas, key) =>
        !canvas.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true, cancelable: true}))"""
    for key in ("ArrowDown", "ArrowUp", "ArrowRight", "Enter", "Escape", "+", "f"):
        assert widget.canvas.evaluate(pressed, key), f"the page scrolls by {key} as well"
    assert not widget.canvas.evaluate(pressed, "PageDown"), "a key that means nothing here is the page's"


def test_views_are_tabs_with_one_stop_and_arrow_keys(lab: Lab, panel: Panel) -> None:
    run(lab, ADD, TREE)
    panel.expect_tasks(7)
    tabs = panel.root.get_by_role("tablist", name="View").get_by_role("tab")
    chosen = panel.root.get_by_role("tab", selected=True)
    panel.root.get_by_role("tab", name="Groups").click()
    for key, name in (
        ("ArrowRight", "Tasks"),
        ("ArrowRight", "Timeline"),
        ("End", "Logs"),
        ("ArrowRight", "Groups"),
        ("ArrowLeft", "Logs"),
        ("Home", "Groups"),
    ):
        lab.page.keyboard.press(key)
        expect(chosen).to_have_accessible_name(name)
        expect(chosen).to_be_focused()
        assert tabs.evaluate_all("all => all.filter(each => each.tabIndex === 0).length") == 1
    shown = panel.root.get_by_role("tabpanel", name="Groups")
    assert chosen.get_attribute("aria-controls") == shown.get_attribute("id")
    panel.list()
    expect(panel.root.get_by_role("grid")).to_be_visible()
    names = panel.root.locator("[role=tab], [role=radio]").evaluate_all(
        "all => all.map(each => each.ariaLabel || each.textContent)"
    )
    assert len(set(names)) == len(names) == 11, names
    kinds = panel.root.get_by_role("radiogroup", name="Table")
    kinds.get_by_role("radio", name="Table of tasks").press("ArrowRight")
    expect(kinds.get_by_role("radio", checked=True)).to_have_accessible_name("Table of objects")


def test_outputs_of_ranks_are_tabs_of_which_the_keyboard_reaches_each(lab: Lab) -> None:
    run(lab, "%ranks 2", "%%ranks\nfor i in range(20): print(f'line {i} of rank {rank}')")
    output = lab.cell(2)
    tabs = [output.locator("summary").filter(has_text=re.compile(rf"^rank {rank}$")) for rank in range(2)]
    shown = [output.get_by_text(f"line 7 of rank {rank}") for rank in range(2)]
    expect(shown[0]).to_be_visible()
    expect(shown[1]).not_to_be_visible()
    boxes = [tab.bounding_box() for tab in tabs]
    assert boxes[0] and boxes[1] and boxes[0]["y"] == boxes[1]["y"], "beside each other"
    tabs[0].focus()
    for _ in range(2):  # the text, which can be scrolled, and the other tab
        lab.page.keyboard.press("Tab")
    expect(tabs[1]).to_be_focused()
    lab.page.keyboard.press("Space")
    expect(shown[1]).to_be_visible()
    expect(shown[0]).not_to_be_visible()
    tabs[0].click()
    expect(shown[0]).to_be_visible()
    expect(shown[1]).not_to_be_visible()


def test_columns_say_how_they_are_sorted(lab: Lab, panel: Panel) -> None:
    run(lab, ADD, TREE)
    panel.expect_tasks(7)
    panel.list()
    ran = panel.root.get_by_role("columnheader", name="Ran")
    for order in ("none", "descending", "ascending", "none"):
        expect(ran).to_have_attribute("aria-sort", order)
        ran.get_by_role("button").click()
    grid = panel.root.get_by_role("grid")
    grid.press("ArrowDown")
    row = panel.root.locator(f"[id='{grid.get_attribute('aria-activedescendant')}']")
    expect(row).to_have_attribute("aria-rowindex", "2")  # the first is that of the headers
    expect(row.get_by_role("gridcell")).to_have_count(panel.root.get_by_role("columnheader").count())


def test_escape_closes_the_card_from_inside(lab: Lab, panel: Panel) -> None:
    run(lab, ADD, "kept = add.remote(1, 2)\ncm.get(kept)")
    panel.expect_tasks(1)
    panel.list().first.click()
    panel.button("Fetch").click()
    expect(panel.card.get_by_role("textbox")).to_be_focused()
    lab.page.keyboard.press("Escape")
    expect(panel.card.get_by_role("textbox")).to_have_count(0)
    lab.page.keyboard.press("Escape")
    expect(panel.card).to_have_count(0)
    expect(panel.root.get_by_role("grid")).to_be_focused()


def test_another_view_takes_the_card_away(lab: Lab, panel: Panel) -> None:
    run(lab, ADD, TREE)
    panel.expect_tasks(7)
    panel.list().first.click()
    expect(panel.card).to_be_visible()
    panel.root.get_by_role("tab", name="Memory").click()
    expect(panel.card).to_have_count(0)
    panel.list()
    expect(panel.root.locator(".cm-row[aria-selected=true]")).to_have_count(1)


def test_commands_do_what_the_panel_can(lab: Lab, panel: Panel) -> None:
    run(lab, SLOW.replace("\ncm.get(ref)", ""))
    panel.expect_count("running", 1)
    labels = lab.page.evaluate("""() => {
        const { commands } = window.jupyterapp;
        const ours = commands.listCommands().filter(id => id.startsWith('cellmesh:'));
        return Object.fromEntries(ours.map(id => [id, commands.label(id)]));
    }""")
    assert {
        "cellmesh:open-panel",
        "cellmesh:show-view",
        "cellmesh:search",
        "cellmesh:fit",
        "cellmesh:follow",
        "cellmesh:save-recording",
        "cellmesh:cancel-task",
        "cellmesh:retry-task",
        "cellmesh:pin",
    } == set(labels) and all(labels.values())
    assert (
        lab.page.evaluate(
            "() => window.jupyterapp.commands.keyBindings.filter(each => each.command.startsWith('cellmesh:')).length"
        )
        == 0
    )
    lab.command("cellmesh:show-view", view="timeline")
    expect(panel.root.get_by_role("tab", selected=True)).to_have_accessible_name("Timeline")
    lab.command("cellmesh:search")
    expect(panel.root.get_by_role("searchbox")).to_be_focused()
    assert not enabled(lab, "cellmesh:cancel-task") and not enabled(lab, "cellmesh:retry-task")
    panel.root.locator(".cm-list .cm-row").first.click()
    assert enabled(lab, "cellmesh:cancel-task")
    lab.command("cellmesh:cancel-task")
    panel.expect_count("cancelled", 1)
    wait_until(lambda: enabled(lab, "cellmesh:retry-task"), what="a task that can be retried")
    lab.command("cellmesh:save-recording")
    expect(panel.root.locator(".cm-history input")).to_be_focused()
    lab.command("cellmesh:fit")
    expect(panel.root.get_by_role("tab", selected=True)).to_have_accessible_name("Tasks")
    expect(panel.root.get_by_role("button", name="Follow the work")).to_have_attribute("aria-pressed", "false")
    lab.command("cellmesh:follow")
    expect(panel.root.get_by_role("button", name="Follow the work")).to_have_attribute("aria-pressed", "true")


def enabled(lab: Lab, command: str) -> bool:
    return lab.page.evaluate("command => window.jupyterapp.commands.isEnabled(command)", command)


def test_failures_lead_to_where_they_began(lab: Lab, panel: Panel) -> None:
    run(lab, FAILING)
    panel.expect_tasks(5)
    panel.expect_count("failed", 3)
    expect(panel.root.locator(".cm-chip", has_text="failed")).to_contain_text("2 of them only through their inputs")
    rows = panel.list()
    report = rows.filter(has_text="report")
    expect(report).to_contain_text("failed via load")
    expect(report).to_have_attribute(
        "title", re.compile("failed only through load: FileNotFoundError: .*no-such-file"), timeout=PATIENCE_MS
    )
    report.click()
    expect(panel.card).to_contain_text("failed only through load: FileNotFoundError")
    panel.button("Show load, where it began").click()
    expect(panel.root.get_by_role("region", name="Card of load")).to_be_visible()
    expect(panel.card.get_by_role("button", name="where it began")).to_have_count(0)
    panel.tasks()
    expect(panel.card).to_have_count(0)
    panel.click_a_box()
    lab.page.keyboard.press("Escape")


def test_the_tooltip_of_a_process_that_was_killed_says_so(lab: Lab, panel: Panel) -> None:
    run(
        lab,
        "import os\n@cm.remote(max_retries=0)\ndef die(): os.kill(os.getpid(), 9)\nref = die.remote()\ncm.wait([ref]);",
    )
    panel.expect_count("failed", 1)
    panel.list()
    expect(panel.root.locator(".cm-list .cm-row")).to_have_attribute(
        "title", "its process was killed by SIGKILL", timeout=PATIENCE_MS
    )


@pytest.mark.own_page
def test_the_clock_says_whose_it_is_and_stands_when_nothing_runs(lab: Lab, panel: Panel) -> None:
    run(lab, ADD, "cm.get(add.remote(1, 1))", "cm.put(b'x' * 300_000);")
    panel.expect_tasks(1)
    clock = panel.root.locator(".cm-clock")
    expect(clock).to_have_text(re.compile(r"^In \[3\] [\d.]+\s(µs|ms|s)$"))
    expect(clock).to_have_attribute("title", re.compile("to the end of its last one$"))  # the row's end has come, too
    before = clock.inner_text()
    lab.page.reload()
    expect(clock).to_have_text(before, timeout=PATIENCE_MS)  # whoever joins later sees the same
    expect(panel.root.locator(".cm-at")).to_have_count(0)
    panel.root.get_by_role("slider").press("Home")
    expect(panel.root.locator(".cm-at")).to_have_text(re.compile("^at "))


def test_bar_and_headline_are_of_the_same_numbers(lab: Lab, panel: Panel) -> None:
    run(lab, SLOW.replace("\ncm.get(ref)", ""))
    panel.expect_count("running", 1)
    panel.expect_tasks(0, of=1)
    bar = panel.root.get_by_role("progressbar")
    assert (bar.get_attribute("aria-valuenow"), bar.get_attribute("aria-valuemax")) == ("0", "1")
    expect(bar).to_have_attribute("title", "0 of 1 task has ended")
    expect(bar.locator(".cm-fill-3, .cm-fill-4, .cm-fill-5")).to_have_count(0)
    strength = bar.locator(".cm-fill-2").evaluate("each => getComputedStyle(each).backgroundColor")
    assert "0.3" in strength, f"what runs is drawn as what has ended: {strength}"
    expect(panel.root.locator(".cm-rate")).to_have_count(0)


def test_the_pin_knows_a_notebook_by_its_present_name(lab: Lab, panel: Panel) -> None:
    run(lab, ADD, TREE)
    panel.expect_tasks(7)
    expect(panel.root.get_by_role("button", name="Stay with work.ipynb")).to_be_visible()
    lab.page.evaluate("() => window.notebookPanel.context.rename('renamed.ipynb')")
    expect(panel.root.get_by_role("button", name="Stay with renamed.ipynb")).to_be_visible(timeout=PATIENCE_MS)


def test_in_little_room_tabs_are_signs_and_the_card_lies_beneath(lab: Lab, panel: Panel) -> None:
    lab.page.set_viewport_size({"width": 1000, "height": 800})
    run(lab, ADD, TREE)
    panel.expect_tasks(7)
    assert panel.root.bounding_box()["width"] < 360, "this tests nothing"
    tabs = panel.root.locator(".cm-tabs")
    for tab in tabs.get_by_role("tab").all():
        box, row = tab.bounding_box(), tabs.bounding_box()
        assert row["x"] <= box["x"] and box["x"] + box["width"] <= row["x"] + row["width"] + 0.5, (
            "a tab is out of sight"
        )
        assert tab.get_attribute("aria-label") and tab.get_attribute("title")
        expect(tab.locator("svg")).to_be_visible()
        expect(tab.locator("span")).not_to_be_visible()
    panel.tasks()
    panel.click_a_box()
    expect(panel.card).to_be_visible()
    wait_until(
        lambda: (
            panel.card.bounding_box()["y"]
            >= panel.canvas.bounding_box()["y"] + panel.canvas.bounding_box()["height"] - 1
        ),
        what="a card that covers nothing of the picture",
    )
    lab.page.set_viewport_size({"width": 1800, "height": 800})
    expect(panel.root.get_by_role("tab", name="Timeline").locator("span")).to_be_visible(timeout=PATIENCE_MS)
