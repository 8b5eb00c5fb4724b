"""Kills what runs a session's work on an engine, at random moments, and looks at what comes of the work.

    python tests/engines/faults/kill_drill.py ENGINE SEED N       ENGINE: fake, ray, dask

A drill is a tree of tasks, large values that tasks make and take, a generator, calls of an actor that saves
checkpoints, and tasks that call another one. At a moment, which is a number of beginnings, one process is killed, or
stands still for a while: the one that has begun last, the actor's, or what stands for the engine on this machine. Every
value must be what it is when nobody disturbs, or the error that docs/engines.md has for what was killed; no task begins
more often than it may.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import numpy as np
from cellmesh.scheduler.system import processes
from engines.clusters import cluster_of
from support.drills import perform
from support.waiting import wait_until

import cellmesh
from cellmesh.exceptions import ObjectLostError
from cellmesh.session.current import current

WHAT = ("task", "actor", "engine", "pause")
N_LEAVES, N_LARGE, N_ITEMS, N_CALLS, N_PUSHES = 32, 3, 6, 8, 6
MAX_RETRIES = 3
LARGE = 1 << 17  # numbers, a megabyte: no parcel takes so much
PATIENCE_S = 120.0
STANDS_STILL_S = 0.5
LINE = 64  # bytes of a note


@dataclass(frozen=True)
class Notes:
    """What has begun, and in which process. Picklable."""

    path: Path

    def add(self, what: str) -> None:
        fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(fd, f"{os.getpid()} {what}".ljust(LINE - 1).encode() + b"\n")
        finally:
            os.close(fd)

    def read(self) -> list[tuple[int, str]]:
        """Of each beginning its process and what it was, in their order."""
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return [(int(pid), what) for pid, what in map(str.split, lines)]


# ---- the work
@cellmesh.remote(max_retries=MAX_RETRIES)
def square(notes: Notes, i: int) -> int:
    notes.add(f"square-{i}")
    return i * i


@cellmesh.remote(max_retries=MAX_RETRIES)
def add(notes: Notes, name: str, *values: int) -> int:
    notes.add(f"add-{name}")
    return sum(values)


@cellmesh.remote(max_retries=MAX_RETRIES)
def make(notes: Notes, i: int) -> np.ndarray:
    notes.add(f"make-{i}")
    return np.full(LARGE, float(i))


@cellmesh.remote(max_retries=MAX_RETRIES)
def total(notes: Notes, i: int, values: np.ndarray) -> float:
    notes.add(f"total-{i}")
    return float(values.sum())


@cellmesh.remote(max_retries=MAX_RETRIES)
def items(notes: Notes) -> Iterator[int]:
    notes.add("items")
    for i in range(N_ITEMS):
        notes.add(f"item-{i}")  # which is no beginning: not counted
        yield 10 * i


@cellmesh.remote(max_restarts=-1, max_task_retries=-1)
class Sum:
    """Of what it was given, each once, however often a call of it is repeated."""

    def __init__(self, notes: Notes) -> None:
        self.notes: Notes = notes
        self.given: set[int] = cellmesh.load_checkpoint(default=set())

    def add(self, i: int) -> int:
        self.notes.add(f"call-{i}")
        self.given.add(i)
        cellmesh.save_checkpoint(self.given)
        return sum(self.given)


@cellmesh.remote(max_retries=MAX_RETRIES)
def push(notes: Notes, there: Any, i: int) -> int:
    notes.add(f"push-{i}")
    there.add.remote(100 + i)  # for which nobody waits
    return min(cellmesh.get(there.add.remote(i)), i)


def begin(notes: Notes) -> Callable[[], dict[str, Any]]:
    """Begin the work; what is returned waits for its values, or for the errors of which the documentation tells."""
    level = [square.remote(notes, i) for i in range(N_LEAVES)]
    while len(level) > 1:
        level = [add.remote(notes, f"{len(level)}-{i}", *level[i : i + 2]) for i in range(0, len(level), 2)]
    made = [make.remote(notes, i) for i in range(N_LARGE)]
    totals = [total.remote(notes, i, ref) for i, ref in enumerate(made)]
    given = total.remote(notes, -1, cellmesh.put(np.ones(LARGE)))
    stream = items.remote(notes)
    actor = Sum.remote(notes)
    calls = [actor.add.remote(i) for i in range(N_CALLS)]
    there = Sum.remote(notes)
    pushes = [push.remote(notes, there, i) for i in range(N_PUSHES)]

    def values() -> dict[str, Any]:
        return {
            "tree": cellmesh.get(level[0], timeout=PATIENCE_S),
            "totals": [value_or_lost(ref) for ref in totals],
            "given": cellmesh.get(given, timeout=PATIENCE_S),
            "items": cellmesh.get(list(stream), timeout=PATIENCE_S),
            "calls": cellmesh.get(calls, timeout=PATIENCE_S)[-1],
            "pushes": cellmesh.get(pushes, timeout=PATIENCE_S),
            "pushed": cellmesh.get(there.add.remote(0), timeout=PATIENCE_S),
        }

    return values


def value_or_lost(ref: Any) -> Any:
    try:
        return cellmesh.get(ref, timeout=PATIENCE_S)
    except ObjectLostError:
        return "lost"


EXPECTED = {
    "tree": sum(i * i for i in range(N_LEAVES)),
    "totals": [float(i * LARGE) for i in range(N_LARGE)],
    "given": float(LARGE),
    "items": [10 * i for i in range(N_ITEMS)],
    "calls": sum(range(N_CALLS)),
    "pushes": list(range(N_PUSHES)),
    "pushed": sum(i + 100 + i for i in range(N_PUSHES)),
}
N_BEGUN = 2 * N_LEAVES - 1 + 2 * N_LARGE + 1 + 1 + N_ITEMS + N_CALLS + 3 * N_PUSHES


# ---- who is killed
@dataclass(frozen=True)
class Drill:
    """Who is killed, and after how many beginnings."""

    what: str
    after: int

    @classmethod
    def draw(cls, seed: int, number: int) -> Drill:
        draw = random.Random(f"{seed}/{number}")
        return cls(WHAT[number % len(WHAT)], draw.randrange(1, N_BEGUN))

    def run(self, notes: Notes) -> None:
        """
        Raises
        ------
        AssertionError
            A value is not what it should be, or a task has begun too often.
        """
        values = begin(notes)
        wait_until(lambda: len(notes.read()) >= self.after, PATIENCE_S, f"{self.after} beginnings")
        self._strike(notes)
        found = values()
        may_be_lost = self.what in ("task", "actor")  # a worker, with the values that it had made
        for kind, expected in EXPECTED.items():
            if kind == "totals" and may_be_lost:
                pairs = zip(found[kind], EXPECTED["totals"], strict=True)
                assert all(value in ("lost", exact) for value, exact in pairs), f"{kind}: {found[kind]}"
            else:
                assert found[kind] == expected, f"{kind}: {found[kind]} instead of {expected}"
        begun = Counter(what for _, what in notes.read() if what.partition("-")[0] not in ("item", "call"))
        often = {what: n for what, n in begun.items() if n > MAX_RETRIES + 1}
        assert not often, f"begun more than {MAX_RETRIES + 1} times: {often}"

    def _strike(self, notes: Notes) -> None:
        for pid in self._whom(notes):
            try:
                if self.what == "pause":
                    os.kill(pid, signal.SIGSTOP)
                    time.sleep(STANDS_STILL_S)
                    os.kill(pid, signal.SIGCONT)
                else:
                    os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:  # it has ended by itself
                continue

    def _whom(self, notes: Notes) -> list[int]:
        if self.what == "engine":
            found = processes.session_processes(current().node.session_id)
            return [pid for pid in found if processes.name_of(pid) == "cellmesh-engine"]
        begun = notes.read()
        of_actor = [pid for pid, what in begun if what.startswith("call-")]
        others = [pid for pid, what in begun if pid not in of_actor]
        return (of_actor if self.what == "actor" else others)[-1:]


def drills(seed: int, numbers: range, tell: Callable[[str], None] = lambda text: None) -> list[str]:
    """The drills with these numbers, in this process's session; returns what went wrong."""
    drawn = ((number, Drill.draw(seed, number)) for number in numbers)
    return perform(sys.modules[__name__], drawn, lambda drill, place: drill.run(Notes(place / "notes")), tell)


def main(arguments: list[str]) -> int:
    engine, seed, n = arguments[0], *map(int, arguments[1:])
    with ExitStack() as ends:
        there = "" if engine == "fake" else ends.enter_context(cluster_of(f"{engine}_cluster.py")).address
        away = ends.enter_context(tempfile.TemporaryDirectory(prefix="drill-"))
        with chdir(away):  # from where workers of Ray import first: not from these sources
            cellmesh.init(address=f"{engine}:{'//' * (engine == 'dask')}{there}", object_store_memory=256 << 20)
        began = time.monotonic()
        wrong = drills(seed, range(n), print)
        cellmesh.shutdown()
    print(f"{n} kills on {engine} by seed {seed}: {len(wrong)} went wrong, {time.monotonic() - began:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
