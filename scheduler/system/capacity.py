"""What this process may use of the machine: CPUs, memory, GPUs, as limited by affinity masks and cgroups."""

from __future__ import annotations

import math
import os

from . import cgroups

CGROUPS, MEMBERSHIP = cgroups.ROOT, cgroups.MEMBERSHIP
UNLIMITED = 1 << 60  # cgroup v1 writes "no limit" as a number near 2**63
STORE_SHARE = 0.3  # of the memory; the segment is sparse, so what is not used costs nothing


def usable_cpus() -> int:
    """CPUs this process may run on: its affinity mask, and what its cgroup's quota amounts to; at least 1."""
    n_cpus = len(os.sched_getaffinity(0))
    quota = _cpu_quota()
    return max(1, min(n_cpus, math.ceil(quota)) if quota is not None else n_cpus)


def usable_memory() -> int:
    """Bytes of memory this process may use: the machine's, or the limit of its cgroup."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    files = [*_cgroup_files("memory.max"), *_cgroup_files("memory.limit_in_bytes", "memory")]
    limits = [_number(path) for path in files]
    return min([physical, *(limit for limit in limits if limit is not None and 0 < limit < UNLIMITED)])


def default_store_bytes() -> int:
    """How large the object store is unless the user says otherwise."""
    return int(usable_memory() * STORE_SHARE)


def usable_gpus() -> int:
    """GPUs this process may use: those of CUDA_VISIBLE_DEVICES if it is set, otherwise those that the driver lists."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([device for device in visible.split(",") if device.strip() not in ("", "-1", "NoDevFiles")])
    try:
        return len(os.listdir("/proc/driver/nvidia/gpus"))
    except OSError:  # no such driver
        return 0


def _cpu_quota() -> float | None:
    """CPUs' worth of time the cgroup grants, None without a limit."""
    quotas: list[float] = []
    for path in _cgroup_files("cpu.max"):
        words = cgroups.text(path).split()
        if len(words) == 2 and words[0] != "max":
            quotas.append(int(words[0]) / int(words[1]))
    for path in _cgroup_files("cpu.cfs_quota_us", "cpu"):
        quota, period = _number(path), _number(f"{os.path.dirname(path)}/cpu.cfs_period_us")
        if quota is not None and period and quota > 0:
            quotas.append(quota / period)
    return min(quotas, default=None)


def _cgroup_files(name: str, controller: str = "") -> list[str]:
    """The files of that name from this process's cgroup up to the root."""
    paths = (os.path.join(folder, name) for folder in cgroups.folders(controller, CGROUPS, MEMBERSHIP))
    return [path for path in paths if os.path.isfile(path)]


def _number(path: str) -> int | None:
    text = cgroups.text(path)
    return int(text) if text.lstrip("-").isdigit() else None
