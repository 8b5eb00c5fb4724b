"""What is left in a notebook that was executed without a front end (nbclient; papermill is the same)."""
from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = [pytest.mark.may_keep("descriptors", "zmq context"), pytest.mark.may_keep("threads", "zmq context"),
              pytest.mark.timeout(120)]


def test_output_that_comes_after_its_cell_is_in_the_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    gate = tmp_path / "gate"
    cells = [
        "%load_ext cellmesh\nimport cellmesh as cm\ncm.init(num_cpus=1)",
        f"%%remote\nimport os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.005)\n"
        "print('late words')\nresult = 'computed'\nresult",
        f"open({str(gate)!r}, 'w').close()\ncm.get(result)",
        "import time\nfrom cellmesh.kernel_ext import host\n"
        "while not any(card.facts.output for card in host.current().cards._ended.values()): time.sleep(0.01)",
        "None",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    folder = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=60, kernel_name="python3", resources=folder).execute()
    (card,) = [output for output in notebook.cells[1].outputs if output.output_type == "display_data"]
    assert "finished" in card.data["text/html"] and "late words" in card.data["text/html"]
