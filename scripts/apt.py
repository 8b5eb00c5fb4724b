"""Installs what tests need from the distribution's packages, where that is possible.

python scripts/apt.py       # Redis; says so, loudly, where it cannot, which is a failure with CI=true
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable

IN_CI = os.environ.get("CI", "").lower() in ("1", "true", "yes")
AARCH64_ROOT = "/usr/aarch64-linux-gnu"
AARCH64_LIBC = f"{AARCH64_ROOT}/include/stdio.h"


def install(what: str, find: Callable[[], str | None], packages: tuple[str, ...]) -> str | None:
    """None once `find` finds it, which may take an installation; else the reason why there is none."""
    if find():
        return None
    if not shutil.which("apt-get"):
        return f"no {what} on PATH and no apt-get to install one; install it by hand"
    if os.geteuid() != 0:
        return f"no {what} on PATH; as root: apt-get install {' '.join(packages)}"
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    print(f"installing {' '.join(packages)} ...", flush=True)
    for command in (
        ["apt-get", "update", "-qq"],
        ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages],
    ):
        done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            return f"`{' '.join(command)}` failed: {done.stderr.strip()[-300:]}"
    return None if find() else f"apt-get installed {packages[0]}, but there is no {what} on PATH"


def aarch64() -> str | None:
    """A compiler for that machine, its C library, and qemu to run what comes out."""
    tools = ("aarch64-linux-gnu-gcc", "qemu-aarch64")
    return install(
        " and ".join(tools),
        lambda: "both" if all(map(shutil.which, tools)) and os.path.exists(AARCH64_LIBC) else None,
        ("gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross", "qemu-user"),
    )


def redis_server() -> str | None:
    """Redis, for the tests of the control store, which start their own."""
    return install("redis-server", lambda: shutil.which("redis-server"), ("redis-server",))


def main() -> int:
    problem = redis_server()
    if problem:
        print(f"!!! THE TESTS OF THE CONTROL STORE IN REDIS WILL NOT RUN: {problem}", file=sys.stderr)
    return 1 if problem and IN_CI else 0


if __name__ == "__main__":
    sys.exit(main())
