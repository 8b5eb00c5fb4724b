"""The files of the repository, as tests of the project itself look at them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = {".git", ".venv", "node_modules", "build", "__pycache__", "out"}  # where git does not say what is ignored


def files(*folders: str) -> list[str]:
    """Files below these folders, all files without any, by their paths from the root: what is committed or will be. In
    a copy that is no clone, all but what is made by building."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *folders]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.splitlines()
    return [name for name in listed or _walked(folders or (".",)) if (ROOT / name).is_file()]


def _walked(folders: tuple[str, ...]) -> list[str]:
    found: list[str] = []
    for folder in folders:
        for path, inside, names in os.walk(ROOT / folder):
            inside[:] = [name for name in inside if name not in SKIPPED]
            found += [os.path.relpath(os.path.join(path, name), ROOT) for name in names]
    return found
