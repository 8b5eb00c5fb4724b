"""The documents, checked: their links lead somewhere, their Python parses, what they promise to name is named."""
from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "benchmarks/README.md"])


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_links_lead_somewhere(path: Path) -> None:
    targets = re.findall(r"\]\(([^)\s]+)\)", path.read_text())
    local = [t.split("#")[0] for t in targets if not re.match(r"[a-z]+:", t) and not t.startswith("#")]
    assert not [t for t in local if not (path.parent / t).exists()]


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_python_in_documents_parses(path: Path) -> None:
    for block in re.findall(r"```python\n(.*?)```", path.read_text(), re.S):
        plain = "\n".join(line for line in block.splitlines() if not line.lstrip().startswith("%"))
        ast.parse(plain)


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_no_path_of_one_machine(path: Path) -> None:
    assert not re.findall(r"(?<![\w.])/(?:home|root|Users)/\w+", path.read_text())


def test_the_page_of_magics_is_current() -> None:
    spec = importlib.util.spec_from_file_location("magics_page", ROOT / "scripts" / "magics_page.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.PAGE.read_text() == script.page(), "run scripts/magics_page.py"
    assert "%config CellmeshMagics.cancel_on_stop" in script.page()


def test_every_make_target_named_in_the_documents_exists() -> None:
    makefile = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    targets = {target for line in re.findall(r"^\.PHONY:(.*)$", makefile, re.M) for target in line.split()}
    named = {t for path in DOCUMENTS for t in re.findall(r"(?:^ {4}|`)make ([a-z][a-z-]*)", path.read_text(), re.M)}
    assert named - {"check"} <= targets  # `make check` is the C core's own
