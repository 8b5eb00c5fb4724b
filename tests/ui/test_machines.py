"""A notebook with several machines in a real JupyterLab: three nodes, one of which is killed halfway.

With CELLMESH_PICTURES=FOLDER it leaves the pictures of docs/cluster.md there, in both themes.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from support.real_machines import Machine, kill_sessions, machines
from support.waiting import wait_until
from ui.lab import Lab, LabServer
from ui.panel import PATIENCE_MS, Panel

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = "05-several-machines.ipynb"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: gives machines names of their own")
# Cells of it: those before the run, the run, the check, where it ran, and which machines there are.
BEFORE, RUN, CHECK, WHERE, NODES = (1, 3, 5), 7, 9, 11, 12
SIZE, SMALLER = "256 if FAST else 512", "320"  # of its matrices: a quarter of the work
PICTURES = os.environ.get("CELLMESH_PICTURES")


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, browser: Browser) -> Iterator[tuple[Lab, Machine, Machine]]:
    """JupyterLab on one machine; beside it the head with a node, and one more node, which is to be killed."""
    with machines(Machine(name="oak"), Machine(name="elm"), Machine(name="ash")) as (head_machine, other, own):
        head = head_machine.head("--num-cpus", "2")
        other.join(head, head_machine.run("token"), "--num-cpus", "2")
        token = tmp_path / "token"
        token.write_text(head_machine.run("token"))
        token.chmod(0o600)
        for name, value in {
            **own.environment,
            "CELLMESH_ADDRESS": f"tcp://{head['address']}",
            "CELLMESH_TOKEN_FILE": str(token),
        }.items():
            monkeypatch.setenv(name, value)
        server = LabServer(tmp_path, tmp_path / "jupyter", command=own.command())
        page = browser.new_page(
            viewport={"width": 1500, "height": 1240 if PICTURES else 900}, device_scale_factor=2 if PICTURES else 1
        )
        instance = Lab(server, page)
        try:
            yield instance, head_machine, other
            assert not instance.errors, f"errors in the page: {instance.errors}"
        finally:
            instance.close()
            page.close()
            server.close()


def take(lab: Lab, panel: Panel, view: str) -> None:
    """A picture of a view in both themes, for docs/images."""
    panel.root.get_by_role("tab", name=view).click()
    for theme in ("light", "dark") if PICTURES else ():
        lab.theme(theme)
        lab.settle()
        panel.root.screenshot(path=Path(PICTURES, f"machines-{view.lower().replace(' ', '-')}-{theme}.png"))


@pytest.mark.timeout(240)
def test_a_machine_is_killed_halfway_and_the_result_is_exact(lab: tuple[Lab, Machine, Machine]) -> None:
    page, _, other = lab
    text = (ROOT / "notebooks" / NOTEBOOK).read_text()
    assert text.count(SIZE) == 1
    (page.server.root / NOTEBOOK).write_text(text if PICTURES else text.replace(SIZE, SMALLER))
    page.open(NOTEBOOK)
    page.command("filebrowser:hide-main")
    panel = Panel(page.page)
    for index in BEFORE:
        page.run_cell(index)
    page.start_cell(RUN)
    big = panel.root.locator(".cm-big")
    wait_until(lambda: big.count() and int(big.inner_text() or 0) >= 48, 90, "a third of 144 tasks has ended")
    kill_sessions(other)
    page.finish_cell(RUN)
    assert not page.errors_of(RUN), page.output(RUN)
    page.run_cell(CHECK)
    assert re.search("every one of the [0-9,]+ numbers is right", page.output(CHECK))
    assert not page.errors_of(CHECK)
    wait_until(lambda: int(big.inner_text()) >= 144, what="the panel has all tasks, and those that were made again")
    page.run_cell(WHERE)
    where = page.output(WHERE)
    assert "oak" in where and "ash" in where, where
    page.run_cell(NODES)
    assert "'elm'" in page.output(NODES) and "'dead'" in page.output(NODES)

    take(page, panel, "Nodes")
    rows = panel.root.locator(".cm-machines li")
    expect(rows).to_have_count(3, timeout=PATIENCE_MS)
    expect(rows.filter(has_text="elm")).to_contain_text("lost at")
    take(page, panel, "Timeline")
    take(page, panel, "Tasks")
    take(page, panel, "By machine")
    expect(panel.root.get_by_role("tab", name="By machine")).to_have_attribute("aria-selected", "true")
    expect(panel.root.get_by_role("tab", name="Groups")).to_have_attribute("aria-selected", "false")
    panel.root.get_by_role("tab", name="Tables").click()
    search = panel.root.get_by_role("searchbox")
    search.fill("oak")
    expect(panel.root.locator(".cm-list .cm-row").first).to_contain_text("oak", timeout=PATIENCE_MS)
    # What the file of the trace says is what the timeline shows.
    panel.root.get_by_role("tab", name="Timeline").click()
    with page.page.expect_download() as download:
        panel.root.get_by_role("button", name="Save trace").click()
    events = json.loads(Path(download.value.path()).read_text())["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    lost = [event for event in events if event.get("cat") == "lost"]
    assert {"oak", "elm"} <= set(names.values())
    assert {names[event["pid"]] for event in lost} == {"elm"}
    assert any(event.get("cat") == "transfer" and event["args"]["complete"] for event in events)
    assert {names[event["pid"]] for event in events if event["ph"] == "X" and event.get("cat") == "finished"} >= {"oak"}
