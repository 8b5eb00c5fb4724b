"""`make bench`: cellmesh, Ray and the pools that a user has already, side by side in one run.

Writes benchmarks/results/<date>-<what>.json (every sample) and .md (the table and the machine). A figure without its
peer in the same run means little on a machine that others use, so nothing here measures cellmesh alone.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import subprocess
import sys
from pathlib import Path

import compare
import report

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RAY_PYTHON = ROOT / ".venv-bench-ray/bin/python"
APIS = "ray,cellmesh,pool_api,loky_api"


def machine() -> str:
    """The machine in one line."""
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return (
        f"{os.cpu_count()} x {model}, {memory_gb:.0f} GB, Linux {platform.release()}, Python "
        f"{platform.python_version()}"
    )


def commit() -> str:
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() or "not a git checkout"


def worst_foreign(runs: dict) -> float:
    """The largest share of the machine that others used during any sample that counts."""
    return max((f for run in runs.values() for r in run["results"].values() for f in r.get("foreign", [])), default=0.0)


def summary(runs: dict, opt: argparse.Namespace, day: str) -> str:
    versions = ", ".join(f"{report.label(a)} {r.get('version', '?')}" for a, r in runs.items())
    left = {report.label(a): r["left_behind"] for a, r in runs.items() if r.get("left_behind")}
    return "\n".join(
        [
            f"# {opt.only}, {day}",
            "",
            f"- machine: {machine()}",
            f"- commit: {commit()}",
            f"- versions: {versions}",
            f"- command: `make bench W='{opt.only}'`, {opt.rounds} alternating rounds; medians of all samples",
            f"- other processes used up to {worst_foreign(runs):.0%} of the machine during a sample",
            f"- processes left behind: {left or 'none'}",
            "",
            report.table(runs, markdown=True),
            "",
        ]
    )


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", default="*", help="workloads: comma-separated names or patterns (make bench W=...)")
    p.add_argument("--apis", default=APIS)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--time", type=float, default=1.0, help="seconds a sample")
    p.add_argument("--skip", default="")
    own = p.parse_args()
    day = datetime.datetime.now().strftime("%Y-%m-%d-%H%M")
    what = "all" if own.only == "*" else "".join(c if c.isalnum() or c in "_-" else "-" for c in own.only).strip("-")
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    out = results / f"{day}-{what}.json"
    opt = compare.parser().parse_args(
        [
            "--apis",
            own.apis,
            "--only",
            own.only,
            "--skip",
            own.skip,
            "--rounds",
            str(own.rounds),
            "--out",
            str(out),
            "--python",
            f"ray={RAY_PYTHON}",
            "--args",
            f"--time {own.time}",
        ]
    )
    runs = compare.run(opt)
    out.with_suffix(".md").write_text(summary(runs, opt, day))
    print(report.table(runs))
    print(f"\nwritten: {out.relative_to(ROOT)} and {out.with_suffix('.md').name}")
    if any("error" in r for r in runs.get("cellmesh", {}).get("results", {}).values()):
        sys.exit("a cellmesh workload failed")


if __name__ == "__main__":
    main()
