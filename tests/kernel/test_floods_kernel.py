"""A gigabyte of output: the notebook shows what a reader can follow, the kernel stays quick, files have all of it."""
from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from kernels import Kernel, plain

# jupyter_client keeps zmq's I/O threads and their descriptors for the life of the process.
pytestmark = [pytest.mark.may_keep("descriptors", "zmq context"), pytest.mark.may_keep("threads", "zmq context")]

N_TASKS, CHUNK = 8, 1 << 16
FLOOD = """@cm.remote
def flood(n_chunks):
    line = "x" * 1023 + "\\n"
    for _ in range(n_chunks): sys.stdout.write(line * 64)
    print("the last word")
"""


def test_a_gigabyte_from_eight_tasks(fresh_kernel: Kernel) -> None:
    fresh_kernel.run("%load_ext cellmesh\nimport sys\nimport cellmesh as cm\ncm.init(num_cpus=8)")
    fresh_kernel.run(FLOOD)
    n_chunks = (1 << 30) // N_TASKS // CHUNK
    flooding = fresh_kernel.start(f"refs = [flood.remote({n_chunks}) for _ in range({N_TASKS})]\ncm.get(refs)")
    asked_at = time.monotonic()
    assert fresh_kernel.ask(op="hello")["status"] == "ok"
    fresh_kernel.wait(flooding, 120)
    text = plain(fresh_kernel.until_text(flooding, lambda text: "the last word" in text or "more on" in text))
    assert re.search(r"cellmesh dropped [\d,]+ lines", text + fresh_kernel.text(flooding, "stderr"))
    duration_s = time.monotonic() - asked_at
    assert len(text) < 4_000_000 + 1_000_000 * duration_s, "what the server of a notebook would pass on"
    assert len(fresh_kernel.of(flooding, "stream")) < 1000 + 100 * duration_s


def test_files_have_what_the_notebook_has_not(fresh_kernel: Kernel, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    fresh_kernel.run(f"%load_ext cellmesh\nimport sys\nimport cellmesh as cm\n%mesh start --cpus 1 --logs {folder}")
    fresh_kernel.run(FLOOD)
    cell = fresh_kernel.run("cm.get(flood.remote(64))")
    shown = fresh_kernel.until_text(cell, lambda text: "has all of it" in text)
    (file,) = folder.glob("worker-*.log")
    assert str(file) in shown
    fresh_kernel.run("cm.shutdown()")
    lines = file.read_text().splitlines()
    assert re.fullmatch(r"--- task \d+", lines[0]) and lines[-1] == "the last word"
    assert lines.count("x" * 1023) == 64 * 64
