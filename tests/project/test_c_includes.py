"""The C core, checked: its folders include each other one way, and the codec knows no segment."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "objstore/core"
BINDING = ROOT / "objstore/binding"
# Each folder may include itself and what stands before it (build.mk has the order). Files outside the folders: results,
# the format, all of it.
FOLDERS = re.search(r"^CORE_FOLDERS = \. (.*)$", (CORE / "build.mk").read_text(), re.MULTILINE)
assert FOLDERS is not None
ORDER = ["error.h", *FOLDERS[1].split(), "objstore.h", "tests"]
PLACE = {"error.c": "error.h", "layout.h": "memory"}


def included(text: str) -> list[str]:
    return re.findall(r'^\s*#\s*include "([^"]+)"', text, re.MULTILINE)


def rank(name: str) -> int:
    """Where in the order a file of the core stands, by its path inside the core."""
    top = name.split("/")[0]
    return ORDER.index(PLACE.get(top, top))


def arrows_back(name: str, text: str) -> list[str]:
    """What a file of the core includes and may not."""
    return [other for other in included(text) if not (CORE / other).is_file() or rank(other) > rank(name)]


def sources(folder: Path) -> list[str]:
    return sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*.[ch]") if "out" not in path.relative_to(folder).parts
    )


@pytest.mark.parametrize("name", sources(CORE))
def test_the_folders_of_the_core_include_each_other_one_way(name: str) -> None:
    text = (CORE / name).read_text()
    assert arrows_back(name, text) == [], f"objstore/core/{name}: the order is {' <- '.join(ORDER)}"
    assert "Python.h" not in text


@pytest.mark.parametrize("name", [name for name in sources(BINDING) if name.startswith("codec/")])
def test_the_codec_knows_no_segment(name: str) -> None:
    assert [other for other in included((BINDING / name).read_text()) if not other.startswith("codec/")] == []


@pytest.mark.parametrize(
    ("name", "line", "found"),
    [
        ("memory/lock.c", '#include "clients/client.h"', ["clients/client.h"]),
        ("layout.h", '# include "objects/object.h"', ["objects/object.h"]),
        ("tasks/task.c", '#include "task.h"', ["task.h"]),  # by its folder, always
        ("tasks/task.c", '#include "tests/expect.h"', ["tests/expect.h"]),
        ("clients/reap.c", '#include "recovery/recover.h"\n#include <string.h>', []),
    ],
)
def test_the_check_sees_what_is_wrong(name: str, line: str, found: list[str]) -> None:
    assert arrows_back(name, line) == found
