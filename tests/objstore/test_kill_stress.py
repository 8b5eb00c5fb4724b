"""Workers and drivers killed at random instants: nothing lost, nothing wrong, nothing left. `make nightly` kills ten
thousand.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

N_KILLS = int(os.environ.get("CELLMESH_KILLS", "200"))


def run(*arguments: object) -> str:
    program = Path(__file__).with_name("kill_stress.py")
    result = subprocess.run(
        [sys.executable, str(program), *map(str, arguments)], capture_output=True, text=True, timeout=60 + N_KILLS
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "nothing left" in result.stdout
    print(result.stdout, end="")
    return result.stdout


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_result_is_right_whoever_dies(seed: int) -> None:
    run(seed, N_KILLS)


def test_offloaded_objects_come_back_right_when_processes_die(tmp_path: Path) -> None:
    assert " 0 objects offloaded" not in run(4, N_KILLS // 2, tmp_path)
