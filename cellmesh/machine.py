"""What this process may use of the machine: CPUs, memory, GPUs, as limited by affinity masks and cgroups."""
from __future__ import annotations

import math
import os

CGROUPS = "/sys/fs/cgroup"
MEMBERSHIP = "/proc/self/cgroup"  # the groups of this process
UNLIMITED = 1 << 60  # cgroup v1 writes "no limit" as a number near 2**63
STORE_SHARE = 0.3    # of the memory; the segment is sparse, so what is not used costs nothing


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
    quotas = []
    for path in _cgroup_files("cpu.max"):
        words = _text(path).split()
        if len(words) == 2 and words[0] != "max":
            quotas.append(int(words[0]) / int(words[1]))
    for path in _cgroup_files("cpu.cfs_quota_us", "cpu"):
        quota, period = _number(path), _number(f"{os.path.dirname(path)}/cpu.cfs_period_us")
        if quota is not None and period and quota > 0:
            quotas.append(quota / period)
    return min(quotas, default=None)


def _cgroup_files(name: str, controller: str = "") -> list[str]:
    """The files of that name from this process's cgroup up to the root: a limit anywhere above counts too."""
    found = []
    for line in _text(MEMBERSHIP).splitlines():
        _, controllers, group = line.split(":", 2)
        if controller not in controllers.split(","):  # v2 has no controllers here, and `controller` is "" then
            continue
        root = os.path.join(CGROUPS, controllers) if controller else CGROUPS
        folder = os.path.join(root, group.strip("/")).rstrip("/")
        while folder != os.path.dirname(root):
            if os.path.isfile(path := os.path.join(folder, name)):
                found.append(path)
            folder = os.path.dirname(folder)
    return found


def _text(path: str) -> str:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:  # no cgroups in this kernel, or /proc hidden
        return ""


def _number(path: str) -> int | None:
    text = _text(path)
    return int(text) if text.lstrip("-").isdigit() else None
