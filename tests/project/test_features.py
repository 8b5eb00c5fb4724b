"""docs/features.md is what its source says, and what that says is true: the tests are there, and no *must* is
missing.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs" / "tools"))
import features

ROWS = [row for rows in features.FEATURES.values() for row in rows]


def test_the_page_is_up_to_date() -> None:
    assert features.PAGE.read_text() == features.page(), "run docs/tools/features.py"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_feature_has_its_test_or_a_reason(row: tuple[str, ...]) -> None:
    feature, priority, _, _, test = row
    assert priority in ("must", "should", "could")
    if test.startswith("- "):
        assert priority != "must" and len(test) > 20, f"{feature}: a must has no reason to be missing"
        return
    file, function = test.split("::")
    assert re.search(rf"^def test_{function}\(", (ROOT / "tests" / file).read_text(), re.M), (
        f"{feature}: {test} is not there"
    )
