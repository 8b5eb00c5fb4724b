"""Progress bars in a real kernel: updated in place, also while other cells run and when none does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.kernels import Kernel, error, value
from support.waiting import wait_until

from cellmesh.output.progress import INTERVAL_S


@pytest.fixture
def gate(tmp_path: Path, kernel: Kernel) -> Iterator[Path]:
    """Tasks of `held` wait for it, except the first two."""
    path = tmp_path / "gate"
    kernel.run(
        f"gate = {str(path)!r}\n@cm.remote\ndef held(i):\n    while i > 1 and not os.path.exists(gate):\n"
        "        time.sleep(0.01)\n    return i"
    )
    yield path
    path.touch()


def bars(kernel: Kernel, request: str) -> list[dict[str, str]]:
    """The states of the one display of a cell, in order."""
    (shown,) = [
        m for m in kernel.of(request, "display_data") if "cellmesh-progress" in m["content"]["data"]["text/html"]
    ]
    display_id = shown["content"]["transient"]["display_id"]
    return [
        m["content"]["data"]
        for m in list(kernel.messages)
        if m["msg_type"] in ("display_data", "update_display_data")
        and m["content"]["transient"].get("display_id") == display_id
    ]


def test_it_lives_while_nothing_runs_and_while_something_does(kernel: Kernel, gate: Path) -> None:
    began = time.monotonic()
    request = kernel.run("refs = [held.remote(i) for i in range(6)]\ncm.progress(refs)")
    wait_until(lambda: "2/6 · 2 running" in bars(kernel, request)[-1]["text/plain"])
    busy = kernel.start("cm.get(refs)")
    gate.touch()
    kernel.wait(busy)
    wait_until(lambda: "6/6 · in " in bars(kernel, request)[-1]["text/plain"])
    assert 'aria-valuenow="6"' in bars(kernel, request)[-1]["text/html"]
    n_different = len({m["text/plain"] for m in bars(kernel, request)})
    assert n_different < 20 + (time.monotonic() - began) / INTERVAL_S
    wait_until(
        lambda: (
            value(kernel, "[t.name for t in __import__('threading').enumerate() if t.name == 'cellmesh-progress']")
            == []
        )
    )
    assert len({m["text/plain"] for m in bars(kernel, request)}) == n_different


def test_a_loop_over_it_gives_values(kernel: Kernel, gate: Path) -> None:
    gate.touch()
    request = kernel.run("got = [value for value in cm.progress([held.remote(i) for i in range(4)], title='loop')]")
    assert value(kernel, "got") == [0, 1, 2, 3]
    wait_until(lambda: bars(kernel, request)[-1]["text/plain"].startswith("loop 100%"))


def test_the_stop_button_ends_the_loop_and_not_the_bar(kernel: Kernel, gate: Path) -> None:
    request = kernel.start("for value in cm.progress([held.remote(i) for i in range(3)]): pass")
    wait_until(lambda: kernel.of(request, "display_data") and "2/3" in bars(kernel, request)[-1]["text/plain"])
    kernel.manager.interrupt_kernel()
    kernel.wait(request)
    assert kernel.of(request, "error")[0]["content"]["ename"] == "KeyboardInterrupt"
    gate.touch()
    wait_until(lambda: "3/3" in bars(kernel, request)[-1]["text/plain"])


def test_a_cell_shows_what_it_submits(kernel: Kernel, gate: Path) -> None:
    request = kernel.run("%%remote --progress\nrefs = [held.remote(i) for i in range(4)]\ntotal = sum(cm.get(refs))")
    wait_until(lambda: "2/4" in bars(kernel, request)[-1]["text/plain"])
    gate.touch()
    wait_until(lambda: "4/4 · in " in bars(kernel, request)[-1]["text/plain"])
    assert bars(kernel, request)[-1]["text/plain"].startswith("In ["), "titled by the cell"
    assert value(kernel, "cm.get(total)") == 6
    failing = kernel.run("%%remote --progress\nwrong = 1 / 0")
    wait_until(lambda: "1 failed" in bars(kernel, failing)[-1]["text/plain"])


def test_definitions_have_no_progress(kernel: Kernel) -> None:
    assert "--progress is for cells that become a task" in error(kernel, "%%remote --progress\ndef f(): pass")[1]


def test_without_the_extension(fresh_kernel: Kernel) -> None:
    request = fresh_kernel.run(
        "import cellmesh as cm\n@cm.remote\ndef f(i): return i\n"
        "refs = [f.remote(i) for i in range(3)]\ncm.progress(refs)",
        60,
    )
    wait_until(lambda: "3/3 · in" in bars(fresh_kernel, request)[-1]["text/plain"])
