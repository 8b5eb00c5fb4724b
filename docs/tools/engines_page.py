"""Writes the table of docs/engines.md: what each engine can do, as the conformance suite has seen it.

python docs/tools/engines_page.py
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from engines import conformance  # found by the line above

PAGE = ROOT / "docs" / "engines.md"
TABLE = re.compile(r"(?<=<!-- table -->\n).*?(?=<!-- end of table -->)", re.S)
SIGNS = {conformance.WORKS: "●", conformance.REFUSED: "typed error"}


def table() -> str:
    """The table as it must be."""
    known = conformance.load()
    lines = [f"| | {' | '.join(known)} |", f"| --- |{' --- |' * len(known)}"]
    for name, what in conformance.CAPABILITIES.items():
        cells = [_cell(known[engine].get(name, {})) for engine in known]
        lines.append(f"| {what} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _cell(tests: dict[str, str]) -> str:
    outcomes = set(tests.values())
    if not outcomes:
        return "not shown"
    return SIGNS[outcomes.pop()] if len(outcomes) == 1 else "◐"


def page(text: str) -> str:
    """The page with its table as it must be."""
    return TABLE.sub(lambda _: table(), text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
