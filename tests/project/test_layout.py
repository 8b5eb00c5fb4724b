"""The layout, checked: a folder is a table of contents that fits on a screen, and says what never is in it."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from pathlib import Path

from support.repository import ROOT, files

SUFFIXES = {".py", ".pyi", ".c", ".h", ".ts", ".tsx", ".mjs"}
MOST_FILES = 20
DESCRIBED = ("cellmesh", "kernel_ext", "labextension/dev", "labextension/src", "objstore", "scheduler")
OF_TESTS = {"tests", "__tests__"}


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


def speaker(names: list[str]) -> str:
    """Of the source files of a folder, the one whose first lines are about the folder: its first, or `__init__.py`."""
    return "__init__.py" if "__init__.py" in names else min(names)


def describes(name: str, text: str) -> bool:
    """Whether the first paragraph of a file says what is in its folder and what never is: of its docstring in Python,
    of a comment of its own that begins with the folder's name elsewhere."""
    path = Path(name)
    if path.suffix == ".py":
        found = re.match(r'"""(.+?)(?:"""|\n\n)', text, re.DOTALL)
    else:
        found = re.match(rf"/[/*] {re.escape(path.parent.name)}/: (.+?)(?:\*/|\n(?!//|\s\*))", text, re.DOTALL)
    return found is not None and re.search(r"\bnever\b", found[1]) is not None


def undescribed(texts: dict[str, str]) -> list[str]:
    """Lines that name the folders whose first lines do not say what is in them and what never is."""
    folders = defaultdict(list)
    for path in map(Path, texts):
        if path.suffix in SUFFIXES - {".pyi"} and not OF_TESTS & {*path.parts}:
            folders[path.parent].append(path.name)
    first = {folder: str(folder / speaker(names)) for folder, names in folders.items()}
    return [
        f"{folder}/: the first lines of {name} do not say what is in the folder and what never is, as "
        + ('"""…; never …."""' if name.endswith(".py") else f"{folder.name}/: …; never … (in a comment)")
        for folder, name in sorted(first.items())
        if not describes(name, texts[name])
    ]


def test_every_folder_says_what_is_in_it_and_what_never_is() -> None:
    assert not undescribed(
        {name: (ROOT / name).read_text() for name in files(*DESCRIBED) if Path(name).suffix in SUFFIXES}
    )


def test_a_folder_that_does_not_say_it_is_named() -> None:
    texts = {
        "a/__init__.py": '"""Words; never\na number."""\n',
        "a/aa.py": "",
        "a/late/__init__.py": '"""Words.\n\nNumbers are never here."""\n',
        "a/nothing/b.py": "import os\n",
        "a/tests/b.c": "",
        "c/b.h": "/* Of another file. */\n",
        "c/a.c": "/* c/: words; never\n * a number. */\n\n/* This file. */\n",
        "c/d/a.c": "/* d/: words. */\n\n/* This file never ends. */\n",
        "c/e/a.c": "/* Words; never a number. */\n",
        "t/a.ts": "// t/: words; never\n// a number.\n\n// This file.\n",
        "t/u/a.tsx": "// u/: words.\n\n// This file never ends.\n",
    }
    assert [line.split(":")[0] for line in undescribed(texts)] == ["a/late/", "a/nothing/", "c/d/", "c/e/", "t/u/"]
    assert undescribed({"c/e/a.c": "int a;"}) == [
        "c/e/: the first lines of c/e/a.c do not say what is in the folder and what never is, as "
        "e/: …; never … (in a comment)"
    ]
