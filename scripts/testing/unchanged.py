"""A static check that has passed is not run again while all that decides what it finds is the same, by content."""

from __future__ import annotations

import hashlib
import platform
import shutil
import subprocess
import sys
from functools import cache
from importlib.metadata import distributions
from pathlib import Path

import frontend

from .kinds import ROOT, Kind

PASSED = ROOT / "build/passed"  # by name of a check, the state in which it passed


@cache
def environment() -> str:
    """The tools and libraries that checks use: the interpreter, its environment's packages, the compiler, Node.js."""
    node = frontend.node_folder()
    programs = [shutil.which("gcc"), str(node / "node") if node else None]
    versions = [
        subprocess.run([each, "--version"], capture_output=True, text=True, check=True).stdout
        for each in programs
        if each is not None
    ]
    packages = sorted(f"{each.name}=={each.version}" for each in distributions())
    return "\n".join([sys.version, *platform.libc_ver(), *versions, *packages])


def state(kind: Kind) -> str:
    """A digest of the check's command, of the environment, and of the names and the content of what it reads."""
    digest = hashlib.sha256(repr((kind.command, environment())).encode())
    for path in sorted(kind.inputs()):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(ROOT)} {content}\n".encode())
    return digest.hexdigest()


def _record(kind: Kind) -> Path:
    return PASSED / kind.name.replace(" ", "-")


def has_passed(kind: Kind, in_state: str) -> bool:
    """Whether the last time that the check passed was in this state."""
    record = _record(kind)
    return record.exists() and record.read_text() == in_state


def passed(kind: Kind, in_state: str) -> None:
    """Remember that the check passed in this state, which is the one before it began."""
    PASSED.mkdir(parents=True, exist_ok=True)
    _record(kind).write_text(in_state)
