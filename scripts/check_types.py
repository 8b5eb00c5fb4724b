"""pyright over the package: an error fails, for `make lint`. With `--public` a public name fails whose type users'
checkers could not tell, or would have to guess (`pyright --verifytypes`), which is one of the tests. The settings are
in pyproject.toml: strict for scheduler and objstore, standard elsewhere.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))  # PYTHONSAFEPATH leaves it out
import frontend

ROOT = Path(__file__).resolve().parent.parent
TREE = ROOT / "build/dev"
PROGRAM = ROOT / "node_modules/pyright/index.js"
SUB_PACKAGES = ("objstore", "scheduler", "kernel_ext")  # folders of their own in the repository


class Finding(NamedTuple):
    module: str  # as its path in the repository
    line: int
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.module}:{self.line}: {self.message.splitlines()[0]} ({self.rule})"


def path_in_repository(path: Path, tree: Path = TREE) -> str:
    """cellmesh/scheduler/x.py of the tree is scheduler/x.py of the repository."""
    inside = path.relative_to(tree / "cellmesh")
    return str(inside if inside.parts[0] in SUB_PACKAGES else Path("cellmesh") / inside)


def _pyright(*arguments: str, cwd: Path = ROOT) -> dict[str, Any]:
    """Its report."""
    node = frontend.node_folder()
    if node is None or not PROGRAM.exists():
        raise SystemExit("check_types: no pyright; make lint installs it (npm ci)")
    # --verifytypes does not look at --pythonpath, only for a `python`, whose environment may have another cellmesh.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    report = subprocess.run(
        [str(node / "node"), str(PROGRAM), "--outputjson", *arguments],
        cwd=cwd,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(TREE)},
        capture_output=True,
        text=True,
    )
    try:
        return json.loads(report.stdout)
    except json.JSONDecodeError:
        raise SystemExit(f"check_types: pyright failed: {report.stdout}{report.stderr}") from None


def incomplete(symbols: list[dict[str, Any]]) -> list[str]:
    """Lines that name what of the public package, and of what its signatures mention, has no type that all checkers
    read alike.

    What is so only because something else is has no line. The sub-packages are not an interface for users.
    """
    return [
        f"{symbol['name']}: {' '.join(said['message'].split())}"
        for symbol in symbols
        if (not symbol["isTypeKnown"] or symbol["isTypeAmbiguous"])
        and symbol["name"].split(".")[1:2] not in [[folder] for folder in SUB_PACKAGES]
        for said in symbol["diagnostics"]
        if said["severity"] == "error"
    ]


def findings() -> list[Finding]:
    """Every error that pyright reports."""
    found = _pyright("--pythonpath", sys.executable, "--project", str(ROOT))["generalDiagnostics"]
    return [
        Finding(
            path_in_repository(Path(each["file"])),
            each["range"]["start"]["line"] + 1,
            each.get("rule", "syntax"),
            each["message"],
        )
        for each in found
        if each["severity"] == "error"
    ]


def errors() -> list[str]:
    """A line for each error, and the last how many there are."""
    found = findings()
    return [*map(str, found), f"types: {len(found)} errors"]


def public() -> list[str]:
    """A line for each public name without a whole type, and the last how many there are."""
    verified = _pyright("--verifytypes", "cellmesh", "--ignoreexternal", cwd=TREE)["typeCompleteness"]
    untyped = incomplete(verified["symbols"])
    n_symbols = sum(verified["exportedSymbolCounts"].values())
    return [
        *untyped,
        f"types: {len(untyped)} public names are incomplete; of all symbols, the sub-packages' included, "
        f"{verified['completenessScore']:.1%} of {n_symbols:,} are known",
    ]


def main() -> int:
    lines = public() if sys.argv[1:] == ["--public"] else errors()
    print("\n".join(lines))
    return 1 if len(lines) > 1 else 0


if __name__ == "__main__":
    sys.exit(main())
