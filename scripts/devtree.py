"""Makes an importable developer tree without CMake or pip: symlinks for Python, one incremental compile for C.

    python scripts/devtree.py                      # build/dev
    PYTHONPATH=build/dev PYTHONSAFEPATH=1 python -c "import cellmesh"    # safe path: ./cellmesh must not win

The repository's top-level folders are sub-packages of `cellmesh`, so they cannot be imported where they lie. A package
directory is therefore real, and what it contains are symlinks to the sources: edits count at once, new files after the
next run, and the compiled modules land in the tree instead of among the sources. An editable install does the same
through CMake in about ten times the time; this script is for the edit-compile-test loop.
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
PACKAGES = {"cellmesh": "cellmesh", "objstore": "cellmesh/objstore", "scheduler": "cellmesh/scheduler",
            "kernel_ext": "cellmesh/kernel_ext"}
NOT_PYTHON = {"__pycache__", "core", "binding"}  # C sources; only under objstore/
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
SUFFIX = importlib.machinery.EXTENSION_SUFFIXES[0]


def link_sources(out: Path) -> None:
    """Mirror the package folders into `out`, one level deep, and drop links whose source has gone."""
    for source, target in PACKAGES.items():
        package = out / target
        package.mkdir(parents=True, exist_ok=True)
        wanted = {p.name: p for p in (ROOT / source).iterdir()
                  if p.suffix != ".c" and p.name != "__pycache__" and not (source == "objstore" and p.name in NOT_PYTHON)}
        for old in package.iterdir():
            if old.is_symlink() and wanted.get(old.name) != old.readlink():
                old.unlink()
        for name, path in wanted.items():
            if not (package / name).is_symlink():
                (package / name).symlink_to(path)


def extensions() -> dict[str, list[Path]]:
    """The sources of each extension module, by its path in the tree: the core with its binding, and the graph's fold."""
    core = [p for p in (ROOT / "objstore/core").glob("*.c") if not p.name.endswith("_test.c")]
    binding = [p for p in (ROOT / "objstore/binding").glob("*.c") if not p.name.endswith("_testmodule.c")]
    return {"cellmesh/objstore/_core": sorted(core) + sorted(binding),
            "cellmesh/kernel_ext/_fold": [ROOT / "kernel_ext/fold.c"]}


def is_current(product: Path, dependency_file: Path) -> bool:
    """Whether `product` is newer than everything its dependency file (cc -MMD) names."""
    if not (product.exists() and dependency_file.exists()):
        return False
    made = product.stat().st_mtime_ns
    names = dependency_file.read_text().replace("\\\n", " ").split(":", 1)[1].split()
    return all(Path(name).exists() and Path(name).stat().st_mtime_ns < made for name in names)


def build_extension(out: Path, name: str, sources: list[Path], compiler: list[str], flags: list[str], jobs: int) -> bool:
    """Compile what changed and link the module; True when a new one was linked."""
    # Objects of other flags stay beside these, so that switching to a sanitizer and back costs nothing.
    digest = hashlib.sha256(shlex.join([*compiler, *flags, sys.version]).encode()).hexdigest()[:12]
    library = out / f"{name}{SUFFIX}"
    objects = out / "obj" / library.stem.partition(".")[0] / digest
    objects.mkdir(parents=True, exist_ok=True)

    def compile_one(source: Path) -> tuple[Path, bool]:
        product = objects / f"{source.parent.name}-{source.stem}.o"
        dependency_file = product.with_suffix(".d")
        if is_current(product, dependency_file):
            return product, False
        subprocess.run([*compiler, *flags, "-MMD", "-MF", str(dependency_file), "-c", str(source), "-o", str(product)],
                       check=True)
        return product, True

    with ThreadPoolExecutor(jobs) as pool:
        compiled = list(pool.map(compile_one, sources))
    linked_by = objects / "linked"
    inputs = "\n".join(str(p) for p, _ in compiled)
    stamp = objects.parent / "current"
    if (library.exists() and not any(new for _, new in compiled) and linked_by.exists()
            and linked_by.read_text() == inputs and stamp.exists() and stamp.read_text() == digest):
        return False
    # Renamed into place: processes that run keep the library they have mapped.
    fresh = objects / library.name
    subprocess.run([*compiler, *flags, "-shared", *(str(p) for p, _ in compiled), "-o", str(fresh)], check=True)
    os.replace(fresh, library)
    linked_by.write_text(inputs)
    stamp.write_text(digest)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "build/dev")
    parser.add_argument("--cc", default=os.environ.get("CC") or shutil.which("cc") or "gcc")
    parser.add_argument("--opt", default="-O2 -g", help="optimisation flags (default: %(default)s)")
    parser.add_argument("--define", action="append", default=[], metavar="NAME[=VALUE]")
    parser.add_argument("--sanitize", metavar="LIST", help="such as address,undefined (LD_PRELOAD is the caller's business)")
    parser.add_argument("--no-werror", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    opt = parser.parse_args()
    out = opt.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    flags = ["-std=c11", "-fPIC", "-fvisibility=hidden", "-pthread", *shlex.split(opt.opt), *WARNINGS,
             "-isystem", sysconfig.get_path("include"), "-isystem", numpy.get_include(),
             "-I", str(ROOT / "objstore/core"), "-I", str(ROOT / "objstore/binding"),
             *(f"-D{d}" for d in opt.define)]
    if opt.no_werror:
        flags.remove("-Werror")
    if opt.sanitize:
        flags += [f"-fsanitize={opt.sanitize}", "-fno-omit-frame-pointer"]
    started = time.monotonic()
    with open(out / ".lock", "w") as lock:  # two runs on one tree take turns
        fcntl.flock(lock, fcntl.LOCK_EX)
        link_sources(out)
        try:
            linked = [name for name, sources in extensions().items()
                      if build_extension(out, name, sources, shlex.split(opt.cc), flags, opt.jobs)]
        except subprocess.CalledProcessError as failed:
            print(f"devtree: {failed.cmd[0]} failed with status {failed.returncode}", file=sys.stderr)
            return 1
    print(f"devtree: {out} {'built' if linked else 'up to date'} in {time.monotonic() - started:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
