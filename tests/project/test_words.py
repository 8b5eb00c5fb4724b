"""The words, checked: each term of the glossary has a module, and words that were replaced do not come back."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from support.repository import files

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = ROOT / "docs/glossary.md"
# A word that has gone -> the one that is used now. A rename puts its old word here in the same commit.
REPLACED = {
    "bell": "wake fd, condition",
    "bells": "wake fds",
    "burial": "eviction, reaping",
    "buried": "evicted, reaped",
    "bury": "evict, reap",
    "cell_registry": "registry",
    "cluster_policy": "placement",
    "desk": "agent request",
    "expel": "evict",
    "knock": "probe",
    "machine_load": "load",
    "memory_monitor": "oom",
    "obituary": "last output",
    "onlooker": "status feed",
    "spill": "offload",
    "spilled": "offloaded",
    "store_errors": "errors/store",
}
CODE = ("objstore", "scheduler", "cellmesh", "kernel_ext", "labextension", "tests", "scripts", "docs/tools", "models")
SUFFIXES = {".py", ".pyi", ".c", ".h", ".ts", ".tsx", ".mjs", ".md", ".toml"}
THIS = "tests/project/test_words.py"


def terms(text: str) -> dict[str, str]:
    """Term -> the path of its module, from the rows of the glossary's table."""
    rows = re.findall(r"^\| (?!term |---)([^|]+) \| [^|]+ \| `([^`]+)` \|$", text, re.M)
    return {term.strip(): path for term, path in rows}


def glossary_faults(root: Path, text: str) -> list[str]:
    """Lines that say which term has no module, which row cannot be read, and what is out of order."""
    found = [f"{term}: there is no {path}" for term, path in terms(text).items() if not (root / path).exists()]
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith(("| term ", "| --- "))]
    found += [f"not a term, its meaning and a module: {row}" for row in rows if not terms(row)]
    order = [term.lower() for term in terms(text)]
    found += [f"{later} stands behind {one}" for one, later in pairwise(order) if later < one]
    return found


def old_words(root: Path, names: list[str], replaced: dict[str, str]) -> list[str]:
    """Lines that use a word which has been replaced, with the word for it."""
    pattern = re.compile(rf"(?<![A-Za-z])({'|'.join(replaced)})(?![A-Za-z])", re.IGNORECASE)
    return [
        f"{name}:{number}: {match[1]} is called {replaced[match[1].lower()]} (docs/glossary.md)"
        for name in names
        for number, line in enumerate((root / name).read_text(encoding="utf-8").splitlines(), start=1)
        for match in pattern.finditer(line)
    ]


def code() -> list[str]:
    """Files whose words are ours: no history, no generated page."""
    return [name for name in files(*CODE) if Path(name).suffix in SUFFIXES and name != THIS]


def test_each_term_has_its_module() -> None:
    text = GLOSSARY.read_text(encoding="utf-8")
    assert not glossary_faults(ROOT, text)
    assert len(terms(text)) >= 40


def test_no_word_that_was_replaced() -> None:
    assert not old_words(ROOT, code(), REPLACED)


@pytest.mark.parametrize(
    "row, says",
    [
        ("| lease | a right | `scheduler/nowhere.py` |", "lease: there is no scheduler/nowhere.py"),
        ("| lease | a right |  |", "not a term, its meaning and a module: | lease | a right |  |"),
        ("| lease | a right | `a.py` |\n| head | it grants | `a.py` |", "head stands behind lease"),
    ],
)
def test_a_fault_of_the_glossary_is_named(tmp_path: Path, row: str, says: str) -> None:
    (tmp_path / "a.py").touch()
    assert says in glossary_faults(tmp_path, f"| term | meaning | where |\n| --- | --- | --- |\n{row}\n")


def test_an_old_word_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\nwrite_Obituary()\nexpelled = 2\n")
    assert old_words(tmp_path, ["a.py"], {"obituary": "last output", "expel": "evict"}) == [
        "a.py:2: Obituary is called last output (docs/glossary.md)"
    ]
