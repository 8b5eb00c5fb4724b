"""What `pip install .` puts on a machine: one package with the extension module, the widget and the panel in it."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def installed_files() -> list[str]:
    """Names of the installed distribution's files; the test is skipped in a developer tree, which is not installed."""
    try:
        distribution = metadata.distribution("cellmesh")
    except metadata.PackageNotFoundError:
        pytest.skip("cellmesh is imported from a developer tree here, not installed")
    origin = json.loads(distribution.read_text("direct_url.json") or "{}").get("dir_info", {})
    if origin.get("editable"):
        pytest.skip("cellmesh is installed in editable mode here")
    return [str(file) for file in distribution.files or []]


def check_contents(names: list[str]) -> None:
    text = "\n".join(names)
    for wanted in (
        "cellmesh/objstore/_core.",
        "cellmesh/objstore/_core.pyi",
        "cellmesh/py.typed",
        "cellmesh/kernel_ext/graph/_fold.",
        "cellmesh/scheduler/",
        "cellmesh/kernel_ext/panel/static/widget.js",
        "cellmesh/kernel_ext/panel/static/loader.js",
        "cellmesh/kernel_ext/panel/static/page.js",
        "labextensions/cellmesh-labextension/package.json",
        "labextensions/cellmesh-labextension/install.json",
    ):
        assert wanted in text, f"{wanted} is missing"
    unwanted = [
        name
        for name in names
        if name.endswith((".c", ".h", ".o", ".ts", ".tsx")) or "tests/" in name or "node_modules" in name
    ]
    assert not unwanted


def test_installed_package_is_complete() -> None:
    check_contents(installed_files())


def test_jupyterlab_sees_the_panel_enabled() -> None:
    installed_files()
    command = Path(sys.executable).with_name("jupyter-labextension")  # `jupyter` takes the first one of PATH
    listing = subprocess.run([command, "list"], capture_output=True, text=True)
    line = next(
        (line for line in (listing.stdout + listing.stderr).splitlines() if "cellmesh-labextension" in line), ""
    )
    assert "enabled" in line and "OK" in line, listing.stderr


def test_command_line_entry_point() -> None:
    installed_files()
    done = subprocess.run([Path(sys.executable).parent / "cellmesh", "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and "usage" in done.stdout.lower()


def test_a_node_requires_nothing_of_notebooks() -> None:
    backend = build_backend()
    metadata = "Name: cellmesh\nVersion: 1\nRequires-Dist: numpy>=2\nRequires-Dist: jupyterlab>=4.4\n\nName: x\n"
    expected = "Name: cellmesh-node\nVersion: 1\nRequires-Dist: numpy>=2\n\nName: x\n"
    assert backend.node_metadata(metadata) == expected
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    names = {re.split(r"[^\w.-]", requirement)[0] for requirement in required}
    assert backend.of_notebooks_alone() < names, "what is taken away is required otherwise"


def build_backend() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts"))
        return importlib.import_module("build_backend")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_node_is_installed_without_jupyterlab_and_joins(tmp_path: Path) -> None:
    pip = ["-m", "pip", "--disable-pip-version-check", "--quiet"]
    wheel = [sys.executable, *pip, "wheel", "--no-deps", "-C", "node=true", "--wheel-dir", str(tmp_path), str(ROOT)]
    subprocess.run(wheel, check=True, cwd=tmp_path)
    (made,) = tmp_path.glob("cellmesh_node-*.whl")
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python, command = tmp_path / "venv/bin/python", str(tmp_path / "venv/bin/cellmesh")
    subprocess.run([str(python), *pip, "install", str(made)], check=True, cwd=tmp_path)
    missing = "import importlib.util as u; print([n for n in ('jupyterlab', 'ipykernel', 'IPython') if u.find_spec(n)])"
    assert subprocess.run([python, "-c", missing], capture_output=True, text=True).stdout == "[]\n"
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    # Short names, as those of sockets are in them.
    folders = [Path(tempfile.mkdtemp(prefix=name, dir="/tmp")) for name in "ab"]
    places = [{**plain, "XDG_STATE_HOME": str(folders[0]), "XDG_RUNTIME_DIR": str(folder)} for folder in folders]
    head = subprocess.run(
        [command, "start", "--head", "--port", "0"], env=places[0], capture_output=True, text=True, check=True
    )
    try:
        address = re.search(r"--address (\S+)", head.stdout)
        assert address, head.stdout
        joined = subprocess.run(
            [command, "start", "--address", address[1], "--num-cpus", "1"],
            env=places[1],
            capture_output=True,
            text=True,
        )
        assert joined.returncode == 0 and "is a node of" in joined.stdout, joined.stderr
    finally:
        subprocess.run([command, "stop"], env=places[0], check=True, capture_output=True)
        for folder in folders:
            shutil.rmtree(folder)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_plain_pip_install_in_a_fresh_environment(tmp_path: Path) -> None:
    """As a user does it: isolated build, nothing prepared; then once more from the source distribution."""
    wheels = tmp_path / "wheels"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    settings = ["-C", f"build-dir={tmp_path / 'build'}", "--no-deps", "--wheel-dir", str(wheels)]
    subprocess.run([*pip, "wheel", *settings, str(ROOT)], check=True, cwd=tmp_path)
    # Debian's python3-numpy puts its headers among Python's own, which therefore come later.
    includes = re.findall(r"^ *INCLUDES = (.*)", (tmp_path / "build/build.ninja").read_text(), re.M)
    assert includes and all(re.match(r"(?:-I\S+ )*-isystem \S+/numpy/_core/include ", line) for line in includes), (
        includes
    )
    (wheel,) = wheels.glob("cellmesh-*.whl")
    check_contents(zipfile.ZipFile(wheel).namelist())
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv/bin/python"
    subprocess.run([str(python), *pip[1:], "install", str(wheel)], check=True, cwd=tmp_path)
    program = "import cellmesh as cm; f = cm.remote(lambda x: x + 1); print(cm.get(f.remote(1))); cm.shutdown()"
    done = subprocess.run([str(python), "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.strip() == "2", done.stderr
