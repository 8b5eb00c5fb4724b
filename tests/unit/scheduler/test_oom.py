"""Whom the memory monitor ends, when it looks, and what it reads of machine and cgroups."""

from __future__ import annotations

from pathlib import Path

import pytest
from cellmesh.scheduler.local_scheduler import oom
from cellmesh.scheduler.local_scheduler.oom import Candidate, choose, is_short
from cellmesh.scheduler.system.memory import Usage, usages

GB = 1 << 30


def candidate(
    pid: int, *, task: int = 0, parent: int = 0, retriable: bool = True, is_actor: bool = False, used: int = GB
) -> Candidate:
    return Candidate(pid, task or pid, parent, retriable, is_actor, used)


@pytest.mark.parametrize(
    "candidates, pid",
    [
        ([], None),
        ([candidate(1), candidate(2)], 2),  # the newest
        ([candidate(1, parent=7), candidate(2, parent=7), candidate(3, parent=8)], 2),  # of the largest group
        ([candidate(1), candidate(2, retriable=False)], 1),  # what may be run again first
        ([candidate(1, retriable=False), candidate(2, is_actor=True)], 1),  # tasks before actors
        ([candidate(1, is_actor=True, retriable=False), candidate(2, is_actor=True)], 2),
        ([candidate(1), candidate(2, used=1 << 20)], 1),  # not one that holds next to nothing
        ([candidate(1, used=1 << 20)], None),
    ],
)
def test_who_is_ended(candidates: list[Candidate], pid: int | None) -> None:
    chosen = choose(candidates)
    assert (chosen.pid if chosen else None) == pid


def test_it_looks_more_often_when_little_is_left() -> None:
    def next_look_s(usages: list[Usage]) -> float:
        return oom.next_look_s(usages, 0.95, at_rest=False)

    assert next_look_s([Usage(0, 100 * GB)]) == oom.LOOK_MAX_S
    assert next_look_s([Usage(95 * GB, 100 * GB)]) == oom.LOOK_MIN_S
    assert next_look_s([]) == oom.LOOK_MAX_S
    assert oom.LOOK_MIN_S < next_look_s([Usage(91 * GB, 100 * GB)]) < oom.LOOK_MAX_S


def test_a_session_at_rest_looks_seldom_however_little_others_have_left() -> None:
    for used in (0, 91, 95, 99):
        assert oom.next_look_s([Usage(used * GB, 100 * GB)], 0.95, at_rest=True) >= oom.REST_LOOK_MIN_S


def test_what_is_short() -> None:
    small, large = Usage(96, 100), Usage(50, 1000)
    assert (
        is_short([large, small], 0.95) == small and is_short([large], 0.95) is None and is_short([small], 1.0) is None
    )


@pytest.mark.parametrize("text, share", [("0.5", 0.5), ("", 0.95), ("none", 0.95), ("7", 0.95), ("1", 1.0)])
def test_the_threshold_is_a_share(monkeypatch: pytest.MonkeyPatch, text: str, share: float) -> None:
    monkeypatch.setenv(oom.VARIABLE, text)
    assert oom.threshold() == share


@pytest.fixture
def machine(tmp_path: Path) -> tuple[Path, Path]:
    """Folders in place of /sys/fs/cgroup and /proc."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemTotal: 1000 kB\nMemFree: 10 kB\nMemAvailable: 400 kB\n")
    return tmp_path / "cgroup", tmp_path / "proc"


def group(folder: Path, current: str, limit: str, cache: str, values: tuple[int, object, int]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / current).write_text(f"{values[0]}\n")
    (folder / limit).write_text(f"{values[1]}\n")
    (folder / "memory.stat").write_text(f"anon 5\n{cache} {values[2]}\n")


def test_without_cgroups_the_machine_counts(machine: tuple[Path, Path]) -> None:
    assert usages(*machine) == [Usage(600 << 10, 1000 << 10)]


def test_version_2_and_its_parents(machine: tuple[Path, Path]) -> None:
    root, proc = machine
    (proc / "self/cgroup").write_text("0::/a/b\n")
    group(root / "a/b", "memory.current", "memory.max", "inactive_file", (80_000, "max", 0))
    group(root / "a", "memory.current", "memory.max", "inactive_file", (90_000, 100_000, 20_000))
    assert usages(*machine)[1:] == [Usage(70_000, 100_000)]


def test_version_1(machine: tuple[Path, Path]) -> None:
    root, proc = machine
    (proc / "self/cgroup").write_text("3:memory:/job\n1:cpu,cpuacct:/job\n")
    names = "memory.usage_in_bytes", "memory.limit_in_bytes", "total_inactive_file"
    group(root / "memory/job", *names, (90_000, 100_000, 5_000))
    group(root / "memory", *names, (90_000, 9223372036854771712, 0))
    assert usages(*machine)[1:] == [Usage(85_000, 100_000)]
