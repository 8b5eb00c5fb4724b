"""How a process ends that is told to leave."""

from __future__ import annotations

import sys
from subprocess import run

PROGRAM = """
import atexit
from cellmesh.scheduler.worker import leaving
leaving.THREADS_S = 600.0
atexit.register(print, "registered")
leaving.run_exit_functions()
"""


def test_one_that_was_not_forked_does_not_wait_for_itself() -> None:
    assert run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=10).stdout == "registered\n"
