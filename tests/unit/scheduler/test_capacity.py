"""What a process may use, as masks and cgroups say it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cellmesh.scheduler.system import capacity as machine


@pytest.fixture
def cgroups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty tree of cgroups, with this process in v2's group /a/b."""
    (tmp_path / "membership").write_text("0::/a/b\n4:memory:/m\n3:cpu,cpuacct:/c\n")
    monkeypatch.setattr(machine, "CGROUPS", str(tmp_path))
    monkeypatch.setattr(machine, "MEMBERSHIP", str(tmp_path / "membership"))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    for folder in ("a/b", "memory/m", "cpu,cpuacct/c"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


def test_without_limits_the_affinity_counts(cgroups: Path) -> None:
    assert machine.usable_cpus() == 8


@pytest.mark.parametrize(
    "text, n_cpus", [("max 100000", 8), ("150000 100000", 2), ("50000 100000", 1), ("1600000 100000", 8)]
)
def test_a_quota_of_version_2(cgroups: Path, text: str, n_cpus: int) -> None:
    (cgroups / "a/b/cpu.max").write_text(text)
    assert machine.usable_cpus() == n_cpus


def test_a_quota_further_up_counts(cgroups: Path) -> None:
    (cgroups / "a/b/cpu.max").write_text("max 100000")
    (cgroups / "a/cpu.max").write_text("300000 100000")
    assert machine.usable_cpus() == 3


@pytest.mark.parametrize("quota, n_cpus", [("-1", 8), ("250000", 3)])
def test_a_quota_of_version_1(cgroups: Path, quota: str, n_cpus: int) -> None:
    (cgroups / "cpu,cpuacct/c/cpu.cfs_quota_us").write_text(quota)
    (cgroups / "cpu,cpuacct/c/cpu.cfs_period_us").write_text("100000")
    assert machine.usable_cpus() == n_cpus


@pytest.mark.parametrize(
    "file, text, limit",
    [
        ("a/b/memory.max", "1000000", 1_000_000),
        ("memory/m/memory.limit_in_bytes", "2000000", 2_000_000),
        ("a/b/memory.max", "max", None),
        ("memory/m/memory.limit_in_bytes", "9223372036854771712", None),
    ],
)
def test_memory_limits(cgroups: Path, file: str, text: str, limit: int | None) -> None:
    (cgroups / file).write_text(text)
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert machine.usable_memory() == (limit or physical)
    assert machine.default_store_bytes() == int(machine.usable_memory() * 0.3)


@pytest.mark.parametrize("mask, n_gpus", [("", 0), ("-1", 0), ("0", 1), ("0,2", 2), ("GPU-abc,GPU-def", 2)])
def test_gpus_of_the_mask(monkeypatch: pytest.MonkeyPatch, mask: str, n_gpus: int) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", mask)
    assert machine.usable_gpus() == n_gpus
