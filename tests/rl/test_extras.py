"""What is not installed is named, with the extra that brings it."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(("absent", "name"), [("torch", "PPO"), ("torch", "DQN"), ("gymnasium", "make_vec")])
def test_the_extra_is_named(absent: str, name: str) -> None:
    code = f"import sys; sys.modules[{absent!r}] = None\nfrom cellmesh import rl; rl.{name}"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert f"ModuleNotFoundError: rl.{name} needs {absent}: pip install 'cellmesh[rl]'" in ended.stderr


def test_evolution_strategies_need_no_torch() -> None:
    code = "import sys; sys.modules['torch'] = None\nfrom cellmesh import rl; print(rl.ES.__name__)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ended.stdout == "ES\n", ended.stderr
