"""Takes the pictures in docs/images/ from the real thing: a JupyterLab in Chromium, in both themes.

    make screenshots

Look at them before committing: this script knows that something is on the screen, not that it is beautiful.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/ui")]

from playwright.sync_api import Locator, expect
from support.waiting import wait_until
from ui.lab import Lab, LabServer, chromium
from ui.panel import Panel

IMAGES = ROOT / "docs/images"
CELLS = [
    "%load_ext cellmesh\nimport cellmesh as cm",
    """%%remote
import time
import numpy as np

def simulate(seed, n=200_000):
    time.sleep(0.15)
    return np.random.default_rng(seed).normal(loc=seed, size=n)

def combine(a, b):
    time.sleep(0.1)
    return (a + b) / 2""",
    """parts = [simulate.remote(seed) for seed in range(8)]
while len(parts) > 1:
    parts = [combine.remote(a, b) for a, b in zip(parts[::2], parts[1::2])]
mean = cm.get(parts[0])
mean.mean()""",
    "%%remote\nwalk = np.cumsum(mean.reshape(-1, 4), axis=0)\nspread = walk.std(axis=0)\nprint('walked', len(walk), "
    "'steps')\nspread",
    "walk",
    """%%remote
def step(x):
    return x + 1

def merge(*parts):
    return sum(parts)""",
    "layer = [step.remote(i) for i in range(400)]\nfor _ in range(5):\n    layer = [step.remote(x) for x in layer]\n"
    "cm.get(merge.remote(*layer))",
    "%%tune --metric accuracy --samples 20 --seed 3 --scheduler asha:max_t=24 --name digits --wait "
    """lr=loguniform(1e-3,1) width=[16,64]
import numpy as np
noise, reached = np.random.default_rng(int(1e6 * lr)), 1 - np.log10(lr / 0.06) ** 2 / 4 - 1 / width
for epoch in range(1, 25):
    report(accuracy=reached * (1 - 0.8 * np.exp(-epoch * lr * 12)) + noise.normal(scale=0.01))""",
    """from cellmesh import rl
for n_steps in (128, 256):
    algo = rl.PPO("CartPole-v1", num_envs=8, n_steps=n_steps, seed=0)
    for result in algo.train(until={"episode_return_mean": 475, "timesteps_total": 120_000}):
        pass
    algo.close()""",
]
TREE, CARD, MANY, SEARCH, LEARN = 2, 4, 6, 7, 8


def take(lab: Lab, name: str, what: Locator | None = None) -> None:
    """A picture of the page, or of one element, in both themes."""
    for theme in ("light", "dark"):
        lab.theme(theme)
        lab.settle()
        (what or lab.page).screenshot(path=IMAGES / f"{name}-{theme}.png")
        print(f"docs/images/{name}-{theme}.png", flush=True)


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="cm-", dir="/tmp") as scratch, chromium() as browser:
        folder = Path(scratch, "notebooks")
        folder.mkdir()
        server = LabServer(folder, Path(scratch, "jupyter"))
        page = browser.new_page(viewport={"width": 1440, "height": 860}, device_scale_factor=2)
        lab = Lab(server, page)
        try:
            lab.open(lab.write("tour.ipynb", CELLS))
            lab.command("filebrowser:hide-main")
            panel = Panel(page)
            for index in range(TREE + 1):
                lab.run_cell(index)
            panel.expect_tasks(15)
            panel.tasks()
            wait_until(lambda: panel.colours_drawn() > 5, what="a drawn graph")
            take(lab, "panel")
            for index in range(TREE + 1, CARD + 1):
                lab.run_cell(index)
            card = lab.cell(CARD).locator(".cellmesh-card").first
            expect(card).to_be_visible()
            lab.cell(CARD).scroll_into_view_if_needed()
            take(lab, "card", card)
            for index in range(CARD + 1, MANY + 1):
                lab.run_cell(index)
            panel.root.get_by_role("tab", name="Groups").click()
            take(lab, "groups", panel.root)
            # Back to the middle of the first cell.
            panel.tasks()
            box = panel.root.get_by_role("slider").bounding_box()
            assert box
            page.mouse.click(box["x"] + 0.55 * box["width"], box["y"] + 8)
            page.mouse.move(10, 10)
            take(lab, "past", panel.root)
            panel.root.get_by_role("button", name="Now", exact=True).click()
            lab.run_cell(SEARCH)
            card = lab.cell(SEARCH).locator(".cellmesh-card").first
            expect(card).to_contain_text("finished")
            lab.cell(SEARCH).scroll_into_view_if_needed()
            take(lab, "search", card)
            panel.root.get_by_role("tab", name="Trials").click()
            wait_until(lambda: panel.colours_drawn() > 5, what="curves")
            panel.root.locator(".cm-trials .cm-list .cm-row").first.click()
            page.mouse.move(10, 10)
            take(lab, "trials", panel.root)
            lab.run_cell(LEARN)
            panel.root.get_by_role("tab", name="Learning").click()
            wait_until(lambda: panel.colours_drawn() > 5, what="curves")
            page.mouse.move(10, 10)
            take(lab, "learning", panel.root)
        finally:
            lab.close()
            page.close()
            server.close()


if __name__ == "__main__":
    main()
