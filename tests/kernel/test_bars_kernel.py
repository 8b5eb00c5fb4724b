"""Progress bars of tasks: what they say in the end, in every place that shows them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from support.kernels import Kernel, value
from support.waiting import wait_until

DEFINITIONS = """
@cm.remote
def count(gate, n=50):
    from tqdm import tqdm
    for i in tqdm(range(n), desc="counting"):
        while i >= 20 and not os.path.exists(gate): time.sleep(0.005)
    return n
"""


@pytest.fixture(scope="module", autouse=True)
def definitions(kernel: Kernel) -> None:
    kernel.run(DEFINITIONS)


def states(kernel: Kernel, request: str) -> list[dict[str, str]]:
    """The states of the one bar under a cell, in order."""
    (shown,) = kernel.of(request, "display_data")
    display_id = shown["content"]["transient"]["display_id"]
    return [
        m["content"]["data"]
        for m in list(kernel.messages)
        if m["msg_type"] in ("display_data", "update_display_data")
        and m["content"]["transient"].get("display_id") == display_id
    ]


def last(kernel: Kernel, request: str) -> str:
    return states(kernel, request)[-1]["text/plain"] if kernel.of(request, "display_data") else ""


def test_the_end_of_a_cell_has_the_end_of_its_bars(kernel: Kernel, tmp_path: Path) -> None:
    """What a program that saves the notebook then finds."""
    for i in range(4):
        gate = tmp_path / f"gate {i}"
        request = kernel.start(f"cm.get(count.remote({str(gate)!r})); None")
        wait_until(lambda request=request: "counting" in last(kernel, request))
        gate.touch()
        kernel.wait(request)
        assert "100%" in kernel.of(request, "update_display_data")[-1]["content"]["data"]["text/plain"]


def test_what_changes_when_the_cell_has_ended_goes_through_the_one_that_runs(kernel: Kernel, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    request = kernel.run(f"ref = count.remote({str(gate)!r})")
    wait_until(lambda: "40%" in last(kernel, request) or "counting" in last(kernel, request))
    later = kernel.start(f"open({str(gate)!r}, 'w').close(); cm.get(ref); None")
    kernel.wait(later)
    assert "100%" in kernel.of(later, "update_display_data")[-1]["content"]["data"]["text/plain"]


@pytest.mark.parametrize("end", ["cm.cancel(ref)", "cm.cancel(ref, force=True)"])
def test_a_bar_of_a_cancelled_task_says_so(kernel: Kernel, tmp_path: Path, end: str) -> None:
    request = kernel.run(f"ref = count.options(max_retries=0).remote({str(tmp_path / 'gate')!r})")
    wait_until(lambda: "counting" in last(kernel, request))
    kernel.run(f"{end}\ncm.wait([ref])")
    wait_until(lambda: last(kernel, request).endswith(" · cancelled"), what="the mark")
    shown = states(kernel, request)[-1]["text/html"]
    assert "accent-color:#8a6200" in shown and shown.count("<div") == shown.count("</div>") == 1


def test_a_bar_of_a_failed_task_says_so_and_one_of_a_loop_that_was_left_does_not(kernel: Kernel) -> None:
    request = kernel.run("%%remote\nfrom tqdm import tqdm\nfor i in tqdm(range(10)):\n    if i == 5: raise ValueError")
    wait_until(lambda: last(kernel, request).endswith(" · failed"), what="the mark")
    left = kernel.run("%%remote --wait\nfrom tqdm import tqdm\nfor i in tqdm(range(10)):\n    if i == 5: break")
    wait_until(lambda: re.search(r"5/10 \[.*\]$", last(kernel, left)), what="the bar of the loop")
    assert "accent-color:auto" in states(kernel, left)[-1]["text/html"]
    assert value(kernel, "[t.name for t in __import__('threading').enumerate() if 'bars' in t.name]") == []


SEEN = """
def seen(n):
    while len(get_ipython().magics_manager.registry["CellmeshMagics"].host.output._bars._bars) < n: time.sleep(0.005)
"""


def test_a_saved_notebook_has_bars_at_their_end(tmp_path: Path) -> None:
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    cells = [
        "%load_ext cellmesh\nimport cellmesh as cm, os, time\ncm.init(num_cpus=2)",
        DEFINITIONS + SEEN,
        f"refs = [count.remote({one!r}) for _ in range(2)]\nseen(2)",
        f"open({one!r}, 'w').close()\ncm.get(refs)",
        f"ref = count.remote({two!r})\nseen(3)\nopen({two!r}, 'w').close()\ncm.get(ref)",
        f"more = [count.remote({two!r}) for _ in range(3)]\ncm.progress(more)",
        "cm.get(more)",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
    NotebookClient(notebook, timeout=60, kernel_name="python3").execute()

    def shown(cell: Any) -> list[str]:
        return [output["data"]["text/plain"] for output in cell.outputs if output.output_type == "display_data"]

    bars = [text for cell in notebook.cells[2:5] for text in shown(cell)]
    assert len(bars) == 3 and all("100%" in text for text in bars), bars
    assert any("3/3" in text for text in shown(notebook.cells[5])), shown(notebook.cells[5])
