"""Draws docs/images/learning-curves-*.png: how algorithms learn CartPole, over the five seeds of
tests/rl/test_learning_curves.py.

python docs/tools/learning_curves.py               # from the newest results
python docs/tools/learning_curves.py --learn 4     # learn first, four runs at a time, with two CPUs each
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

ROOT = Path(__file__).resolve().parents[2]
PROGRAM, RESULTS, IMAGES = ROOT / "tests/rl/test_learning_curves.py", ROOT / "benchmarks/results", ROOT / "docs/images"
sys.path.insert(0, str(PROGRAM.parent))
from test_learning_curves import CURVES, SEEDS  # found by the line above

THEMES = {"light": ("white", "#24292f", "#d0d7de", "#0969da"), "dark": ("#0d1117", "#e6edf3", "#30363d", "#58a6ff")}


def learn(name: str, seed: int) -> dict[str, Any]:
    """A curve: [steps, seconds, mean return of 100 episodes or None before the first] of each iteration."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM), name, str(seed)], capture_output=True, text=True, check=True, timeout=1800
    )
    points = json.loads(done.stdout.splitlines()[-1])
    print(name, seed, points[-1], flush=True)
    rounded = [[steps, round(s, 2), None if value != value else round(value, 1)] for steps, s, value in points]
    return {"algorithm": name, "seed": seed, "points": rounded}


def learn_all(at_once: int) -> None:
    with ThreadPoolExecutor(at_once) as pool:
        curves = list(pool.map(learn, *zip(*((name, seed) for name in CURVES for seed in SEEDS), strict=True)))
    day = datetime.datetime.now().strftime("%Y-%m-%d-%H%M")
    lines = ",\n".join(json.dumps(curve, separators=(",", ":")) for curve in curves)
    (RESULTS / f"{day}-learning-curves.json").write_text(f"[\n{lines}\n]\n")


def draw(curves: list[dict[str, Any]], theme: str) -> None:
    background, ink, grid, line = THEMES[theme]
    names = list(CURVES)
    figure, axes = plt.subplots(1, len(names), figsize=(13, 2.6), sharey=True, facecolor=background)
    for axis, name in zip(axes, names, strict=True):
        goal = CURVES[name][1]
        for curve in (curve for curve in curves if curve["algorithm"] == name):
            known = [(steps, value) for steps, _, value in curve["points"] if value is not None]
            axis.plot(*zip(*known, strict=True), color=line, alpha=0.6, linewidth=1.2)
        axis.axhline(goal, color=ink, linewidth=0.8, linestyle=":")
        axis.set_facecolor(background)
        axis.set_title(name, color=ink, fontsize=11)
        axis.set_xlim(left=0)
        axis.set_ylim(0, 510)
        axis.xaxis.set_major_locator(plt.MaxNLocator(3))
        axis.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:.0f} k" if value else "0")
        axis.tick_params(colors=ink, labelsize=9)
        axis.set_xlabel("steps", color=ink, fontsize=9)
        for side, spine in axis.spines.items():
            spine.set_visible(side in ("left", "bottom"))
            spine.set_color(grid)
    axes[0].set_ylabel("mean return", color=ink, fontsize=9)
    figure.tight_layout()
    figure.savefig(IMAGES / f"learning-curves-{theme}.png", dpi=110, facecolor=background)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--learn", type=int, metavar="N", help="learn first, N runs at a time")
    if at_once := parser.parse_args().learn:
        learn_all(at_once)
    found = json.loads(max(RESULTS.glob("*-learning-curves.json")).read_text())
    for one in THEMES:
        draw(found, one)
