"""notebooks/09-on-an-engine.ipynb in a real kernel, on each engine that can be run here: the same values on all.

`make test` has the one that plays a cluster alone; real clusters are nightly's, see scripts/testing/kinds.py.
"""

from __future__ import annotations

from ast import literal_eval
from pathlib import Path

import nbformat
import pytest
from engines import conformance
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).resolve().parents[3] / "notebooks" / "09-on-an-engine.ipynb"
CELL_LIMIT_S = 60
# By the id of a cell: what it shows.
VALUES = {
    "engine-14": "(209.657, 169.959)",
    "engine-17": "328350",
    "engine-20": "[285, 328350, 332833500]",
    "engine-23": "999999000000.0",
    "engine-24": "array([1999994, 1999996, 1999998])",
    "engine-34": "['3', None]",
}
ERRORS = {"engine-27": "TaskError(ValueError)", "engine-30": "TaskError(EngineUnsupportedError)"}

pytestmark = [
    pytest.mark.may_keep("descriptors", "zmq context"),
    pytest.mark.may_keep("threads", "zmq context"),
    pytest.mark.timeout(4 * CELL_LIMIT_S),
]


@pytest.fixture(scope="module", params=conformance.HERE)
def place(request: pytest.FixtureRequest) -> tuple[str, str]:
    """An engine's name, and its address."""
    engine = request.param
    return engine, "fake:" if engine == "fake" else request.getfixturevalue(f"{engine}_address")


def test_its_values_are_the_same_on_each_engine(
    place: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, address = place
    monkeypatch.setenv("CELLMESH_ADDRESS", address)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=CELL_LIMIT_S, kernel_name="python3", resources=resources).execute()
    outputs = {cell.id: cell.outputs for cell in notebook.cells if cell.cell_type == "code"}
    shown = {
        cell: output.data["text/plain"]
        for cell, of in outputs.items()
        for output in of
        if output.output_type == "execute_result"
    }
    n_machines, n_cpus = conformance.MACHINES[engine]
    machines = literal_eval(shown.pop("engine-09"))
    assert machines[engine] == n_machines * n_cpus
    assert sum(machines.values()) == machines[engine], "a task may have run here"
    assert shown == VALUES
    assert {
        cell: output.ename for cell, of in outputs.items() for output in of if output.output_type == "error"
    } == ERRORS
    (checked,) = outputs["engine-05"]
    assert f"{engine} takes tasks of this program" in checked.text
    assert checked.text.count("machine:") == n_machines
    assert "is of a task that runs on an engine" in outputs["engine-30"][0].evalue
