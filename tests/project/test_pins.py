"""scripts/packages.py: what tests and linters need is pinned, and what does not fit is said with its remedy."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import distributions, packages_distributions
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from support.repository import files

ROOT = Path(__file__).resolve().parents[2]
PINS = sorted((ROOT / "scripts/pins").glob("*.txt"))
OURS = {path.stem for folder in ("tests", "scripts", "docs/tools") for path in (ROOT / folder).iterdir()} | {"cellmesh"}
MADE = {"__main__", "cm_mod", "cm_tiny", "slow_module", "waits_library"}  # by tests themselves
WITHOUT = {"ray"}  # programs of Ray, which run on cellmesh.compat.ray; Ray itself has an environment of its own
# Folders whose programs are texts that other programs read, or run in environments of their own.
NOT_TESTS = (
    "tests/compat/corpus/",
    "tests/compat/programs/",
    "tests/suites/",
    "tests/typing/",
    "tests/tune/traces/record",
)


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module("packages")


@pytest.mark.parametrize("path", PINS, ids=lambda path: path.stem)
def test_everything_that_is_asked_for_is_pinned(packages: ModuleType, path: Path) -> None:
    pinned = packages.read_pins(path)
    for name, requirements in packages.groups().items():
        for requirement in map(Requirement, requirements):
            version = pinned.get(packages.name_of(requirement.name))
            assert version is not None, f"{requirement.name} of {name} is not pinned: make pins"
            assert Version(version) in requirement.specifier, (
                f"{requirement} of {name} has the pin {version}: make pins"
            )


def test_this_interpreter_has_pins(packages: ModuleType) -> None:
    assert (ROOT / "scripts/pins" / f"{packages.PYTHON}.txt") in PINS


def imported(tree: ast.AST) -> Iterator[str]:
    """Top-level packages that a test imports, or skips without."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "importorskip":
            if node.args and isinstance(node.args[0], ast.Constant):
                yield str(node.args[0].value).split(".")[0]


def test_whatever_a_test_imports_is_asked_for(packages: ModuleType) -> None:
    """So that `make test` installs it, pinned. A package that comes as a dependency of another counts."""
    distributions = packages_distributions()
    pinned = packages.read_pins(ROOT / "scripts/pins" / f"{packages.PYTHON}.txt")
    unknown = set()
    for name in files("tests"):
        if not name.endswith(".py") or name.startswith(NOT_TESTS):
            continue
        beside = {path.stem for path in (ROOT / name).parent.iterdir()}
        for module in imported(ast.parse((ROOT / name).read_text())):
            if module in sys.stdlib_module_names | OURS | MADE | WITHOUT | beside or module.startswith("no_such"):
                continue
            if not any(packages.name_of(each) in pinned for each in distributions.get(module, [module])):
                unknown.add(f"{name}: {module}")
    assert not unknown, f"not in the extra `test` of pyproject.toml: {', '.join(sorted(unknown))}"


def test_pins_fit_the_first_release_of_their_python(packages: ModuleType) -> None:
    """Debian has 3.11.2. Of those that are installed here."""
    pinned = packages.read_pins(ROOT / "scripts/pins" / f"{packages.PYTHON}.txt")
    asked = {
        name: each.metadata["Requires-Python"]
        for each in distributions()
        if pinned.get(name := packages.name_of(each.name)) == each.version and "Requires-Python" in each.metadata
    }
    assert len(asked) > 50, "next to nothing of what is pinned is installed"
    assert not {name: wants for name, wants in asked.items() if f"{packages.PYTHON}.0" not in SpecifierSet(wants)}


def run(packages: ModuleType, monkeypatch: pytest.MonkeyPatch, status: int, said: str = "") -> list[list[str]]:
    """The commands for pip that are given from now on; each prints that and ends with that status."""
    given: list[list[str]] = []

    def instead(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        given.append(command)
        return subprocess.CompletedProcess(command, status, said, "")

    monkeypatch.setattr(packages.subprocess, "run", instead)
    return given


def test_pip_is_given_the_pins(packages: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    given = run(packages, monkeypatch, 0)
    packages.install(["notebooks"])
    pins = ["--constraint", str(ROOT / "scripts/pins" / f"{packages.PYTHON}.txt")]
    assert given[0] == [*packages.PIP, "install", *pins, *packages.groups()["notebooks"]]


def test_what_tests_alone_need_is_not_compiled(packages: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    given = run(packages, monkeypatch, 0)
    for names in (["test"], ["lint"], ["dependencies", "test"], ["bench"]):
        packages.install(names)
    assert ["--no-compile" in command for command in given] == [True, True, False, False]


@pytest.mark.parametrize("in_ci", [True, False])
def test_an_interpreter_without_pins_is_told(
    packages: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], in_ci: bool
) -> None:
    monkeypatch.setattr(packages, "PYTHON", "3.99")
    monkeypatch.setattr(packages, "IN_CI", in_ci)
    if in_ci:
        with pytest.raises(SystemExit):
            packages.constraints()
    else:
        assert packages.constraints() == []
    text = capsys.readouterr().err
    assert "No versions are pinned for Python 3.99" in text and "`make pins` writes scripts/pins/3.99.txt" in text


def test_what_cannot_be_installed_is_named(
    packages: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(packages, monkeypatch, 1, "The conflict is caused by:\n    one that asks for another Python\n")
    monkeypatch.setattr(packages, "groups", lambda: {"dependencies": [], "test": ["pytest>=8", "no-such_package>=2"]})
    with pytest.raises(SystemExit, match=r"Not installed: no-such-package\. Is there a network\?.*`make pins`"):
        packages.install(["test"])
    assert "one that asks for another Python" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="no such group: tests; there are dependencies, test"):
        packages.install(["tests"])


def test_what_was_there_stays_where_nothing_fits(
    packages: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = run(packages, monkeypatch, 1)
    monkeypatch.setattr(packages, "PINS", tmp_path)
    with pytest.raises(SystemExit, match="scripts/pins is as it was"):
        packages.pin()
    assert f"--python-version={packages.PYTHON}.0" in given[0]
    assert not list(tmp_path.iterdir())


def test_what_a_build_needs_is_told_where_python_does_not_look_beside_its_program() -> None:
    """As `make check-newest` asks."""
    asked = [sys.executable, "-P", str(ROOT / "scripts/build_backend.py")]
    told = subprocess.run(asked, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    assert "numpy>=2" in told, told


def test_the_package_that_broke_a_test_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """`scripts/check_newest.py` puts one package after the other back to its pinned version."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    newest = importlib.import_module("check_newest")
    there = {"a": "2", "b": "2", "c": "2"}
    causes = {"test_b": "b", "test_c": "c", "test_of_nothing": None}

    def failing(tests: Any) -> list[str]:
        return [test for test in tests if causes[test] is None or there[causes[test]] == "2"]

    suspects = {name: ("1", "2") for name in there}
    assert newest.blamed(causes, suspects, there.__setitem__, failing) == {"test_b": "b", "test_c": "c"}
    assert set(there.values()) == {"2"}  # all are as they were
