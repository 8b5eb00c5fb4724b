"""Programs that fork, print floods and keep what they return, whose processes are stopped and continued: right values,
or none at all.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from cellmesh.scheduler.system import processes

N_DRILLS, FIRST_SEED, DRILL_S = (
    int(os.environ.get("CELLMESH_DRILLS", "1")),
    int(os.environ.get("CELLMESH_DRILLS_FROM", "0")),
    6.0,
)
pytestmark = pytest.mark.timeout(240)


def descendants(pid: int) -> list[int]:
    return [pid, *(below for child in processes.children(pid) for below in descendants(child))]


def stop_and_go(rng: random.Random, program: subprocess.Popen[bytes]) -> None:
    """For a moment, any process of the program's, as Ctrl-Z or a debugger would, or an interpreter that swaps."""
    victims = descendants(program.pid)
    chosen = rng.sample(victims, min(len(victims), rng.choice((1, 1, 2, len(victims)))))
    for pid in chosen:
        processes.kill_quietly(pid, signal.SIGSTOP)
    threading.Event().wait(rng.choice((0.01, 0.1, 0.5, 1.5)))
    for pid in chosen:
        processes.kill_quietly(pid, signal.SIGCONT)


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + N_DRILLS))
def test_a_program_that_misbehaves(seed: int, tmp_path: Path) -> None:
    rng, result = random.Random(seed), tmp_path / "result"
    with open(tmp_path / "printed", "wb") as printed:
        program = subprocess.Popen(
            [sys.executable, str(Path(__file__).parent / "drill.py"), str(seed), str(DRILL_S), str(result)],
            stdout=printed,
            stderr=subprocess.STDOUT,
        )
        try:
            while program.poll() is None:
                stop_and_go(rng, program)
                threading.Event().wait(rng.random() * 0.3)
        finally:
            processes.kill_quietly(program.pid)
            program.wait()
    said = (
        result.read_text()
        if result.exists()
        else f"status {program.returncode}: {(tmp_path / 'printed').read_bytes()[-3000:]!r}"
    )
    assert said.startswith("right "), said
