"""Programs that are drivers on machines of a cluster, and what a test says to them and hears."""

from __future__ import annotations

import subprocess
import textwrap
import time
from pathlib import Path
from typing import Any

from cellmesh.scheduler.system import processes

from .real_machines import Machine
from .waiting import wait_until

BEGINNING = """
import os, sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np
import cellmesh as cm

cm.init(address="tcp://" + os.environ["HEAD"], num_cpus=float(os.environ.get("CPUS", 1)), object_store_memory=128 << 20,
        labels={"zone": os.environ["ZONE"]} if "ZONE" in os.environ else None)

@cm.remote
def part(i):
    time.sleep(0.02)
    return np.full(30_000, float(i)), os.environ["XDG_RUNTIME_DIR"]

@cm.remote
def total(*parts):
    return float(sum(values.sum() for values, _ in parts))

def wait_for_nodes(n):
    while (
        len(cm.get([part.remote(0) for _ in range(4 * n)]))
        and len({where for _, where in cm.get([part.remote(0) for _ in range(20 * n)])}) < n
    ):
        pass
"""


def program(machine: Machine, head: dict[str, Any], token: str, body: str, **more: str) -> subprocess.Popen[str]:
    """A driver on that machine."""
    path = Path(machine.folder, "token")
    path.write_text(token)
    path.chmod(0o600)
    return machine.python(
        "-c", BEGINNING + textwrap.dedent(body), HEAD=head["address"], CELLMESH_TOKEN_FILE=str(path), **more
    )


def says(driver: subprocess.Popen[str]) -> str:
    """Its next line."""
    assert driver.stdout is not None
    line = driver.stdout.readline()
    assert line, ("it has ended", driver.communicate(timeout=30))
    return line.strip()


def ends_well(driver: subprocess.Popen[str]) -> str:
    out, err = driver.communicate(timeout=90)
    assert driver.returncode == 0, (out, err)
    return out


def tell(driver: subprocess.Popen[str], word: str) -> None:
    assert driver.stdin is not None
    driver.stdin.write(f"{word}\n")
    driver.stdin.flush()


def pass_time(seconds: float, driver: subprocess.Popen[str]) -> None:
    end = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= end or driver.poll() is not None, seconds + 5)


def serving(machine: Machine) -> int:
    """The pid of the head's process that serves."""
    pid = machine.cluster()["head_pid"]
    return int(wait_until(lambda: processes.children(pid))[0])
