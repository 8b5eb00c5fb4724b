"""Time travel, recordings, logs, memory and machine in a real JupyterLab; a recording as a page in a browser alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from support.waiting import wait_until
from ui.cells import ADD, LOAD, TREE, start
from ui.lab import Lab, LabServer
from ui.panel import PATIENCE_MS, Panel

HOSTILE = '<img src=x onerror="window.hostile=1"></script><script>window.hostile=1</script>'
WORK = f"""import numpy as np
@cm.remote
def say(word):
    print(word)
    return np.ones(300_000)
held = [say.remote(word) for word in ("one", "two", {HOSTILE!r})]
@cm.remote
def fail():
    raise ValueError({HOSTILE!r})
cm.wait([fail.remote()])
cm.wait(held, num_returns=3)
len(held)"""


@pytest.fixture
def panel(lab: Lab) -> Panel:
    return Panel(lab.page)


def track(panel: Panel, share: float) -> None:
    """Press on the slider."""
    box = panel.root.get_by_role("slider").bounding_box()
    assert box
    panel.page.mouse.click(box["x"] + share * box["width"], box["y"] + box["height"] / 2)


def test_the_slider_shows_the_session_as_it_was(lab: Lab, panel: Panel) -> None:
    start(
        lab,
        "import time\n@cm.remote(num_cpus=2)\ndef nap(i):\n    time.sleep(0.2)\ncm.get([nap.remote(i) for i in "
        "range(5)])",
    )
    lab.run_cell(1)
    panel.expect_tasks(5)
    panel.tasks()
    track(panel, 0.5)
    big = panel.root.locator(".cm-big")
    expect(big).not_to_have_text("5", timeout=PATIENCE_MS)
    ended = int(big.inner_text())
    assert 0 < ended < 5
    panel.expect_count("running", 1)
    slider = panel.root.get_by_role("slider")
    slider.press("ArrowRight")
    assert int(big.inner_text()) >= ended
    slider.press("Home")
    panel.expect_tasks(0)
    panel.root.get_by_role("button", name="Play the session from here").click()
    panel.expect_tasks(5)
    expect(panel.root.get_by_role("button", name="Now")).to_have_attribute("aria-pressed", "true", timeout=PATIENCE_MS)
    # In the past nothing can be done to a task, and its value of today is not shown.
    track(panel, 0.5)
    panel.list().first.click()
    expect(panel.card).to_contain_text("As it was at")
    expect(panel.card.get_by_role("button", name="Cancel")).to_have_count(0)
    panel.root.get_by_role("button", name="Now").click()
    expect(panel.card).not_to_contain_text("As it was at")


def test_a_session_is_saved_and_opened_without_its_kernel(lab: Lab, panel: Panel, browser: Browser) -> None:
    start(lab, ADD, TREE, WORK)
    for index in (1, 2, 3):
        lab.run_cell(index)
    panel.expect_tasks(11)
    for name in ("work.html", "work.cellmesh"):
        panel.root.get_by_role("button", name="Save the session").click()
        field = panel.root.locator(".cm-history input")
        assert field.input_value() == "work.cellmesh"
        field.fill(name)
        field.press("Enter")
        expect(panel.root).to_contain_text(f"Saved {name}", timeout=PATIENCE_MS)
    panel.root.get_by_role("button", name="Open", exact=True).click()
    lab.page.evaluate("() => window.notebookPanel.sessionContext.shutdown()")
    document = Panel(lab.page, within=".jp-Document:not(.jp-NotebookPanel)")
    document.expect_tasks(11)
    document.list().first.click()
    expect(document.card).to_be_visible()
    for action in ("Cancel", "Retry", "Fetch"):
        expect(document.card.get_by_role("button", name=action)).to_have_count(0)
    check_page(browser, lab.server.root / "work.html")
    for locale, headline in (("de-AT", "von 11 Tasks"), ("ja-JP", "/ タスク 11"), ("fr-FR", "of 11 tasks")):
        context = browser.new_context(locale=locale)
        page = context.new_page()
        page.goto((lab.server.root / "work.html").as_uri())
        expect(page.locator(".cm-of")).to_have_text(headline, timeout=PATIENCE_MS)
        context.close()


def check_page(browser: Browser, path: Path) -> None:
    """The saved page shows the session, all of it, runs nothing of what tasks said, and asks nobody for anything."""
    context = browser.new_context(viewport={"width": 1000, "height": 760}, locale="en-US")
    page: Page = context.new_page()
    asked: list[str] = []
    errors: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(path.as_uri())
    shown = Panel(page, within="#run")
    shown.expect_tasks(11)
    wait_until(lambda: shown.colours_drawn() > 5, what="a picture in the page")
    expect(shown.root.get_by_role("button", name="Follow the work")).to_have_attribute("aria-pressed", "false")
    for view in ("Timeline", "Memory", "Machine", "Logs"):
        shown.root.get_by_role("tab", name=view).click()
    expect(shown.root.locator(".cm-said", has_text="window.hostile")).to_have_count(1)
    shown.root.get_by_role("searchbox").fill("say two")
    expect(shown.root.locator(".cm-said")).to_have_text(["two"])
    rows = shown.list()
    rows.filter(has_text="fail").click()
    expect(shown.card.frame_locator("iframe").locator("body")).to_contain_text("ValueError", timeout=PATIENCE_MS)
    assert page.evaluate("() => window.hostile") is None and not errors
    assert [url for url in asked if not re.match(r"file:|about:|data:|blob:", url)] == []
    context.close()


def test_logs_memory_and_machine_show_what_there_is(lab: Lab, panel: Panel) -> None:
    start(
        lab,
        "cm.shutdown()\ncm.init(num_cpus=2, num_gpus=2);",
        WORK.replace("@cm.remote\ndef say", "@cm.remote(num_gpus=0.5)\ndef say"),
    )
    lab.run_cell(1)
    lab.run_cell(2)
    panel.expect_tasks(4)
    panel.root.get_by_role("tab", name="Logs").click()
    said = panel.root.locator(".cm-said")
    expect(said).to_have_count(3, timeout=PATIENCE_MS)
    panel.root.get_by_role("searchbox").fill("two")
    expect(said).to_have_text(["two"])
    said.click()
    expect(panel.card).to_contain_text("say")
    lab.page.keyboard.press("Escape")
    panel.root.get_by_role("tab", name="Memory").click()
    boxes = panel.root.locator(".cm-value-box")
    boxes.first.click(timeout=PATIENCE_MS)
    expect(panel.root.locator(".cm-held")).to_contain_text("variable held")
    expect(panel.root.locator(".cm-held")).to_contain_text("this driver")
    panel.root.get_by_role("tab", name="Machine").click()
    for what in ("CPU: .* of 2", "GPU: tasks have .* of 2", "Memory: .* of ", "Store: .* of "):
        expect(panel.root.get_by_role("img", name=re.compile(what))).to_be_visible()
    assert lab.page.evaluate("() => window.hostile") is None


def test_a_stretch_marked_in_the_timeline_filters_the_other_views(lab: Lab, panel: Panel) -> None:
    say = (
        "import numpy as np, time\n@cm.remote\ndef {0}():\n    time.sleep({1})\n    print('{0}')\n    time.sleep({2})\n"
        "    return np.ones(300_000)\n{0}_ref = {0}.remote()\ncm.wait([{0}_ref]);"
    )
    start(lab, say.format("early", 0.1, 0), say.format("late", 1.5, 0.3))
    lab.run_cell(1)
    lab.run_cell(2)
    panel.expect_tasks(2)
    panel.root.get_by_role("tab", name="Timeline").click()
    wait_until(lambda: panel.colours_drawn() > 5, what="lanes with bars")
    box = panel.canvas.bounding_box()
    assert box
    y, right = (
        box["y"] + box["height"] - 5,
        box["x"] + box["width"],
    )  # a quarter of all there is: the later task alone, from before it prints to its end
    lab.page.keyboard.down("Shift")
    lab.page.mouse.move(right - 1, y)
    lab.page.mouse.down()
    lab.page.mouse.move(right - box["width"] / 4, y, steps=4)
    lab.page.mouse.up()
    lab.page.keyboard.up("Shift")
    marked = panel.root.locator(".cm-range")
    expect(marked).to_contain_text("marked")
    expect(panel.list()).to_have_count(1)
    expect(panel.root.locator(".cm-list .cm-row")).to_contain_text("late")
    panel.root.get_by_role("tab", name="Logs").click()
    said = panel.root.locator(".cm-said")
    expect(said).to_have_text(["late"], timeout=PATIENCE_MS)
    panel.root.get_by_role("tab", name="Memory").click()
    expect(panel.root.locator(".cm-value-box.cm-dim").first).to_be_visible(timeout=PATIENCE_MS)
    expect(panel.root.locator(".cm-value-box:not(.cm-dim)")).to_have_attribute("title", re.compile("late"))
    panel.root.get_by_role("tab", name="Machine").click()
    expect(panel.root.locator(".cm-curve-marked").first).to_be_visible()
    panel.root.get_by_role("tab", name="Groups").click()
    wait_until(lambda: panel.colours_drawn() > 5, what="groups")
    dimmed = panel.colours_drawn()
    panel.root.get_by_role("tab", name="Logs").click()
    marked.click()
    expect(said).to_have_text(["early", "late"])
    panel.root.get_by_role("tab", name="Groups").click()
    wait_until(lambda: panel.colours_drawn() not in (dimmed, 1), what="groups, all of them lit")


def test_cells_show_how_far_their_tasks_are(lab: Lab, panel: Panel) -> None:
    start(lab, ADD, TREE, WORK)
    for index in (1, 2, 3):
        lab.run_cell(index)
    panel.expect_tasks(11)
    expect(lab.cell(2).locator(".cm-badge")).to_have_attribute(
        "title", "Tasks of this cell: 7 finished", timeout=PATIENCE_MS
    )
    expect(lab.cell(3).locator(".cm-badge")).to_have_attribute("title", "Tasks of this cell: 3 finished, 1 failed")
    expect(lab.cell(1).locator(".cm-badge")).to_have_count(0)
    lab.page.evaluate(
        "() => [...window.jupyterapp.shell.widgets('main')].find(each => each.id === 'cellmesh-panel').close()"
    )
    expect(lab.page.locator(".cm-badge")).to_have_count(0)


@pytest.mark.own_page
def test_what_was_chosen_is_there_after_a_reload(lab: Lab, panel: Panel) -> None:
    start(lab, ADD, TREE)
    lab.run_cell(1)
    lab.run_cell(2)
    panel.expect_tasks(7)
    with lab.page.expect_response(
        lambda response: "/api/workspaces/" in response.url and response.request.method == "PUT"
    ):
        panel.list().first.click()  # what is open and chosen is stored a moment later
    expect(panel.card).to_contain_text("finished")
    lab.page.on("dialog", lambda dialog: dialog.accept())  # the notebook has not been saved
    lab.page.reload()
    expect(panel.root.get_by_role("tab", name="Tables")).to_have_attribute("aria-selected", "true", timeout=PATIENCE_MS)
    expect(panel.card).to_contain_text("finished", timeout=PATIENCE_MS)


def test_a_pinned_panel_stays_with_its_notebook(lab: Lab, panel: Panel) -> None:
    second = lab.write("second.ipynb", [LOAD])
    start(lab, ADD, TREE)
    lab.run_cell(1)
    lab.run_cell(2)
    panel.expect_tasks(7)
    panel.root.get_by_role("button", name="Stay with work.ipynb").click()
    lab.command("docmanager:open", path=second)
    lab.take_current()
    lab.run_cell(0)
    panel.expect_tasks(7)
    panel.root.get_by_role("button", name="Stay with work.ipynb").click()
    expect(panel.root).to_contain_text("Nothing has run yet", timeout=PATIENCE_MS)


def test_a_value_that_nobody_holds_is_not_offered(lab: Lab, panel: Panel) -> None:
    start(
        lab,
        ADD,
        "kept = add.remote(1, 2)\ncm.get(kept)\ncm.get(add.remote(3, 4))",
        "from cellmesh.session.current import current\n"
        "current().client.flush()  # who looks within half a second still finds the value, and keeps it",
    )
    lab.run_cell(1)
    lab.run_cell(2)
    lab.run_cell(3)
    panel.expect_tasks(2)
    rows = panel.list()
    rows.last.click()
    expect(panel.button("Fetch")).to_be_enabled(timeout=PATIENCE_MS)
    rows.first.click()
    expect(panel.button("Fetch")).to_be_disabled(timeout=PATIENCE_MS)


def test_the_panel_works_below_a_prefix(tmp_path: Path, browser: Browser) -> None:
    (tmp_path / "notebooks").mkdir()
    server = LabServer(tmp_path / "notebooks", tmp_path / "jupyter", prefix="/user/jo")
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    behind = Lab(server, page)
    start(behind, ADD, TREE)
    behind.run_cell(1)
    behind.run_cell(2)
    shown = Panel(page)
    shown.expect_tasks(7)
    shown.root.get_by_role("tab", name="Logs").click()  # loaded only now
    expect(shown.root.get_by_role("log")).to_be_visible(timeout=PATIENCE_MS)
    behind.close()
    page.close()
    server.close()
    assert not behind.errors


def test_everything_can_be_heard_and_reached_by_keyboard(lab: Lab, panel: Panel) -> None:
    start(lab, ADD, TREE, WORK)
    for index in (1, 2, 3):
        lab.run_cell(index)
    panel.expect_tasks(11)
    expect(panel.root.locator("[aria-live=polite]")).to_contain_text("11 tasks", timeout=PATIENCE_MS)
    for view in ("Groups", "Tasks", "Timeline", "Tables", "Memory", "Machine", "Logs"):
        tab = panel.root.get_by_role("tab", name=view, exact=True)
        tab.focus()
        lab.page.keyboard.press("Enter")
        expect(tab).to_have_attribute("aria-selected", "true")
        lab.settle()
        nameless = panel.root.evaluate("""root => [
            ...root.querySelectorAll('button, input, canvas, [role], iframe, [tabindex="0"]')
        ]
            .filter(each => !document.getElementById(each.getAttribute('aria-labelledby')))
            .filter(each => !(each.ariaLabel || each.title || each.placeholder || each.textContent.trim()))
            .filter(each => !['presentation', 'none', 'status', 'log', 'row', 'grid'].includes(each.role))
            .map(each => each.outerHTML.slice(0, 120))""")
        assert not nameless, (view, nameless)
    panel.root.get_by_role("tab", name="Tasks", exact=True).click()
    panel.canvas.focus()
    for key in ("f", "ArrowRight", "ArrowDown", "Enter"):
        lab.page.keyboard.press(key)
    expect(panel.card).to_be_visible()
    assert lab.page.evaluate("() => document.activeElement.closest('.cm-card') !== null"), (
        "Enter leads to what can be done"
    )
    lab.page.keyboard.press("Escape")


def test_a_group_has_a_lane_for_each_rank_one_box_and_its_members_together(lab: Lab, panel: Panel) -> None:
    start(
        lab,
        "class Trainer:\n    def step(self): cm.current_group().barrier()\n"
        "workers = cm.group(Trainer, 3)\ncm.get(workers.step.remote())",
    )
    lab.run_cell(1)
    assert not lab.errors_of(1), lab.output(1)
    members = panel.root.locator(".cm-members")
    expect(members).to_contain_text("Trainer · 3 members", timeout=PATIENCE_MS)
    assert members.locator(".cm-actor-name").all_inner_texts() == ["rank 0", "rank 1", "rank 2"]
    panel.root.get_by_role("tab", name="Timeline").click()
    wait_until(lambda: panel.colours_drawn() > 5, what="lanes with bars")
    with lab.page.expect_download() as saved:
        panel.root.get_by_role("button", name="Save SVG").click()
    lanes = re.findall(r">(rank \d · \w+)<", saved.value.path().read_text())
    assert lanes == [f"rank {rank} · Trainer" for rank in range(3)]
