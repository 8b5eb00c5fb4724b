"""Installs what others have made, in the versions that the repository pins for this interpreter.

    python scripts/packages.py install build                # what `pip install --no-build-isolation .` needs
    python scripts/packages.py install dependencies test    # what cellmesh depends on; extras of pyproject.toml
    python scripts/packages.py install --newest test        # the newest that pyproject.toml allows
    python scripts/packages.py pin                          # `make pins`: pin the newest of today

A release of somebody else cannot break a fresh clone: its tests and `make lab` install from scripts/pins, one file of
names and versions for each Python. Whoever installs cellmesh gets what pyproject.toml allows.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Collection
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # PYTHONSAFEPATH leaves it out
import frontend
from apt import IN_CI

ROOT = Path(__file__).resolve().parent.parent
PINS = Path(__file__).resolve().parent / "pins"
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
SAID = 30  # lines of what pip prints, where it fails
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
# What the build asks for on a machine that has neither CMake nor Node.js.
BUILD = ["pip>=24", "scikit-build-core>=1.1", "numpy>=2", "cmake", "ninja", frontend.NODE_WHEEL]

OF_TESTS = {"test", "lint"}  # groups that nothing else needs

# Its releases depend on gigabytes of CUDA or not, as the index has it; a newer one is chosen by hand.
TORCH = "torch==2.13.0"
WITH_TORCH = {"torch", "accelerate", "lightning", "stable-baselines3"}  # it, and what needs it
OF_CUDA = ("cuda-", "nvidia-", "triton")  # what comes with it then, in versions that it asks for by itself


def groups() -> dict[str, list[str]]:
    """Requirements by group: build, dependencies, and each extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {"build": BUILD, "dependencies": project["dependencies"], **project["optional-dependencies"]}


def name_of(requirement: str) -> str:
    """A distribution's name, as all spellings of it are compared."""
    found = re.match(r"[\w.-]+", requirement)
    assert found, requirement
    return re.sub(r"[-_.]+", "-", found[0]).lower()


def read_pins(path: Path) -> dict[str, str]:
    """Versions by name."""
    lines = (line.partition("#")[0].strip() for line in path.read_text().splitlines())
    return {name_of(line): line.partition("==")[2] for line in lines if line}


def constraints() -> list[str]:
    """What pip is told of versions; says so, loudly, where nothing is pinned, which is a failure with CI=true."""
    path = PINS / f"{PYTHON}.txt"
    if path.exists():
        return ["--constraint", str(path)]
    there = ", ".join(sorted(each.stem for each in PINS.glob("*.txt")))
    text = (
        f"No versions are pinned for Python {PYTHON} (scripts/pins has {there}): the newest are installed. "
        f"`make pins` writes scripts/pins/{PYTHON}.txt."
    )
    print(f"!!! {text}", file=sys.stderr)
    if IN_CI:
        raise SystemExit(1)
    return []


def absent(requirements: list[str]) -> list[str]:
    """The names of those that are not installed."""
    names = {name_of(each.metadata["Name"]) for each in importlib.metadata.distributions()}
    return [name for requirement in requirements if (name := name_of(requirement)) not in names]


def install(names: list[str], newest: bool = False, without: Collection[str] = ()) -> None:
    """Install groups of requirements, those `without` left out; ends the program, with what is missing, where pip
    cannot."""
    known = {group: [each for each in asked if name_of(each) not in without] for group, asked in groups().items()}
    if unknown := set(names) - set(known):
        raise SystemExit(f"no such group: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    how = ["--upgrade", "--upgrade-strategy=eager", TORCH] if newest else constraints()
    if OF_TESTS.issuperset(names):
        how.append("--no-compile")  # few of thousands of files are ever imported; who imports one compiles it
    if "build" in names:  # the backend says which of the tools the machine lacks
        _pip(how, [each for each in BUILD if each.startswith(("pip", "scikit", "numpy"))])
        asked = [sys.executable, str(ROOT / "scripts/build_backend.py")]
        tools = subprocess.run(asked, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
        _pip(how, tools)
    _pip(how, [requirement for name in names if name != "build" for requirement in known[name]])


def _pip(how: list[str], requirements: list[str]) -> None:
    if not requirements:
        return
    done = subprocess.run([*PIP, "install", *how, *requirements], stdout=subprocess.PIPE, text=True)
    if done.returncode == 0:
        return
    print(*done.stdout.splitlines()[-SAID:], sep="\n", file=sys.stderr)  # which versions conflict, and why
    missing = ", ".join(absent(requirements)) or "none, but not all in the versions that are asked for"
    raise SystemExit(
        f"pip could not install {', '.join(requirements)}. Not installed: {missing}. Is there a network? "
        f"If the versions in scripts/pins/{PYTHON}.txt do not fit this interpreter, `make pins` pins others."
    )


def pin() -> None:
    """Write the newest versions of everything that any group asks for, as pip finds them today for the first release of
    this Python: Debian has 3.11.2, and some packages ask for 3.11.5.
    """
    requirements = sorted({requirement for group in groups().values() for requirement in group} | {TORCH})
    # pip takes another version only with the latter two.
    for_first = [f"--python-version={PYTHON}.0", "--only-binary=:all:", "--target=nowhere"]
    command = [*PIP, "--quiet", "install", "--dry-run", "--ignore-installed", "--report=-", *for_first, *requirements]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit("pip could not find versions that fit together; scripts/pins is as it was")
    found = [each["metadata"] for each in json.loads(done.stdout)["install"]]
    versions = {name_of(each["name"]): each["version"].partition("+")[0] for each in found}
    versions = {name: version for name, version in versions.items() if not name.startswith(OF_CUDA)}
    path = PINS / f"{PYTHON}.txt"
    before = read_pins(path) if path.exists() else {}
    head = f"# What tests and `make lab` install on Python {PYTHON}. `make pins` writes this file.\n"
    path.write_text(head + "".join(f"{name}=={versions[name]}\n" for name in sorted(versions)))
    for name in sorted(before.keys() | versions.keys()):
        if before.get(name) != versions.get(name):
            print(f"{name}: {before.get(name, 'none')} -> {versions.get(name, 'none')}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("install")
    one.add_argument("groups", nargs="+", metavar="GROUP", help=", ".join(groups()))
    one.add_argument("--newest", action="store_true")
    one.add_argument("--without-torch", action="store_true", help="nor what needs it")
    commands.add_parser("pin")
    opt = parser.parse_args()
    if opt.command == "pin":
        pin()
    else:
        install(opt.groups, opt.newest, WITH_TORCH if opt.without_torch else ())


if __name__ == "__main__":
    main()
