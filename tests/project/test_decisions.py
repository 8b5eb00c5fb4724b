"""The decisions, checked: each is a decision, the index is current, and what the code cites exists."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
CITING = (
    "objstore",
    "scheduler",
    "cellmesh",
    "kernel_ext",
    "labextension/src",
    "tests",
    "docs",
    "benchmarks",
    "models",
    "scripts",
)
SUFFIXES = {".py", ".pyi", ".c", ".h", ".ts", ".tsx", ".md"}


@pytest.fixture(scope="module")
def index() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as monkey:
        yield loaded(monkey)


def loaded(monkey: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("decisions_index", ROOT / "docs/tools/decisions_index.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    monkey.setitem(sys.modules, spec.name, module)  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def cited(text: str) -> set[int]:
    """Numbers of decisions that a text cites."""
    return {int(number) for number in re.findall(r"\bdecision (\d+)", text)}


def unknown_citations(root: Path, known: set[int]) -> list[str]:
    """Lines of files below `root` that cite a decision which does not exist."""
    found = []
    for folder in CITING:
        for path in (root / folder).rglob("*"):
            if path.suffix in SUFFIXES and not {"node_modules", "built", "out"} & set(path.parts):
                for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
                    found += [
                        f"{path.relative_to(root)}:{number}: there is no decision {n}" for n in cited(line) - known
                    ]
    return found


def test_the_index_is_current(index: ModuleType) -> None:
    assert index.PAGE.read_text(encoding="utf-8") == index.page(), "run python docs/tools/decisions_index.py"


def test_every_cited_decision_exists(index: ModuleType) -> None:
    assert not unknown_citations(ROOT, {d.number for d in index.decisions()})


UNKNOWN = 999


def test_an_unknown_citation_is_named(tmp_path: Path) -> None:
    (tmp_path / "scheduler").mkdir()
    (tmp_path / "scheduler/places.py").write_text(f"# leases (decision 1)\n# and (decision {UNKNOWN})\n")
    assert unknown_citations(tmp_path, {1}) == [f"scheduler/places.py:2: there is no decision {UNKNOWN}"]


DECISION = "# {n}. A title\n\n- Status: Accepted, 2026-11-25\n- Subject: Errors\n\n## Decision\n\nSo.\n"


@pytest.mark.parametrize(
    "names_and_texts, says",
    [
        ({"0001-a.md": "# A title\n"}, "0001-a.md: the first line must be '# NUMBER. Title'"),
        ({"0001-a.md": DECISION.format(n=2)}, "0001-a.md: the title's number is 2"),
        ({"0001-a.md": DECISION.format(n=1), "0003-c.md": DECISION.format(n=3)}, "decision 2 is missing"),
        (
            {"0001-a.md": DECISION.format(n=1).replace("- Status: Accepted, 2026-11-25\n", "")},
            "no line '- Status: ...'",
        ),
        ({"0001-a.md": DECISION.format(n=1).replace("## Decision", "## Musings")}, "a section is called 'Musings'"),
        ({"0001-a.md": DECISION.format(n=1) + "word " * 300}, "0001-a.md: 301 words"),
    ],
)
def test_a_bad_decision_is_named(index: ModuleType, tmp_path: Path, names_and_texts: dict[str, str], says: str) -> None:
    for name, text in names_and_texts.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(index.BadDecision, match=r".") as caught:
        index.page(tmp_path)
    assert says in str(caught.value)
