"""Every notebook from top to bottom in a real kernel, as a reader would run it.

With CELLMESH_NOTEBOOK_FAST=1 in the environment, notebooks that learn for a minute learn for a few seconds; the text
and the code are the same. A cell fails if and only if it is tagged `raises-exception`.
"""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
CELL_LIMIT_S = 120 if os.environ.get("CELLMESH_NOTEBOOK_FAST") else 600

# jupyter_client keeps zmq's I/O threads and their descriptors for the life of the process.
pytestmark = [
    pytest.mark.may_keep("descriptors", "zmq context"),
    pytest.mark.may_keep("threads", "zmq context"),
    pytest.mark.timeout(4 * CELL_LIMIT_S),
]


def error_of(cell: nbformat.NotebookNode) -> nbformat.NotebookNode | None:
    return next((output for output in cell.get("outputs", []) if output.output_type == "error"), None)


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))  # where experiments are kept
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    client = NotebookClient(
        notebook,
        timeout=CELL_LIMIT_S,
        kernel_name="python3",
        allow_errors=False,
        resources={"metadata": {"path": str(path.parent)}},
    )
    client.execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    assert all(cell.execution_count for cell in cells), "a cell was not executed"
    for cell in cells:
        wanted = "raises-exception" in cell.metadata.get("tags", [])
        assert bool(error_of(cell)) == wanted, cell.source


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_stored_without_outputs_of_this_machine(path: Path) -> None:
    """What is committed says nothing about who ran it, and does not change with each run."""
    text = path.read_text()
    assert str(Path.home()) + "/" not in text and str(ROOT) not in text
    notebook = nbformat.reads(text, as_version=4)
    assert notebook.metadata.get("kernelspec", {}).get("name") == "python3"
    assert all(cell.get("id") for cell in notebook.cells), "cells need ids: the panel finds them by id"
    assert not any(
        error_of(cell) and "raises-exception" not in cell.metadata.get("tags", []) for cell in notebook.cells
    )
