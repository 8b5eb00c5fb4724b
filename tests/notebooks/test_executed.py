"""What remains in a notebook that was executed without a front end (by nbclient, as papermill does)."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = [
    pytest.mark.may_keep("descriptors", "zmq context"),
    pytest.mark.may_keep("threads", "zmq context"),
    pytest.mark.timeout(120),
]


def executed(tmp_path: Path, cells: list[str]) -> list[nbformat.NotebookNode]:
    """The cells of a notebook that has been run from top to bottom."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    folder = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=60, kernel_name="python3", resources=folder).execute()
    return notebook.cells


def test_what_tasks_print_whose_values_a_cell_gets_stands_below_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    cells = [
        "%load_ext cellmesh\nimport cellmesh as cm\ncm.init(num_cpus=1)",
        "@cm.remote\ndef says(words, end):\n    print(words, end=end)\n    return words.upper()\n"
        "cm.get(says.remote('whole', '\\n'))",
        "cm.get(says.remote('part', ''))",
        "cm.get(says.remote('last', '\\n')); cm.shutdown()",
    ]
    for cell, words in zip(executed(tmp_path, cells)[1:], ("whole", "part", "last"), strict=True):
        assert words in "".join(output.text for output in cell.outputs if output.output_type == "stream"), cell


def test_output_that_comes_after_its_cell_is_in_the_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    gate = tmp_path / "gate"
    cells = [
        "%load_ext cellmesh\nimport cellmesh as cm\ncm.init(num_cpus=1)",
        f"%%remote\nimport os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.005)\n"
        "print('late words')\nresult = 'computed'\nresult",
        f"open({str(gate)!r}, 'w').close()\ncm.get(result)",
        "import time\nhost = get_ipython().magics_manager.registry['CellmeshMagics'].host\n"
        "while not any(card.facts.output for card in host.cards._ended.values()): time.sleep(0.01)",
        "None",
    ]
    (card,) = [output for output in executed(tmp_path, cells)[1].outputs if output.output_type == "display_data"]
    assert "finished" in card.data["text/html"] and "late words" in card.data["text/html"]


def test_a_progress_bar_is_left_as_it_was_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    gate = tmp_path / "gate"
    cells = [
        "%load_ext cellmesh\nimport cellmesh as cm, os, time\ncm.init(num_cpus=1)",
        f"@cm.remote\ndef held(i):\n    while not os.path.exists({str(gate)!r}): time.sleep(0.005)\n"
        "refs = [held.remote(i) for i in range(3)]\ncm.progress(refs)",
        f"open({str(gate)!r}, 'w').close()\ncm.get(refs)",
        "import threading\nwhile any(t.name == 'cellmesh-progress' for t in threading.enumerate()): time.sleep(0.01)",
        "None",
    ]
    (bar,) = [output for output in executed(tmp_path, cells)[1].outputs if output.output_type == "display_data"]
    assert "3/3 · in " in bar.data["text/plain"] and 'aria-valuenow="3"' in bar.data["text/html"]
