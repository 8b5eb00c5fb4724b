"""Cells that run again and again, each time over another large value, do not fill the store."""

from __future__ import annotations

import pytest
from support.kernels import Kernel, error, value
from support.waiting import wait_until

# jupyter_client keeps zmq's I/O threads and their descriptors for the life of the process.
pytestmark = [pytest.mark.may_keep("descriptors", "zmq context"), pytest.mark.may_keep("threads", "zmq context")]

CELL = """ref = cm.put(np.full(20 << 20, {i}, np.uint8))
@cm.remote
def first():
    return int(cm.get(ref)[0])
assert cm.get(first.remote()) == {i}"""
MAGIC_CELL = """%%remote
seen = int(ref[0])"""


def test_cells_that_are_defined_again(fresh_kernel: Kernel) -> None:
    fresh_kernel.run(
        "%load_ext cellmesh\nimport numpy as np\nimport cellmesh as cm\n"
        "cm.init(num_cpus=2, object_store_memory=256 << 20, offload_limit=0)"
    )
    for i in range(20):
        fresh_kernel.run(CELL.format(i=i))
        fresh_kernel.run(MAGIC_CELL)
        fresh_kernel.run(f"assert cm.get(seen) == {i}")


def test_a_full_store_names_the_variable_that_a_cell_takes_along(fresh_kernel: Kernel) -> None:
    fresh_kernel.run(
        "%load_ext cellmesh\nimport cellmesh as cm, numpy as np\n"
        "cm.init(num_cpus=1, object_store_memory=12_000_000, offload_limit=0)\n"
        "big, other = np.zeros(15_000_000, np.uint8), np.zeros(9_000_000, np.uint8)"
    )
    said = error(fresh_kernel, "%%remote\nx = big.sum()")[1]
    assert "the variable 'big' (15 MB), which the cell takes along, does not fit: the object store holds 12" in said
    assert "larger than the whole store" in said and "object_store_memory=" in said and "Drop references" not in said
    said = error(
        fresh_kernel,
        "held = cm.put(np.zeros(8_000_000, np.uint8))\nget_ipython().run_cell_magic('remote', '', 'y = other.sum()')",
    )[1]
    assert "the variable 'other' (9 MB), which the cell takes along, does not fit" in said and ": held" in said


def test_cards_and_errors_that_come_later_make_neither_sockets_nor_threads(fresh_kernel: Kernel) -> None:
    """ipykernel has a pair of sockets for each thread that has published, until ten seconds after it has ended."""
    fresh_kernel.run(
        "%load_ext cellmesh\nimport cellmesh as cm\ncm.init(num_cpus=2)\n"
        "@cm.remote\ndef double(x): return 2 * x\ncm.get(double.remote(1))"
    )
    n_pipes = "len(get_ipython().kernel.iopub_thread._event_pipes)"
    before = value(fresh_kernel, n_pipes)
    shown = fresh_kernel.run("for i in range(10): display(double.remote([i]))")
    failed = [fresh_kernel.run(f"%%remote\nx = {i} / 0") for i in range(3)]

    def are_told() -> bool:
        cards = {
            m["content"]["transient"]["display_id"]
            for m in fresh_kernel.messages
            if m["msg_type"] == "update_display_data" and "finished" in m["content"]["data"]["text/plain"]
        }
        return len(cards) == 10 and all("ZeroDivisionError" in fresh_kernel.text(cell, "stderr") for cell in failed)

    wait_until(are_told, 20)
    assert len(fresh_kernel.of(shown, "display_data")) == 10
    assert value(fresh_kernel, n_pipes) <= before + 2  # a thread for these, and one for output
    names = value(fresh_kernel, "[thread.name for thread in __import__('threading').enumerate()]")
    assert 1 <= names.count("cellmesh-background") <= 8  # they live on, and are there for the next
