"""What `pip install .` puts on a machine: one package with the extension module, the widget and the panel in it."""
from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


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
    for wanted in ("cellmesh/objstore/_core.", "cellmesh/kernel_ext/_fold.", "cellmesh/scheduler/", "cellmesh/kernel_ext/static/widget.js", "cellmesh/kernel_ext/static/loader.js",
                   "cellmesh/kernel_ext/static/page.js",
                   "labextensions/cellmesh-labextension/package.json", "labextensions/cellmesh-labextension/install.json"):
        assert wanted in text, f"{wanted} is missing"
    unwanted = [name for name in names if name.endswith((".c", ".h", ".o", ".ts", ".tsx"))
                or "tests/" in name or "node_modules" in name]
    assert not unwanted


def test_installed_package_is_complete() -> None:
    check_contents(installed_files())


def test_jupyterlab_sees_the_panel_enabled() -> None:
    installed_files()
    listing = subprocess.run([sys.executable, "-m", "jupyter", "labextension", "list"], capture_output=True, text=True)
    line = next((line for line in (listing.stdout + listing.stderr).splitlines() if "cellmesh-labextension" in line), "")
    assert "enabled" in line and "OK" in line, listing.stderr


def test_command_line_entry_point() -> None:
    installed_files()
    done = subprocess.run([Path(sys.executable).parent / "cellmesh", "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and "usage" in done.stdout.lower()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_plain_pip_install_in_a_fresh_environment(tmp_path: Path) -> None:
    """As a user does it: isolated build, nothing prepared; then once more from the source distribution."""
    wheels = tmp_path / "wheels"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", str(wheels), str(ROOT)], check=True, cwd=tmp_path)
    (wheel,) = wheels.glob("cellmesh-*.whl")
    check_contents(zipfile.ZipFile(wheel).namelist())
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv/bin/python"
    subprocess.run([str(python), *pip[1:], "install", str(wheel)], check=True, cwd=tmp_path)
    program = "import cellmesh as cm; f = cm.remote(lambda x: x + 1); print(cm.get(f.remote(1))); cm.shutdown()"
    done = subprocess.run([str(python), "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.strip() == "2", done.stderr
