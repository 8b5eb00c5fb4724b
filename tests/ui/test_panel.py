"""The panel in a real JupyterLab: what a reader sees and can do while cells run."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import expect
from support.waiting import wait_until
from ui.cells import ADD, LOAD, SLOW, TREE, start
from ui.lab import Lab
from ui.panel import PATIENCE_MS, Panel


@pytest.fixture
def panel(lab: Lab) -> Panel:
    return Panel(lab.page)


def test_opens_by_itself_beside_the_notebook(lab: Lab, panel: Panel) -> None:
    start(lab)
    panel.expect_open()
    notebook = lab.page.locator(".jp-NotebookPanel").bounding_box()
    beside = panel.root.bounding_box()
    assert notebook and beside and notebook["width"] > 300 and beside["width"] > 250
    assert beside["x"] >= notebook["x"] + notebook["width"] - 1


def test_shows_the_tasks_of_a_cell(lab: Lab, panel: Panel) -> None:
    start(lab, ADD, TREE)
    lab.run_cell(1)
    assert lab.run_cell(2) == "12"
    panel.expect_tasks(7, of=7)
    panel.tasks()
    wait_until(lambda: panel.colours_drawn() > 5, what="a picture of seven tasks")
    rows = panel.list()
    expect(rows).to_have_count(7)
    expect(rows.first).to_contain_text("add")


def test_a_click_opens_the_card_and_leads_to_the_cell(lab: Lab, panel: Panel) -> None:
    start(lab, ADD, "cm.get(add.remote(1, 41))", "# another cell")
    lab.run_cell(1)
    lab.run_cell(2)
    lab.run_cell(3)
    panel.expect_tasks(1)
    panel.tasks()
    panel.click_a_box()
    expect(panel.card).to_contain_text("add")
    expect(panel.card).to_contain_text("finished")
    panel.button("Go to").click()
    wait_until(
        lambda: lab.page.evaluate("() => window.notebookPanel.content.activeCellIndex") == 2,
        what="the cell that made the task is the active one",
    )


def test_lives_while_the_kernel_is_blocked_in_get(lab: Lab, panel: Panel) -> None:
    start(lab, SLOW)
    lab.start_cell(1)
    panel.expect_count("running", 1)
    panel.list().first.click()
    expect(panel.card).to_contain_text("slow", timeout=PATIENCE_MS)
    expect(panel.card.locator("iframe, .cm-text, pre").first).to_be_visible(timeout=PATIENCE_MS)
    panel.button("Cancel").click()
    lab.finish_cell(1)
    assert "TaskCancelledError" in lab.errors_of(1)
    panel.expect_count("cancelled", 1)


def test_the_stop_button_ends_a_blocking_get(lab: Lab, panel: Panel) -> None:
    start(lab, SLOW, "cm.cancel(ref)\n1 + 1")
    lab.start_cell(1)
    panel.expect_count("running", 1)
    lab.interrupt()
    lab.finish_cell(1)
    assert "KeyboardInterrupt" in lab.errors_of(1)
    assert lab.run_cell(2) == "2"


@pytest.mark.own_page
def test_comes_back_after_a_reload_while_a_cell_runs(lab: Lab, panel: Panel) -> None:
    start(lab, SLOW)
    lab.start_cell(1)
    panel.expect_count("running", 1)
    lab.page.reload()
    again = Panel(lab.page)
    again.expect_open()
    again.expect_count("running", 1)
    again.list().first.click()
    again.button("Cancel").click()
    again.expect_count("cancelled", 1)


def test_wears_the_dark_theme(lab: Lab, panel: Panel) -> None:
    start(lab, ADD, TREE)
    lab.run_cell(1)
    lab.run_cell(2)
    panel.expect_tasks(7)

    def brightness() -> float:
        colour = panel.root.evaluate("element => getComputedStyle(element).backgroundColor")
        return sum(map(int, re.findall(r"\d+", colour)[:3])) / 3

    assert brightness() > 200
    lab.theme("dark")
    wait_until(lambda: brightness() < 80, what="a dark panel")
    wait_until(lambda: panel.colours_drawn() > 5, what="a picture in the dark theme")


def test_toolbar_button_and_palette_open_it(lab: Lab, panel: Panel) -> None:
    start(lab)
    panel.expect_open()
    close_panel(lab)
    expect(panel.root).not_to_be_visible()
    lab.page.locator(".jp-NotebookPanel-toolbar [data-jp-item-name='cellmesh-panel']").click()
    panel.expect_open()
    close_panel(lab)
    lab.command("cellmesh:open-panel")
    panel.expect_open()


def test_tables_are_sorted_and_searched(lab: Lab, panel: Panel) -> None:
    start(
        lab,
        ADD,
        TREE,
        "@cm.remote\nclass Counter:\n    def up(self): return 1\n"
        "counter = Counter.remote(); cm.get(counter.up.remote())",
    )
    for index in (1, 2, 3):
        lab.run_cell(index)
    panel.expect_tasks(9)
    rows = panel.list()
    expect(rows).to_have_count(9)
    panel.root.get_by_role("button", name="Task", exact=True).click()
    expect(rows.first).to_contain_text("add")
    panel.root.get_by_role("button", name="Task", exact=True).click()
    expect(rows.first).to_contain_text("up")
    panel.root.get_by_role("searchbox").fill("add finished")
    expect(rows).to_have_count(7)
    panel.root.get_by_role("radio", name="Actors").click()
    panel.root.get_by_role("searchbox").fill("")
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("alive")
    panel.root.get_by_role("radio", name="Workers").click()
    wait_until(lambda: rows.count() >= 2, what="the worker processes")


def test_a_narrow_panel_keeps_all_its_views_in_reach(lab: Lab, panel: Panel) -> None:
    lab.page.set_viewport_size({"width": 1000, "height": 700})
    start(lab, ADD, TREE)
    lab.run_cell(1)
    lab.run_cell(2)
    panel.expect_tasks(7)
    width = panel.root.bounding_box()["width"]
    assert width < 360, f"the panel has {width} px: this tests nothing"
    for view in ("Groups", "Tasks", "Timeline", "Tables", "Memory", "Machine", "Logs", "Tables"):
        panel.root.get_by_role("tab", name=view).first.click(timeout=PATIENCE_MS)  # fails if something lies over it
        for tools in panel.root.locator(".cm-zoom").all():
            left = tools.bounding_box()["x"]
            tabs = panel.root.locator(".cm-tabs").bounding_box()  # which make room for tools when these come
            assert tabs["x"] + tabs["width"] < left, f"{view}: the tools lie over the tabs"
    inside = panel.root.locator(".cm-table-tools > :last-child").bounding_box()
    beside = panel.root.bounding_box()
    assert inside["x"] + inside["width"] <= beside["x"] + beside["width"], "the number of rows is cut off"


def test_ended_actors_are_folded_and_only_a_crash_is_red(lab: Lab, panel: Panel) -> None:
    start(
        lab,
        "import os\n@cm.remote(num_cpus=0)\nclass Server:\n    def pid(self): return os.getpid()\n"
        "    def crash(self): os._exit(3)\n"
        "killed, crashing, alive = (Server.options(name=name).remote() for name in ('killed', 'crashing', 'alive'))\n"
        "pids = cm.get([server.pid.remote() for server in (killed, crashing, alive)])\ncm.kill(killed)\n"
        "try:\n    cm.get(crashing.crash.remote())\nexcept cm.exceptions.ActorDiedError:\n    print(pids[2])",
    )
    pid = lab.run_cell(1).strip()
    actors = panel.root.locator(".cm-actors")
    shown = panel.root.locator(".cm-actors > ul > li")
    expect(shown).to_have_count(1, timeout=PATIENCE_MS)
    expect(shown).to_contain_text("alive")
    expect(shown).to_contain_text(f"pid {pid}")
    actors.get_by_text("2 ended").click()
    expect(actors.locator("li", has_text="killed")).to_contain_text("dead")
    expect(actors.locator(".cm-actor-crashed")).to_have_count(1)
    expect(actors.locator("li", has_text="crashing")).to_contain_text("crashed")


def test_a_notebook_opened_from_the_panel_lies_with_the_other_notebooks(lab: Lab, panel: Panel) -> None:
    second = lab.write("second.ipynb", [LOAD])
    start(lab, ADD, "cm.get(add.remote(1, 2))")
    lab.run_cell(1)
    lab.run_cell(2)
    first = lab.page.evaluate("() => window.notebookPanel.id")
    panel.list().first.click()  # what opens now would become a tab beside what was used last
    lab.command("docmanager:open", path=second)
    lab.take_current()
    lab.run_cell(0)
    panel.expect_open()
    expect(lab.page.locator("#" + lab.page.evaluate("() => window.notebookPanel.id"))).to_be_visible()
    expect(lab.page.locator(f"#{first}")).not_to_be_visible()


def test_the_timeline_shows_when_tasks_ran_and_is_saved_for_others(lab: Lab, panel: Panel) -> None:
    start(
        lab,
        "import time\n@cm.remote\ndef nap(seconds):\n    time.sleep(seconds)\n"
        "cm.get([nap.remote(0.05) for _ in range(6)])",
    )
    lab.run_cell(1)
    panel.expect_tasks(6)
    panel.root.get_by_role("tab", name="Timeline").click()
    lanes = Panel(lab.page).canvas
    wait_until(lambda: panel.colours_drawn() > 5, what="lanes with bars")
    with lab.page.expect_download() as saved:
        panel.root.get_by_role("button", name="Save trace").click()
    events = json.loads(saved.value.path().read_text())["traceEvents"]
    naps = [event for event in events if event["ph"] == "X" and event["cat"] != "arguments"]
    assert len(naps) == 6 and all(event["name"] == "nap" and event["dur"] > 50_000 for event in naps)
    with lab.page.expect_download() as saved:
        panel.root.get_by_role("button", name="Save SVG").click()
    assert "nap</text>" in saved.value.path().read_text()
    with lab.page.expect_download() as saved:
        panel.root.get_by_role("button", name="Save PNG").click()
    assert saved.value.path().read_bytes().startswith(b"\x89PNG") and saved.value.path().stat().st_size > 3000
    lanes.focus()
    lab.page.keyboard.press("ArrowRight")
    expect(panel.card).to_contain_text("nap")
    lab.page.keyboard.press("Escape")
    expect(panel.card).to_have_count(0)
    # The very end of the time: the last tasks ran in it, the others had ended before.
    box = lanes.bounding_box()
    assert box
    end = box["x"] + box["width"]
    lab.page.keyboard.down("Shift")
    lab.page.mouse.move(end - 30, box["y"] + 60)
    lab.page.mouse.down()
    lab.page.mouse.move(end - 2, box["y"] + 60, steps=3)
    lab.page.mouse.up()
    lab.page.keyboard.up("Shift")
    expect(panel.root).to_contain_text("marked")
    wait_until(lambda: 0 < panel.list().count() < 6, what="a list of the tasks in that stretch of time")


def test_the_graph_is_a_widget_in_a_cell_too(lab: Lab) -> None:
    start(lab, ADD, TREE, "%graph")
    lab.run_cell(1)
    lab.run_cell(2)
    lab.run_cell(3)
    widget = Panel(lab.page, within=".jp-OutputArea")
    widget.expect_open()
    widget.expect_tasks(7)
    wait_until(lambda: widget.colours_drawn() > 5, what="a picture in the cell")


def test_the_widget_keeps_its_card_open_when_the_picture_under_it_is_drawn_again(lab: Lab) -> None:
    start(lab, ADD, "cm.get(add.remote(1, 1))", "%graph", "cm.get(add.remote(2, 2))")
    for index in (1, 2, 3):
        lab.run_cell(index)
    widget = Panel(lab.page, within=".jp-OutputArea")
    widget.expect_tasks(1)
    widget.list().first.click()
    expect(widget.card).to_contain_text("finished")
    widget.root.evaluate("element => element.classList.add('before')")
    lab.run_cell(4)
    expect(lab.page.locator(".jp-OutputArea .cm-panel.before")).to_have_count(0, timeout=PATIENCE_MS)
    widget.expect_tasks(2)
    expect(widget.card).to_contain_text("finished")


def test_a_restart_of_the_kernel_leaves_a_working_panel(lab: Lab, panel: Panel) -> None:
    start(lab, ADD, TREE)
    lab.run_cell(1)
    lab.run_cell(2)
    panel.expect_tasks(7)
    lab.restart_kernel()
    for index in range(3):
        lab.run_cell(index)
    panel.expect_tasks(7, of=7)


@pytest.mark.own_page
def test_a_dead_session_does_not_come_back(lab: Lab, panel: Panel) -> None:
    start(lab, ADD, TREE)
    lab.run_cell(1)
    lab.run_cell(2)
    panel.expect_tasks(7)
    lab.page.reload()
    panel.expect_tasks(7)
    lab.take_current()
    n_before = unknown_messages(lab)
    lab.restart_kernel()
    expect(panel.root).to_contain_text("does not use cellmesh yet", timeout=PATIENCE_MS)
    expect(panel.root.locator(".cm-spoken")).to_be_empty()
    close_panel(lab)
    lab.command("launcher:create")
    lab.page.locator(".jp-LauncherCard", has_text="Task graph").click()
    panel.expect_open()
    expect(panel.root).to_contain_text(re.compile("does not use cellmesh yet|Saying hello"))
    expect(lab.page.locator(".jp-NotebookPanel")).to_be_visible()
    expect(lab.page.locator(".jp-Launcher")).to_have_count(0)
    expect(panel.root.get_by_role("button", name="Load cellmesh")).to_be_visible(timeout=PATIENCE_MS)
    # A kernel notes each message that it does not know in its log.
    assert unknown_messages(lab) - n_before <= 1


def test_a_kernel_without_cellmesh_is_told_how_to_begin(lab: Lab, panel: Panel) -> None:
    lab.open(lab.write("plain.ipynb", ["1 + 1"]))
    lab.command("cellmesh:open-panel")
    panel.expect_open()
    button = panel.root.get_by_role("button", name="Load cellmesh")
    expect(button).to_be_visible(timeout=PATIENCE_MS)
    button.click()
    expect(panel.root).to_contain_text("Nothing has run yet", timeout=PATIENCE_MS)


def unknown_messages(lab: Lab) -> int:
    return (lab.server.scratch / "jupyter.log").read_text().count("UNKNOWN CONTROL MESSAGE TYPE")


def close_panel(lab: Lab) -> None:
    """Close the panel the way its tab's cross does."""
    lab.page.evaluate("""() => {
        [...window.jupyterapp.shell.widgets('main')].find(widget => widget.id === 'cellmesh-panel').close();
    }""")


def test_a_failed_task_is_submitted_again_from_its_card(lab: Lab, panel: Panel) -> None:
    start(
        lab,
        "@cm.remote\ndef moody(path):\n    return open(path).read()",
        "fut = moody.remote('mood.txt')\ncm.wait([fut]);",
        "open('mood.txt', 'w').write('good')",
        "cm.get(fut)",
    )
    lab.run_cell(1)
    lab.run_cell(2)
    panel.expect_count("failed", 1)
    panel.list().first.click()
    lab.run_cell(3)
    panel.button("Retry").click()
    expect(panel.card).to_contain_text("Submitted again. The new future: fut.", timeout=PATIENCE_MS)
    assert lab.run_cell(4) == "'good'"
