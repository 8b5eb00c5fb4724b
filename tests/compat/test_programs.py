"""Programs for Ray, run as they are: `programs/*.py` import ray and know nothing of cellmesh.

They run on Ray 2.60 too; `looking.py` where its dashboard is installed, and `behaviours.py` until a failed check of
Ray's own reference counter ends it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))


def run(*command: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=80, **options)


@pytest.mark.timeout(90)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_program(program: Path) -> None:
    done = run("-m", "cellmesh.compat.ray", str(program))
    assert done.returncode == 0, done.stderr[-3000:]


def test_a_program_with_its_import_changed(tmp_path: Path) -> None:
    program = tmp_path / "walkthrough.py"
    original = (Path(__file__).parent / "programs/walkthrough.py").read_text()
    program.write_text(original.replace("import ray\n", "import cellmesh.compat.ray as ray\n"))
    done = run(str(program))
    assert done.returncode == 0, done.stderr[-3000:]


def test_modules_of_others_that_import_ray(tmp_path: Path) -> None:
    (tmp_path / "library.py").write_text("""
import ray
from ray.util.queue import Queue

@ray.remote
def double(x):
    return ray.get(ray.put(2 * x))

def plain(x):
    import ray.util.state
    return ray.get(double.remote(x))
""")
    (tmp_path / "script.py").write_text(
        """
import sys, library, ray
ray.init(num_cpus=2)
assert ray.get(ray.remote(library.plain).remote(4)) == 8
print(sys.argv[1:])
"""[1:]
    )
    done = run("-m", "cellmesh.compat.ray", str(tmp_path / "script.py"), "--option", "x")
    assert (done.returncode, done.stdout) == (0, "['--option', 'x']\n"), done.stderr


def test_the_runner_says_what_is_wrong(tmp_path: Path) -> None:
    assert run("-m", "cellmesh.compat.ray").returncode == 2
    assert "usage" in run("-m", "cellmesh.compat.ray", "--help").stderr
    missing = run("-m", "cellmesh.compat.ray", "nothing.py", cwd=tmp_path)
    assert missing.returncode == 2 and "nothing.py" in missing.stderr
