"""Deliberate mistakes, and whether the tests catch them. Used by the scripts named mutants.py.

Every mutant is a replacement in a copy of the sources, so the product carries no switches for it. One whose text is no
longer found is an error too: the list must follow the code.
"""
from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mutant:
    """`old` in `file` becomes `new`."""
    name: str
    file: str
    old: str
    new: str


def main(mutants: Sequence[Mutant], sources: Path, caught_by: Callable[[Mutant, Path], str]) -> int:
    """Try each mutant, or those named on the command line; `caught_by` says which test fails in the folder, or nothing.

    Returns the exit status: 1 when a mutant survives.
    """
    wanted = [m for m in mutants if len(sys.argv) < 2 or m.name in sys.argv[1:]]
    survivors, began = [], time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / sources.name
        shutil.copytree(sources, folder, ignore=shutil.ignore_patterns("out", "__pycache__"))
        for mutant in wanted:
            n = (folder / mutant.file).read_text().count(mutant.old)
            if n != 1:
                sys.exit(f"the mutant {mutant.name!r} no longer fits {mutant.file}: its text occurs {n} times")
        if test := caught_by(Mutant("none", "", "", ""), folder):  # or everything would be caught
            sys.exit(f"without any mutant there is a failure: {test}")
        for mutant in wanted:
            source = folder / mutant.file
            text = source.read_text()
            source.write_text(text.replace(mutant.old, mutant.new))
            try:
                test = caught_by(mutant, folder)
            finally:
                source.write_text(text)
            print(f"{'caught by ' + test if test else 'SURVIVED':<26} {mutant.name}", flush=True)
            if not test:
                survivors.append(mutant.name)
    print(f"{len(wanted) - len(survivors)} passed, {len(survivors)} failed in {time.monotonic() - began:.0f}s")
    return 1 if survivors or not wanted else 0
