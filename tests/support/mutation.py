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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue


@dataclass(frozen=True)
class Mutant:
    """`old` in `file` becomes `new`. `delay`: likewise a file, old and new, which is no mistake, but makes it likely
    that this one is met. `test`: the one that catches it, for a script that tries its tests in turn.
    """

    name: str
    file: str
    old: str
    new: str
    delay: tuple[str, str, str] | None = None
    test: str = ""

    @property
    def replacements(self) -> list[tuple[str, str, str]]:
        return [(self.file, self.old, self.new), *([self.delay] if self.delay else [])]


def main(mutants: Sequence[Mutant], sources: Path, caught_by: Callable[[Mutant, Path], str], at_once: int = 1) -> int:
    """Try each mutant, or those named on the command line; `caught_by` says which test fails in the folder, or nothing.

    `at_once` of them are tried at a time, each in a copy of its own.

    Returns the exit status: 1 when a mutant survives.
    """
    wanted = [m for m in mutants if len(sys.argv) < 2 or m.name in sys.argv[1:]]
    if wrong := misfits(wanted, sources):
        sys.exit("\n".join(wrong))

    survivors, began = [], time.monotonic()
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(at_once) as pool:
        copies: SimpleQueue[Path] = SimpleQueue()
        for i in range(at_once):
            folder = Path(scratch) / str(i) / sources.name
            shutil.copytree(sources, folder, ignore=shutil.ignore_patterns("out", "__pycache__"))
            copies.put(folder)

        def attempt(mutant: Mutant | None) -> str:
            folder = copies.get()
            try:
                return _attempt(mutant, sources, folder, caught_by)
            finally:
                copies.put(folder)

        outcomes = pool.map(attempt, [None, *wanted])
        if test := next(outcomes):  # or everything would be caught
            pool.shutdown(wait=False, cancel_futures=True)
            sys.exit(f"without any mutant there is a failure: {test}")
        for mutant, test in zip(wanted, outcomes, strict=True):
            print(f"{'caught by ' + test if test else 'SURVIVED':<26} {mutant.name}", flush=True)
            if not test:
                survivors.append(mutant.name)
    print(f"{len(wanted) - len(survivors)} passed, {len(survivors)} failed in {time.monotonic() - began:.0f}s")
    return 1 if survivors or not wanted else 0


def misfits(mutants: Sequence[Mutant], sources: Path) -> list[str]:
    """Those whose text is not there, or not once."""
    return [
        f"the mutant {mutant.name!r} no longer fits {file}: its text occurs {n} times"
        for mutant in mutants
        for file, old, _ in mutant.replacements
        if (n := (sources / file).read_text().count(old)) != 1
    ]


def _attempt(mutant: Mutant | None, sources: Path, folder: Path, caught_by: Callable[[Mutant, Path], str]) -> str:
    """What catches the mutant in a folder, which is as `sources` before and after; None: the sources as they are."""
    if mutant is None:
        return caught_by(Mutant("none", "", "", ""), folder)
    for file, old, new in mutant.replacements:
        (folder / file).write_text((folder / file).read_text().replace(old, new))
    try:
        return caught_by(mutant, folder)
    finally:
        for file, _, _ in mutant.replacements:
            (folder / file).write_text((sources / file).read_text())
