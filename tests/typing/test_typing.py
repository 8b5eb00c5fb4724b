"""What type checkers say of programs: nothing of those that are right, and of mistakes that they are some.

The programs lie beside this file. In `wrong_*.py` a line that mypy or pyright, or both, are to object to says so at its end, and
so does one that neither of them sees (`# error: none`).
"""
from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cellmesh import typed
from cellmesh.submit.options import TABLE, valid_names

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import devtree  # noqa: E402
import frontend  # noqa: E402

Found = dict[tuple[str, int], str]  # file and line: what is said of it
PROGRAMS = [*sorted(HERE.glob("right_*.py")), *sorted(HERE.glob("wrong_*.py"))]


def mypy(folder: Path) -> Found:
    """Strict, as programs that use it mostly are; nothing of cellmesh itself.

    Of other libraries it reads what the programs import. All that cellmesh works with, torch for one, takes it half a
    minute.
    """
    pytest.importorskip("mypy")
    (folder / "mypy.ini").write_text(
        "[mypy]\nplugins = cellmesh.mypy_plugin\nstrict = True\nfollow_imports = skip\n"
        "[mypy-cellmesh.*,numpy.*]\nfollow_imports = silent\n"
    )
    done = subprocess.run([sys.executable, "-m", "mypy", "--cache-dir", "cache", "programs"],
                          cwd=folder, env={**os.environ, "MYPYPATH": "tree"}, capture_output=True, text=True)
    said = re.findall(r"^programs/(.+?):(\d+): error: (.*)$", done.stdout, re.M)
    assert done.returncode in (0, 1) and (said or not done.returncode), done.stdout + done.stderr
    return {(file, int(line)): text for file, line, text in said}


def pyright(folder: Path) -> Found:
    node, program = frontend.node_folder(), ROOT / "node_modules/pyright/index.js"
    if node is None:
        pytest.skip(f"no Node.js: pip install '{frontend.NODE_WHEEL}'")
    if not program.exists():
        pytest.skip("no pyright: npm ci")
    (folder / "pyrightconfig.json").write_text(json.dumps({"include": ["programs"], "extraPaths": ["tree"]}))
    done = subprocess.run([node / "node", program, "--outputjson", "--pythonpath", sys.executable], cwd=folder, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    said = [report for report in json.loads(done.stdout)["generalDiagnostics"] if report["severity"] == "error"]
    return {(Path(report["file"]).name, report["range"]["start"]["line"] + 1): report["message"] for report in said}


def marked(checker: str) -> Found:
    found = {}
    for path in PROGRAMS:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            mark = re.search(r"# error: (both|mypy|pyright|none)$", line)
            if mark and mark[1] in ("both", checker):
                found[path.name, number] = line.strip()
            assert mark or "# error" not in line, f"{path.name}:{number}: an unknown mark"
    return found


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_checkers_see_mistakes_and_nothing_else(checker: Callable[[Path], Found], tmp_path: Path) -> None:
    devtree.link_sources(tmp_path / "tree")
    (tmp_path / "programs").mkdir()
    for path in PROGRAMS:
        shutil.copy(path, tmp_path / "programs")
    found, wanted = checker(tmp_path), marked(checker.__name__)
    assert len(wanted) > 50
    assert {at: text for at, text in found.items() if at not in wanted} == {}
    assert {at: text for at, text in wanted.items() if at not in found} == {}


def test_options_are_those_of_the_table() -> None:
    apart = {"num_returns"}  # has overloads of its own
    assert typed.TaskOptions.__annotations__.keys() | apart == set(valid_names("task"))
    assert typed.ActorOptions.__annotations__.keys() == set(valid_names("actor"))
    assert typed.MethodOptions.__annotations__.keys() == set(valid_names("method"))
    assert typed.RemoteOptions.__annotations__.keys() | apart == {name for name, option in TABLE.items() if option.kinds != ("method",)}


def test_the_classes_can_be_subscripted_where_annotations_are_evaluated() -> None:
    import cellmesh as cm
    for alias in (cm.ObjectRef[int], cm.ObjectRefGenerator[int], cm.RemoteFunction[[int], float], cm.RemoteFunction[..., int, None],
                  cm.ActorClass[int], cm.ActorHandle[int]):
        assert alias.__origin__.__name__ in cm.__all__
