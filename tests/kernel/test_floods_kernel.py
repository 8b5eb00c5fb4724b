"""A gigabyte of output: the notebook shows what a reader can follow, the kernel stays quick, files have all of it."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from support.kernels import Kernel, plain
from support.waiting import wait_until

# jupyter_client keeps zmq's I/O threads and their descriptors for the life of the process.
pytestmark = [pytest.mark.may_keep("descriptors", "zmq context"), pytest.mark.may_keep("threads", "zmq context")]

N_TASKS, CHUNK = 8, 1 << 16
FLOOD = """@cm.remote
def flood(n_chunks):
    line = "x" * 1023 + "\\n"
    for _ in range(n_chunks): sys.stdout.write(line * 64)
    print("the last word")
"""


def said(kernel: Kernel, request: str) -> str:
    return plain(kernel.text(request) + kernel.text(request, "stderr"))


def until_said(kernel: Kernel, request: str, pattern: str) -> None:
    wait_until(lambda: re.search(pattern, said(kernel, request)), what=pattern)


def test_a_gigabyte_from_eight_tasks(fresh_kernel: Kernel) -> None:
    fresh_kernel.run("%load_ext cellmesh\nimport sys\nimport cellmesh as cm\ncm.init(num_cpus=8)")
    fresh_kernel.run(FLOOD)
    n_chunks = (1 << 30) // N_TASKS // CHUNK
    flooding = fresh_kernel.start(f"refs = [flood.remote({n_chunks}) for _ in range({N_TASKS})]\ncm.get(refs)")
    asked_at = time.monotonic()
    assert fresh_kernel.ask(op="hello")["status"] == "ok"
    fresh_kernel.wait(flooding, 120)
    until_said(fresh_kernel, flooding, r"cellmesh dropped [\d,]+ lines|[\d,]+ characters of output are not shown")
    duration_s = time.monotonic() - asked_at
    assert len(said(fresh_kernel, flooding)) < 4_000_000 + 1_000_000 * duration_s, "what a server would pass on"
    assert len(fresh_kernel.of(flooding, "stream")) < 1000 + 100 * duration_s


def test_files_have_what_the_notebook_has_not(fresh_kernel: Kernel, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    fresh_kernel.run(f"%load_ext cellmesh\nimport sys\nimport cellmesh as cm\n%mesh start --cpus 1 --logs {folder}")
    fresh_kernel.run(FLOOD)
    cell = fresh_kernel.run("cm.get(flood.remote(64))")
    until_said(fresh_kernel, cell, f"{folder}.* all of it")
    (file,) = folder.glob("worker-*.log")
    fresh_kernel.run("cm.shutdown()")
    lines = file.read_text().splitlines()
    assert re.fullmatch(r"--- task \d+", lines[0]) and lines[-1] == "the last word"
    assert lines.count("x" * 1023) == 64 * 64


def test_what_goes_past_python_and_what_is_no_unicode_ends_nothing(fresh_kernel: Kernel) -> None:
    fresh_kernel.run("%load_ext cellmesh\nimport os\nimport cellmesh as cm\ncm.init(num_cpus=2)")
    assert fresh_kernel.ask(op="open", comm_id="panel")["status"] == "ok"
    fresh_kernel.run("""def pour():
    for _ in range(20): os.system("head -c 1000000 /dev/zero | tr '\\\\0' '\\\\377'; yes | head -c 1000000")
def fail(): raise ValueError("a\\udcff\\ud83d")
fail.__name__ = fail.__qualname__ = "f\\ud83d\\udcff"
""")
    poured = fresh_kernel.run("cm.get([cm.remote(pour).remote() for _ in range(2)])", 60)
    until_said(fresh_kernel, poured, r"cellmesh dropped [\d,]+ lines|[\d,]+ characters of output are not shown")
    failed = fresh_kernel.start("cm.get(cm.remote(fail).remote())")
    fresh_kernel.wait(failed)
    (shown,) = fresh_kernel.of(failed, "error")
    assert shown["content"]["ename"].startswith("TaskError") and r"a\udcff\ud83d" in shown["content"]["evalue"]
    fresh_kernel.run("print('goes', 'on')")
    unfetched = fresh_kernel.run("ref = cm.remote(fail).remote(); cm.wait([ref])")
    assert fresh_kernel.ask(op="hello")["status"] == "ok" and unfetched
