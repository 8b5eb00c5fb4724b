"""An idle kernel stays idle with a panel: while it is open, when its browser tab is hidden, and when it is closed."""

from __future__ import annotations

import json

from support.waiting import wait_until_at_rest
from ui.lab import Lab
from ui.panel import Panel

CELLS = [
    "import cellmesh as cm\n%load_ext cellmesh\ncm.init(num_cpus=2)",
    "%%remote --wait\nparts = [i * i for i in range(1000)]",
    "f = cm.remote(lambda i: print(i) or i)\nactor = cm.remote(type('Counter', (), {'call': lambda self: "
    "1})).remote()\n"
    "cm.get([*(f.remote(i) for i in range(200)), actor.call.remote()])[-1]",
    "import os, json\nfrom cellmesh.session.current import current\nfrom cellmesh.scheduler.system import processes\n"
    "print(json.dumps([os.getpid(), *processes.session_processes(current().node.session_id)]))",
]

# What a page knows of its tab; Chromium without a window hides none.
HIDE = """() => {
    Object.defineProperties(document, { hidden: { get: () => true }, visibilityState: { get: () => 'hidden' } });
    document.dispatchEvent(new Event('visibilitychange'));
}"""


def test_a_session_rests_under_an_open_panel_a_hidden_one_and_none(lab: Lab) -> None:
    lab.open(lab.write("rest.ipynb", CELLS))
    for index in range(3):
        lab.run_cell(index)
    pids = json.loads(lab.run_cell(3))
    panel = Panel(lab.page)
    panel.expect_tasks(203, of=203)  # the cell, 200 calls, the constructor, its method
    for view in ("Timeline", "Memory", "Machine"):
        panel.root.get_by_role("tab", name=view).click()
        wait_until_at_rest(lambda: pids)
    lab.page.evaluate(HIDE)
    wait_until_at_rest(lambda: pids)
    lab.page.evaluate(
        "() => [...window.jupyterapp.shell.widgets('main')].find(widget => widget.id === 'cellmesh-panel').close()"
    )
    wait_until_at_rest(lambda: pids)
