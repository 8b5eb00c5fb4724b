"""The layout, checked: a folder is a table of contents that fits on a screen."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from support.repository import files

SUFFIXES = {".py", ".pyi", ".c", ".h", ".ts", ".tsx", ".mjs"}
MOST_FILES = 20


def too_full(names: list[str]) -> list[str]:
    """Lines that name the folders with too many source files of their own."""
    n_files = Counter(str(path.parent) for path in map(Path, names) if path.suffix in SUFFIXES)
    return [
        f"{folder}/ has {n} source files, of at most {MOST_FILES}: split it by subject (ARCHITECTURE.md)"
        for folder, n in sorted(n_files.items())
        if n > MOST_FILES
    ]


def test_no_folder_is_too_full() -> None:
    assert not too_full(files())


def test_a_full_folder_is_named() -> None:
    listed = [f"a/b/{n}.py" for n in range(21)] + [f"a/{n}.c" for n in range(20)] + [f"c/{n}.md" for n in range(30)]
    assert too_full(listed) == ["a/b/ has 21 source files, of at most 20: split it by subject (ARCHITECTURE.md)"]
