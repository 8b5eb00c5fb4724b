"""The documents, checked: their links lead somewhere, their Python parses, what they promise to name is named."""

from __future__ import annotations

import ast
import importlib.util
import re
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from support import repository

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        ROOT / "benchmarks/README.md",
        *(ROOT / "benchmarks/notes").glob("*.md"),
    ]
)
CODE = ("objstore", "scheduler", "cellmesh", "kernel_ext", "labextension")
HISTORY = {ROOT / "CHANGELOG.md"}  # names what was there then
NOT_TRACKED = {"tests/ui/artifacts/", "build/", "build/dev", "build/suites", "node_modules/", "labextension/built/"}
# Files that a reader of docs/objstore.md makes.
MADE_BY_READERS = {"writer.py", "reader.py", "share.c"}
PATH = re.compile(r"(?:\.?[\w.-]+/)*[\w.-]+\.(?:py|pyi|c|h|ts|tsx|mjs|json|md|toml)|(?:\.?[\w-]+/)+")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def broken_links(path: Path) -> list[str]:
    """Links of a document to files that are not there."""
    targets = re.findall(r"\]\(([^)\s]+)\)", path.read_text())
    local = [t.split("#")[0] for t in targets if not re.match(r"[a-z]+:", t) and not t.startswith("#")]
    return [f"{path.name}: the link to {t} leads nowhere" for t in local if not (path.parent / t).exists()]


@cache
def parts_of(files: frozenset[str]) -> set[str]:
    """Every end of a path, and every run of folders in one."""
    split = [file.split("/") for file in files]
    ends = {"/".join(parts[i:]) for parts in split for i in range(len(parts))}
    return ends | {"/".join(parts[i:j]) for parts in split for i in range(len(parts)) for j in range(i, len(parts))}


def missing_paths(path: Path, root: Path, files: frozenset[str]) -> list[str]:
    """Paths in backquotes that lead to nothing: from the root, from the document, as the end of a path."""
    found = []
    for token in re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", path.read_text(), flags=re.S)):
        if PATH.fullmatch(token) and "NAME" not in token and token not in NOT_TRACKED | MADE_BY_READERS:
            is_part = token.rstrip("/") in parts_of(files)
            if not ((root / token).exists() or (path.parent / token).exists() or is_part):
                found.append(f"{path.name}: there is no {token}")
    return found


def dangling_pointers(root: Path, sources: list[str]) -> list[str]:
    """Comments that say "see" of a module or name which is nowhere in these sources, tests and the rest apart."""
    texts = {file: (root / file).read_text(encoding="utf-8") for file in sources}
    modules = {part for file in sources for part in Path(file).with_suffix("").parts}
    defined = set(
        re.findall(r"\b(?:def|class|struct|enum|function|const|interface|type)\s+(\w+)", "\n".join(texts.values()))
    )
    defined |= set(re.findall(r"\b(\w+)\(", "\n".join(text for file, text in texts.items() if file.endswith(".h"))))
    found = []
    for file, text in texts.items():
        for pointer in re.findall(r"\b[Ss]ee\s+(?:#\s+|\*\s+)?`([\w./]+)`", text):
            last = re.sub(r"\.(py|c|h|tsx?)$", "", pointer).split("/")[-1].split(".")[-1]
            if last not in modules | defined and len(re.findall(rf"\b{last}\b", text)) == 1:
                found.append(f"{file}: see `{pointer}`: there is no such module or name")
    return found


@pytest.fixture(scope="module")
def files() -> frozenset[str]:
    return frozenset(repository.files())


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_links_lead_somewhere(path: Path) -> None:
    assert not broken_links(path)


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if path not in HISTORY], ids=name)
def test_paths_in_documents_exist(path: Path, files: frozenset[str]) -> None:
    assert not missing_paths(path, ROOT, files)


@pytest.mark.parametrize("folders", [CODE, (*CODE, "tests")], ids=["code", "tests"])
def test_what_comments_point_to_exists(files: frozenset[str], folders: tuple[str, ...]) -> None:
    sources = [file for file in files if file.startswith(folders) and file.endswith((".py", ".c", ".h", ".ts", ".tsx"))]
    assert len(sources) > 100
    assert not dangling_pointers(ROOT, sources)


def test_a_pointer_to_nothing_is_named(tmp_path: Path) -> None:
    (tmp_path / "core.py").write_text('"""See `shell`, see `gone`, see\n`step`."""\ndef step(): pass\n')
    (tmp_path / "shell.c").write_text("/* see `core.step` and `core/old.c` */\n")
    assert dangling_pointers(tmp_path, ["core.py", "shell.c"]) == [
        "core.py: see `gone`: there is no such module or name",
    ]
    (tmp_path / "shell.c").write_text("/* see `core/old.c` */\n")
    assert dangling_pointers(tmp_path, ["core.py", "shell.c"])[1:] == [
        "shell.c: see `core/old.c`: there is no such module or name",
    ]


def test_what_leads_nowhere_is_named(tmp_path: Path) -> None:
    (tmp_path / "core").mkdir()
    (tmp_path / "core/task.h").touch()
    page = tmp_path / "page.md"
    page.write_text("[a](core/task.h) [b](gone.md#x) `core/task.h` `task.h` `core/` `core/proxy.h` `away.c` `x.y()`")
    assert broken_links(page) == ["page.md: the link to gone.md leads nowhere"]
    assert missing_paths(page, tmp_path, frozenset({"core/task.h", "page.md"})) == [
        "page.md: there is no core/proxy.h",
        "page.md: there is no away.c",
    ]


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_python_in_documents_parses(path: Path) -> None:
    for block in re.findall(r"```python\n(.*?)```", path.read_text(), re.S):
        plain = "\n".join(line for line in block.splitlines() if not line.lstrip().startswith("%"))
        ast.parse(plain)


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_no_path_of_one_machine(path: Path) -> None:
    assert not re.findall(r"(?<![\w.])/(?:home|root|Users)/\w+", path.read_text())


@pytest.mark.parametrize(
    "name, holds",
    [
        ("magics_page", "%config CellmeshMagics.cancel_on_stop"),
        ("api_page", "### cellmesh.as_completed"),
        ("defaults_page", "| Port of the head | 7421 |"),
        ("ray_names_page", "| `cloudpickle` | adapted |"),
    ],
)
def test_a_page_made_from_the_code_is_current(name: str, holds: str) -> None:
    script = loaded(name)
    assert script.PAGE.read_text() == script.page(), f"run docs/tools/{name}.py"
    assert holds in script.page()


def test_the_table_of_the_comparison_is_current() -> None:
    script = loaded("compared")
    text = script.PAGE.read_text()
    assert script.page(text) == text, "run docs/tools/compared.py"
    rows = script.tasks(text)
    assert len(rows) == 20 and all(set(lines) == set(script.LIBRARIES) and lines["cellmesh"] for _, lines in rows)


def test_the_table_of_engines_is_current() -> None:
    script = loaded("engines_page")
    text = script.PAGE.read_text()
    assert script.page(text) == text, "run docs/tools/engines_page.py"
    assert "| tasks, several returns, none | ●" in text


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "tools" / f"{name}.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def test_every_make_target_named_in_the_documents_exists() -> None:
    makefile = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    targets = {target for line in re.findall(r"^\.PHONY:(.*)$", makefile, re.M) for target in line.split()}
    named = {t for path in DOCUMENTS for t in re.findall(r"(?:^ {4}|`)make ([a-z][a-z-]*)", path.read_text(), re.M)}
    assert named - {"check"} <= targets  # `make check` is the C core's own
