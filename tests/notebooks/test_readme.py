"""The README's example, run as it stands there: each block is a cell."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.may_keep("descriptors", "zmq context")
@pytest.mark.may_keep("threads", "zmq context")
def test_readme_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))  # where experiments are kept
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(block.strip()) for block in blocks])
    notebook.cells.append(nbformat.v4.new_code_cell("print(type(spread).__name__, spread.shape)"))
    NotebookClient(
        notebook, timeout=60, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    card = next(cell for cell in notebook.cells if cell.source.startswith("spread"))
    assert "text/html" in card.outputs[0].data
    assert notebook.cells[-1].outputs[0].text.strip() == "ndarray (8,)"
