"""What tests share: waiting for a condition, and looking at what a test has left behind."""

from __future__ import annotations

import gc
import os
import threading
import time
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

MARKER = "CELLMESH_TEST_RUN"  # an environment variable every process started by the tests inherits
FIRST_COLLECTION_S, NEXT_COLLECTION_S = 0.05, 0.5
T = TypeVar("T")


def wait_until(condition: Callable[[], T], deadline: float = 30.0, what: str | Callable[[], str] = "") -> T:
    """Wait for a condition; the tests' only way of waiting.

    Parameters
    ----------
    condition : callable
        Looked at every few milliseconds until its value is true.
    deadline : float, seconds, > 0
        How long to wait at most.
    what : str or callable
        Says in the failure what was waited for; a callable, also what there is instead by then.

    Returns
    -------
    The first true value of `condition()`.

    Raises
    ------
    AssertionError
        When the deadline has passed.
    """
    end = time.monotonic() + deadline
    pause = 0.001
    while True:
        if value := condition():
            return value
        if time.monotonic() > end:
            said = what() if callable(what) else what
            raise AssertionError(f"not within {deadline:g} s: {said or getattr(condition, '__name__', condition)}")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)


def after_garbage(condition: Callable[[], bool]) -> Callable[[], bool]:
    """A condition for `wait_until` that may need a collection of garbage. One takes longer than most waiting does, so
    the first comes after a moment, and further ones after a while.
    """
    due = time.monotonic() + FIRST_COLLECTION_S

    def look() -> bool:
        nonlocal due
        if condition():
            return True
        if time.monotonic() < due:
            return False
        gc.collect()
        due = time.monotonic() + NEXT_COLLECTION_S
        return condition()

    return look


def wait_until_saved(n_bytes: int) -> None:
    """Wait until a checkpoint of that many bytes is at home: a large one is on its way when its call has ended."""
    from cellmesh.session.current import current

    client = current().client
    wait_until(lambda: [row for row in client.objects(10_000, n_bytes) if row["place"] == "memory" and row["pins"]])


REST_S, WAKES_PER_S = 2.0, 2  # at rest: for so long, no process wakes more often


def _wakes(pids: Iterable[int]) -> dict[int, int]:
    """How often each of these processes has been given a CPU, without the calling thread."""
    from cellmesh.scheduler.system.processes import wakes

    return {pid: wakes(pid, without_thread=threading.get_native_id()) for pid in pids}


def wait_until_at_rest(pids: Callable[[], Iterable[int]], deadline: float = 30.0) -> None:
    """Wait for two seconds in which none of the processes woke more than twice a second.

    Parameters
    ----------
    pids : callable
        The processes, anew for each look; of the caller's, all other threads count.
    deadline : float, seconds, > 0
        How long to wait at most.

    Raises
    ------
    AssertionError
        Names the processes that woke too often in the last two seconds.
    """
    end = time.monotonic() + deadline
    while True:
        before = _wakes(pids())
        time.sleep(REST_S)
        restless = {
            pid: n - before.get(pid, 0)
            for pid, n in _wakes(pids()).items()
            if n - before.get(pid, 0) > REST_S * WAKES_PER_S
        }
        if not restless:
            return
        if time.monotonic() > end:
            from cellmesh.scheduler.system.processes import name_of

            who = ", ".join(f"{pid} ({name_of(pid)}): {n}" for pid, n in restless.items())
            raise AssertionError(f"not at rest within {deadline:g} s: {who} wakes in {REST_S:g} s")


@dataclass(frozen=True)
class Process:
    """One process as /proc shows it. The start time tells it from a later one with the same pid."""

    pid: int
    started: int
    parent: int = field(compare=False)
    text: str = field(compare=False)

    def __str__(self) -> str:
        return f"{self.pid} {self.text}"


def _process(pid: int) -> Process | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except (FileNotFoundError, ProcessLookupError):
        return None
    name, rest = stat[stat.index("(") + 1 : stat.rindex(")")], stat[stat.rindex(")") + 2 :].split()
    if rest[0] in "ZX" and int(rest[1]) != os.getpid():
        return None  # dead and somebody else's to reap; our own zombies count
    return Process(pid, int(rest[19]), int(rest[1]), f"[{rest[0]}] {command or name}"[:160])


KTHREADD = 2  # the parent of Linux's own threads, which have no environment
forkers: set[int] = set()  # what these have forked belongs to the test that asked for it
_strangers: set[int] = set()  # known not to be of this run, and listed in /proc ever since


def processes() -> set[Process]:
    """Every process that descends from this one or was started with this run's marker, wherever it has moved since."""
    marker = f"{MARKER}={os.environ[MARKER]}".encode()
    pids = {int(name) for name in os.listdir("/proc") if name.isdigit()} - {os.getpid()}
    _strangers.intersection_update(pids)
    found: dict[int, Process] = {}
    others: dict[int, Process] = {}
    unsure = set()
    for pid in pids - _strangers:
        if process := _process(pid):
            try:
                environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            except OSError:  # gone, or another user's
                environment = []
            (found if marker in environment else others)[pid] = process
            if not any(environment) and process.parent != KTHREADD:
                unsure.add(pid)  # a program that is just being loaded has none for a moment
    ours = {os.getpid(), *found}
    while grown := {pid for pid, p in others.items() if p.parent in ours and pid not in ours}:
        ours |= grown
        found |= {pid: others[pid] for pid in grown}
    _strangers.update(others.keys() - ours - unsure)
    return set(found.values())


def descriptors() -> dict[int, str]:
    """This process's open descriptors and what they point to."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:  # the one that listed the folder
            continue
    return found


def mapped_segments() -> set[str]:
    """Mappings of shared memory without a file (memfd) in this process, by name and inode."""
    lines = (line.split(maxsplit=5) for line in Path("/proc/self/maps").read_text().splitlines())
    return {
        f"{fields[5]} inode {fields[4]}" for fields in lines if len(fields) == 6 and fields[5].startswith("/memfd:")
    }


def session_files() -> set[Path]:
    """What sessions keep in the file system: everything below the scratch folder that bears cellmesh's name.

    The per-user folder that holds the sessions may stay, empty.
    """
    roots = [p for name in ("XDG_RUNTIME_DIR", "TMPDIR") for p in Path(os.environ[name]).glob("cellmesh*")]
    walks = (walk for root in roots for walk in os.walk(root))  # `rglob` raises where a session ends just now
    inside = {Path(folder, name) for folder, folders, names in walks for name in (*folders, *names)}
    return inside | {root for root in roots if not root.is_dir()}


@dataclass(frozen=True)
class Holdings:
    """What the tests hold at one moment; the difference of two of them is what a test has left behind."""

    processes: set[Process]
    threads: set[threading.Thread]
    descriptors: dict[int, str]
    segments: set[str]
    files: set[Path]

    @classmethod
    def now(cls) -> Holdings:
        return cls(processes(), set(threading.enumerate()), descriptors(), mapped_segments(), session_files())

    def left_since(self, before: Holdings) -> dict[str, list[str]]:
        """What is here and was not before, by kind; kinds of which nothing is left are absent.

        Offspring of a process that was here before (the workers of a session that a wider fixture keeps) is that
        process's business, and the files of a session that was here before likewise.
        """
        known = {p.pid for p in before.processes} - forkers
        parents = {p.pid: p.parent for p in self.processes}

        def descends_from_known(pid: int) -> bool:
            while pid in parents:
                if pid in known:
                    return True
                pid = parents[pid]
            return False

        folders = {p.parent for p in before.files}
        left = {
            "processes": [str(p) for p in self.processes - before.processes if not descends_from_known(p.parent)],
            "threads": [t.name for t in self.threads - before.threads if t.is_alive()],
            "descriptors": [
                f"{fd} -> {target}" for fd, target in self.descriptors.items() if before.descriptors.get(fd) != target
            ],
            "segments": sorted(self.segments - before.segments),
            "session files": [str(p) for p in self.files - before.files if p.parent not in folders],
        }
        return {kind: sorted(found) for kind, found in left.items() if found}


def wheel(folder: Path, version: str = "1.0", name: str = "cm_tiny", code: str = "") -> Path:
    """A wheel of one module, which knows its version."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f"version = {version!r}\n{code}",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{file},,\n" for file in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(path, "w") as packed:
        for file, text in files.items():
            packed.writestr(file, text)
    return path
