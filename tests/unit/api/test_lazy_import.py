"""`import cellmesh` and decorating functions must cost next to nothing: they happen in every notebook, used or not."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {
    "numpy",
    "pyarrow",
    "pandas",
    "asyncio",
    "IPython",
    "msgspec",
    "cloudpickle",
    "zmq",
    "psutil",
    "multiprocessing",
}


def modules_after(code: str) -> set[str]:
    script = f"{code}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "code",
    [
        "import cellmesh",
        "import cellmesh as cm\n@cm.remote\ndef f(x): return x\n@cm.remote(num_cpus=1)\nclass A: pass",
        "import cellmesh; cellmesh.exceptions.TaskError; cellmesh.is_initialized()",
    ],
)
def test_nothing_heavy_is_imported(code: str) -> None:
    assert not modules_after(code) & HEAVY


def test_a_search_is_described_without_numpy_where_the_program_has_none() -> None:
    space = "{'x': tune.uniform(0, 1), 'n': tune.choice([1, 2]), 'k': tune.grid_search([3, 4])}"
    code = f"from cellmesh import tune\ntune.Tuner(print, {space}, metric='loss', scheduler='asha', seed=1)"
    assert not modules_after(code) & {"numpy", "pandas", "pyarrow", "tarfile"}


def test_loading_the_extension_waits_for_nothing_heavy() -> None:
    before = "from IPython.core.interactiveshell import InteractiveShell\nshell = InteractiveShell.instance()"
    # What every kernel has imported, and the little that describes messages.
    there = modules_after(f"{before}\nimport asyncio, importlib.metadata, msgspec")
    load = f"{before}\nshell.run_line_magic('load_ext', 'cellmesh')\nassert shell.find_cell_magic('remote')"
    new = modules_after(load) - there
    assert "cellmesh.kernel_ext.host" in new
    assert not new & HEAVY
    # The first remote cell and the first session import these.
    later = {"cellmesh.kernel_ext.cells.remote", "cellmesh.kernel_ext.output.under_cell", "cellmesh.output.driver"}
    assert not later & new
    assert len(new) <= 44, sorted(new)


def test_import_alone_imports_nothing_of_ours() -> None:
    assert {name for name in modules_after("import cellmesh") if name.startswith("cellmesh.")} == set()


def test_every_public_name_is_there() -> None:
    import cellmesh

    for name in cellmesh.__all__:
        assert getattr(cellmesh, name) is not None
    assert set(cellmesh.__all__) <= set(dir(cellmesh))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = cellmesh.nonsense


def test_workers_import_what_their_tasks_and_actors_need_and_no_more() -> None:
    # In a program that has nothing of it either: workers are forked with what their driver has, as soon as there is
    # time for that.
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            """
import sys, cellmesh as cm
cm.init(num_cpus=2, object_store_memory=64 << 20)

@cm.remote
def modules():
    return list(sys.modules)

@cm.remote
class Plain:
    def modules(self):
        return list(sys.modules)

print(*cm.get(modules.remote()), *cm.get(Plain.remote().modules.remote()))
""",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "cellmesh.session.session" in done.stdout.split()
    assert not {"IPython", "asyncio", "pandas", "matplotlib", "pyarrow"} & set(done.stdout.split())


def test_in_ipython_the_magics_say_how_they_are_loaded() -> None:
    script = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.register_magic_function(lambda line: print("somebody else's"), "line", "cancel")
import cellmesh, sys
print(sorted(name for name in sys.modules if name.startswith("cellmesh.")))
shell.run_cell("%%remote --cpus 2\\nx = 1")
shell.run_cell("%fetch x")
shell.run_cell("%cancel")
shell.run_line_magic("load_ext", "cellmesh")
shell.run_cell("%fetch x")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    said = done.stdout + done.stderr
    assert "['cellmesh.magics_hint']" in said
    for name in ("%%remote", "%fetch"):
        assert f"{name} comes with cellmesh's extension, which is not loaded: run %load_ext cellmesh" in said
    assert "somebody else's" in said and "%fetch: there is no variable 'x'" in said


def test_every_magic_is_hinted_at() -> None:
    from cellmesh.kernel_ext.magics import arguments

    from cellmesh.magics_hint import NAMES

    assert set(NAMES) == {magic.name for magic in arguments.ALL}
