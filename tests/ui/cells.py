"""Cells that tests of the panel run."""

from __future__ import annotations

from .lab import Lab

LOAD = "%load_ext cellmesh\nimport cellmesh as cm\ncm.init(num_cpus=2);"
ADD = "@cm.remote\ndef add(a, b):\n    return a + b"
TREE = (
    "refs = [add.remote(i, i) for i in range(4)]\ntotal = add.remote(add.remote(refs[0], refs[1]), add.remote(refs[2], "
    "refs[3]))\ncm.get(total)"
)
SLOW = "import time\n@cm.remote\ndef slow():\n    time.sleep(300)\nref = slow.remote()\ncm.get(ref)"


def start(lab: Lab, *cells: str) -> None:
    """A notebook with cellmesh loaded and these cells, of which none has run."""
    lab.open(lab.write("work.ipynb", [LOAD, *cells]))
    lab.run_cell(0)
    assert not lab.errors_of(0), lab.output(0)
