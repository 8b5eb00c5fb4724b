"""The conformance suite, values of the engine's own clients; see `conformance`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from cellmesh.util import engines

PROGRAM = Path(__file__).with_name("native_values.py")


@pytest.mark.timeout(300)
@pytest.mark.capability("native")
def test_values_come_from_the_engines_own_client_and_go_there(
    on_engine: ModuleType, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    name = request.node.callspec.params["on_engine"]
    if name == "fake":
        engines.to_native(on_engine.put(1))
    command = [sys.executable, str(PROGRAM), name, request.getfixturevalue(f"{name}_address")]
    path = os.pathsep.join([str(PROGRAM.parents[2]), os.environ.get("PYTHONPATH", "")])  # it uses what tests use
    env = {**os.environ, "PYTHONPATH": path}
    ran = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)
    assert ran.stdout.endswith("all is as it must be\n"), ran.stdout + ran.stderr
