"""The documents' Python, run: the blocks of a page are one program."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", ["adapters", "calls", "migrating-from-ray", "settings-in-tasks"])
def test_the_code_of(name: str, tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / f"{name}.md").read_text(), re.S)
    program = tmp_path / f"{name.replace('-', '_')}.py"
    program.write_text("\n".join(blocks))
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}  # where experiments are kept
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=110, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
