"""Makes an importable developer tree without CMake or pip: symlinks for Python, one incremental compile for C.

    python scripts/devtree.py                      # build/dev
    PYTHONPATH=build/dev PYTHONSAFEPATH=1 python -c "import cellmesh"    # safe path: ./cellmesh must not win

The repository's top-level folders are sub-packages of `cellmesh`, so they cannot be imported where they lie. A package
directory is therefore real, as are those of its sub-packages, and what they contain are symlinks to the sources: edits
count at once, new files after the next run, and the compiled modules land in the tree instead of among the sources. An
editable install does the same through CMake in about ten times the time; this script is for the edit-compile-test loop.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import importlib.machinery
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {
    "cellmesh": "cellmesh",
    "objstore": "cellmesh/objstore",
    "scheduler": "cellmesh/scheduler",
    "kernel_ext": "cellmesh/kernel_ext",
}
NOT_PYTHON = {ROOT / "objstore/core", ROOT / "objstore/binding"}  # C sources
SUFFIX = importlib.machinery.EXTENSION_SUFFIXES[0]


def link_sources(out: Path) -> None:
    """Mirror the package folders into `out` and drop what has no source any more."""
    kept = {out / name for name in PACKAGES.values()}
    for source, target in PACKAGES.items():
        link_folder(ROOT / source, out / target, kept)


def link_folder(source: Path, target: Path, kept: set[Path]) -> None:
    """Make `target` a folder of links to what lies in `source`; a folder without Python (data) is linked as a whole."""
    if target.is_symlink():
        target.unlink()
    target.mkdir(parents=True, exist_ok=True)
    wanted = {
        p.name: p for p in source.iterdir() if p.suffix != ".c" and p.name != "__pycache__" and p not in NOT_PYTHON
    }
    packages = {name for name, p in wanted.items() if p.is_dir() and next(p.rglob("*.py"), None)}
    for old in target.iterdir():
        if old.is_symlink():
            if old.name in packages or wanted.get(old.name) != old.readlink():
                old.unlink()
        elif old.is_dir() and old.name not in packages and old not in kept and old.name != "__pycache__":
            shutil.rmtree(old)  # links and compiled modules of a sub-package that has moved
    for name, path in wanted.items():
        if name in packages:
            link_folder(path, target / name, kept)
        elif not (target / name).is_symlink():
            (target / name).symlink_to(path)


def description() -> dict[str, list[str]]:
    """How the C sources are compiled, and where they lie: the lines of objstore/core/build.mk."""
    lines = (ROOT / "objstore/core/build.mk").read_text().splitlines()
    pairs = (line.split(" = ", 1) for line in lines if " = " in line and not line.startswith("#"))
    return {name: words.split() for name, words in pairs}


def extensions() -> dict[str, list[Path]]:
    """The sources of each extension module, by its path in the tree: the core and its binding, and the graph's fold."""
    described = description()
    core = [p for folder in described["CORE_FOLDERS"] for p in (ROOT / "objstore/core").glob(f"{folder}/*.c")]
    binding = [p for folder in described["BINDING_FOLDERS"] for p in (ROOT / "objstore/binding").glob(f"{folder}/*.c")]
    excluded = {ROOT / "objstore/binding" / name for name in described["BINDING_EXCLUDED"]}
    return {
        "cellmesh/objstore/_core": sorted(core) + sorted(set(binding) - excluded),
        "cellmesh/kernel_ext/graph/_fold": [ROOT / "kernel_ext/graph/fold.c"],
    }


def is_current(product: Path, dependency_file: Path) -> bool:
    """Whether `product` is newer than everything its dependency file (cc -MMD) names."""
    if not (product.exists() and dependency_file.exists()):
        return False
    made = product.stat().st_mtime_ns
    names = dependency_file.read_text().replace("\\\n", " ").split(":", 1)[1].split()
    return all(Path(name).exists() and Path(name).stat().st_mtime_ns < made for name in names)


def build_extension(
    out: Path, name: str, sources: list[Path], compiler: list[str], flags: list[str], jobs: int
) -> bool:
    """Compile what changed and link the module; True when a new one was linked."""
    # Objects of other flags stay beside these, so that switching to a sanitizer and back costs nothing.
    digest = hashlib.sha256(shlex.join([*compiler, *flags, sys.version]).encode()).hexdigest()[:12]
    library = out / f"{name}{SUFFIX}"
    objects = out / "obj" / library.stem.partition(".")[0] / digest
    objects.mkdir(parents=True, exist_ok=True)

    def compile_one(source: Path) -> tuple[Path, bool]:
        product = objects / f"{'-'.join(source.relative_to(ROOT).with_suffix('').parts)}.o"
        dependency_file = product.with_suffix(".d")
        if is_current(product, dependency_file):
            return product, False
        subprocess.run(
            [*compiler, *flags, "-MMD", "-MF", str(dependency_file), "-c", str(source), "-o", str(product)], check=True
        )
        return product, True

    with ThreadPoolExecutor(jobs) as pool:
        compiled = list(pool.map(compile_one, sources))
    linked_by = objects / "linked"
    inputs = "\n".join(str(p) for p, _ in compiled)
    stamp = objects.parent / "current"
    if (
        library.exists()
        and not any(new for _, new in compiled)
        and linked_by.exists()
        and linked_by.read_text() == inputs
        and stamp.exists()
        and stamp.read_text() == digest
    ):
        return False
    # Renamed into place: processes that run keep the library they have mapped.
    fresh = objects / library.name
    subprocess.run([*compiler, *flags, "-shared", *(str(p) for p, _ in compiled), "-o", str(fresh)], check=True)
    os.replace(fresh, library)
    linked_by.write_text(inputs)
    stamp.write_text(digest)
    return True


def system_headers() -> list[str]:
    """Flags for the headers of NumPy and Python, in this order: among Python's own, Debian's python3-numpy has those of
    another NumPy."""
    return ["-isystem", numpy.get_include(), "-isystem", sysconfig.get_path("include")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "build/dev")
    parser.add_argument("--cc", default=os.environ.get("CC") or shutil.which("cc") or "gcc")
    parser.add_argument("--opt", default="-O2 -g", help="optimisation flags (default: %(default)s)")
    parser.add_argument("--define", action="append", default=[], metavar="NAME[=VALUE]")
    parser.add_argument(
        "--sanitize", metavar="LIST", help="such as address,undefined (LD_PRELOAD is the caller's business)"
    )
    parser.add_argument("--no-werror", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    opt = parser.parse_args()
    out = opt.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    flags = [
        *description()["FLAGS"],
        *description()["MODULE_FLAGS"],
        *shlex.split(opt.opt),
        *description()["WARNINGS"],
        *system_headers(),
        "-I",
        str(ROOT / "objstore/core"),
        "-I",
        str(ROOT / "objstore/binding"),
        *(f"-D{d}" for d in opt.define),
    ]
    if opt.no_werror:
        flags.remove("-Werror")
    if opt.sanitize:
        flags += [f"-fsanitize={opt.sanitize}", "-fno-omit-frame-pointer"]
    started = time.monotonic()
    with open(out / ".lock", "w") as lock:  # two runs on one tree take turns
        fcntl.flock(lock, fcntl.LOCK_EX)
        link_sources(out)
        try:
            linked = [
                name
                for name, sources in extensions().items()
                if build_extension(out, name, sources, shlex.split(opt.cc), flags, opt.jobs)
            ]
        except subprocess.CalledProcessError as failed:
            print(f"devtree: {failed.cmd[0]} failed with status {failed.returncode}", file=sys.stderr)
            return 1
    print(f"devtree: {out} {'built' if linked else 'up to date'} in {time.monotonic() - started:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
