"""Pages of docs/ whose blocks are cells of a notebook, run from top to bottom, one kernel a page.

A block ``python raises=NAME`` ends in that error. A block ``text`` is what the one before it prints, or ranks show.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = ("pitfalls.md", "how-to.md", "shared-memory.md", "groups.md", "ranks.md", "tune.md", "train.md", "rl.md")
BLOCK = re.compile(r"```(?P<language>python|text)(?: raises=(?P<error>[\w()]+))?\n(?P<body>.*?)```", re.S)


@pytest.mark.may_keep("descriptors", "zmq context")
@pytest.mark.may_keep("threads", "zmq context")
@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_page_do_what_it_says(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))  # where experiments are kept
    blocks = list(BLOCK.finditer((DOCS / page).read_text()))
    assert blocks, "the page has no blocks"
    cells, printed, errors = [], {}, {}
    for block in blocks:
        if block["language"] == "text":
            printed[len(cells) - 1] = block["body"].strip()
            continue
        if block["error"]:
            errors[len(cells)] = block["error"]
        cells.append(
            nbformat.v4.new_code_cell(
                block["body"].strip(), metadata={"tags": ["raises-exception"] if block["error"] else []}
            )
        )
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(
        notebook, timeout=60, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    for number, cell in enumerate(cells):
        names = [output.ename for output in cell.outputs if output.output_type == "error"]
        assert names == [errors[number]] if number in errors else not names, cell.source
        if number in printed:
            said = "".join(
                output.text for output in cell.outputs if output.output_type == "stream" and output.name == "stdout"
            )
            if page == "ranks.md":  # what stands under a cell that runs in ranks
                said += "".join(
                    output.data["text/plain"] for output in cell.outputs if output.output_type == "display_data"
                )
            assert said.strip() == printed[number], cell.source


def test_the_comparison_s_own_blocks_run() -> None:
    done = subprocess.run(
        [sys.executable, DOCS / "tools" / "compared.py", "--run", "cellmesh"],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
