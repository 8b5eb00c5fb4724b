"""Temporary folders go with the session, whoever is killed."""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from support.waiting import wait_until

import cellmesh
from cellmesh.session.scratch import scratch_folder

pytestmark = pytest.mark.timeout(60)


def write_and_die(told: Path) -> None:
    folder = scratch_folder()
    (Path(folder.name) / "part").write_bytes(b"x")
    told.write_text(folder.name)
    os.kill(os.getpid(), signal.SIGKILL)


def test_that_of_a_worker_that_is_killed(tmp_path: Path) -> None:
    with cellmesh.init(num_cpus=1):
        with pytest.raises(cellmesh.exceptions.WorkerCrashedError):
            cellmesh.get(cellmesh.remote(max_retries=0)(write_and_die).remote(tmp_path / "told"))
        folder = Path((tmp_path / "told").read_text())
        assert [path.name for path in folder.iterdir()] == ["part"]
    assert not folder.exists()


def test_that_of_a_driver_that_is_killed(tmp_path: Path) -> None:
    program = (
        "import os, signal; from pathlib import Path; import cellmesh\n"
        "from cellmesh.session.scratch import scratch_folder\n"
        f"cellmesh.init(num_cpus=1)\n{inspect.getsource(write_and_die)}\n"
        f"write_and_die(Path({str(tmp_path / 'told')!r}))"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=50, check=False).returncode == -signal.SIGKILL
    folder = Path((tmp_path / "told").read_text())
    wait_until(lambda: not folder.parent.exists(), what="the end of the session")


def test_without_a_session_it_is_in_the_temporary_folder() -> None:
    with scratch_folder() as folder:
        assert os.path.dirname(folder) == tempfile.gettempdir()
    assert not os.path.exists(folder)
