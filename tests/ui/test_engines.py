"""A notebook on an engine in a real JupyterLab: what the engine's row says while the engine goes and comes back."""

from __future__ import annotations

import json
from pathlib import Path

from playwright.sync_api import expect
from ui.lab import Lab
from ui.panel import PATIENCE_MS, Panel

START = """%load_ext cellmesh
import cellmesh as cm
cm.init(address="fake:" + {file}, num_cpus=0, object_store_memory=64 << 20)"""
CALL = """@cm.remote
def engine():
    import os
    return os.getpid()

pid = cm.get(engine.remote())"""
KILL = """import os, signal
os.kill(pid, signal.SIGKILL)"""


def test_the_row_of_an_engine_says_what_has_become_of_it(lab: Lab, tmp_path: Path) -> None:
    """Its reason, which has the address, is shown as text."""
    file = tmp_path / "<b>engine"
    file.touch()
    lab.open(lab.write("engine.ipynb", [START.format(file=json.dumps(str(file))), CALL, KILL]))
    lab.run_cell(0)
    lab.run_cell(1)
    panel = Panel(lab.page)
    panel.root.get_by_role("tab", name="Nodes").click()
    rows = panel.root.locator(".cm-machines li").filter(has_text="fake")
    expect(rows).to_have_count(1, timeout=PATIENCE_MS)
    for words in ("connected", "0 of at most 1,000 under way", f"fake:{file}", "http://fake"):
        expect(rows).to_contain_text(words, timeout=PATIENCE_MS)
    file.unlink()
    lab.run_cell(2)
    expect(rows).to_contain_text("it is tried from the beginning", timeout=PATIENCE_MS)
    file.touch()
    expect(rows).to_have_count(2, timeout=PATIENCE_MS)
    expect(rows.filter(has_text="lost at")).to_have_count(1, timeout=PATIENCE_MS)
    expect(rows.filter(has_text="connected")).to_have_count(1, timeout=PATIENCE_MS)
