"""Cells that are run again and again, each time over another large value: the store does not fill up."""
from __future__ import annotations

import pytest
from kernels import Kernel

# jupyter_client keeps zmq's I/O threads and their descriptors for the life of the process.
pytestmark = [pytest.mark.may_keep("descriptors", "zmq context"), pytest.mark.may_keep("threads", "zmq context")]

CELL = """ref = cm.put(np.full(20 << 20, {i}, np.uint8))
@cm.remote
def first():
    return int(cm.get(ref)[0])
assert cm.get(first.remote()) == {i}"""
MAGIC_CELL = """%%remote
seen = int(ref[0])"""


def test_cells_that_are_defined_anew(fresh_kernel: Kernel) -> None:
    fresh_kernel.run("%load_ext cellmesh\nimport numpy as np\nimport cellmesh as cm\n"
                     "cm.init(num_cpus=2, object_store_memory=256 << 20, offload_limit=0)")
    for i in range(20):
        fresh_kernel.run(CELL.format(i=i))
        fresh_kernel.run(MAGIC_CELL)
        fresh_kernel.run(f"assert cm.get(seen) == {i}")
