"""`make bench-panel`: what the live panel costs and how smooth it is, in a real JupyterLab in Chromium without a GPU.

Prints and writes to benchmarks/results/: frames per second under pan and zoom while 100,000 tasks stream in and with
1,000,000 as groups, the first picture after the first task, the same two of a search of 10,000 trials, what the
kernel's threads cost at 100,000 tasks a second, the traffic, how long a step back on the time slider takes, the size of
what the browser loads, and by how much tasks are slower at full speed while a front end follows. Frames are counted by
the page itself, input is real mouse input.
"""

from __future__ import annotations

import argparse
import datetime
import gzip
import json
import statistics
import sys
import tempfile
import time
import uuid
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), str(ROOT / "tests"), str(ROOT / "tests/ui")]

from bench import commit, machine
from playwright.sync_api import WebSocket
from procs import Usage, set_marker
from support.kernels import Kernel
from ui.lab import Lab, LabServer, chromium
from ui.panel import Panel

SETUP = """%load_ext cellmesh
import cellmesh as cm
cm.init()
@cm.remote
def task(): pass
def others_cpu_s():
    '''CPU seconds of every thread of this process but the main one: the graph's, and those that send its messages.'''
    import os
    ticks = 0
    for tid in os.listdir('/proc/self/task'):
        if int(tid) != os.getpid():
            stat = open(f'/proc/self/task/{tid}/stat').read().rsplit(')', 1)[1].split()
            ticks += int(stat[11]) + int(stat[12])
    return ticks / os.sysconf('SC_CLK_TCK')
"""
FIRST = "cm.get(task.remote())"
# Paced, so that the panel is live during the whole measurement: bursts of 500 as a notebook's loop makes them.
STREAM = """import time
end = time.perf_counter()
for _ in range(200):
    end += 0.05
    cm.get([task.remote() for _ in range(500)])
    time.sleep(max(0, end - time.perf_counter()))
"""
COST = """import json, time
spent, begun = others_cpu_s(), time.perf_counter()
end, n = begun, 0
while end < begun + 4:
    end += 0.01
    cm.get([task.remote() for _ in range(1000)])
    n += 1000
    time.sleep(max(0, end - time.perf_counter()))
seconds = time.perf_counter() - begun
print(json.dumps({'tasks_per_s': n / seconds, 'share_of_a_core': (others_cpu_s() - spent) / seconds}))
"""
MILLION = "for _ in range(100): cm.get([task.remote() for _ in range(10_000)])"
# A search of 10,000 trials that report 100 times, as its journal; a handle follows it, as after `tune.attach`.
TRIALS = """import math, pathlib, random
from cellmesh.tune import journal, records as r
from cellmesh.tune.experiment import Experiment
draw = random.Random(0)
folder = pathlib.Path('tune/wide')
folder.mkdir(parents=True)
plan, of = {'metric': 'loss', 'mode': 'min'}, r.Definition('train', {}, {}, None, None, 1, 0, {})
with open(folder / journal.FILE, 'wb') as file:
    def write(record): file.write(journal.encode(record))
    write(r.Opened(at=0.0, version=1, name='wide', plan=plan, definition=of))
    for n in range(10_000):
        lr, best = 10 ** draw.uniform(-4, 0), draw.random()
        write(r.Suggested(at=n, trial=n, config={'lr': lr, 'depth': n % 5, 'kind': 'abc'[n % 3]}))
        write(r.Launched(at=n, trial=n, attempt=1))
        for step in range(1, 101):
            result = {'loss': best + math.exp(-step * lr) + 0.02 * draw.random(), 'training_iteration': step}
            write(r.Reported(at=n + 0.01 * step, trial=n, attempt=1, result=result))
        write(r.Became(at=n + 1, trial=n, state='TERMINATED'))
    write(r.Closed(at=10_001))
wide = Experiment(folder)
print(len(wide))
"""
SLOWDOWN = "fewer tasks/s at full speed while followed, %"
STREAM_TASKS, COST_LIMIT_S = 100_000, 60
TARGETS = {
    "frames/s, 100,000 tasks live": "30 first, 60 goal",
    "frames/s, 1,000,000 tasks as groups": "30",
    "first picture of 10,000 trials of 100 reports, ms": "200",
    "frames/s, the pointer over 10,000 curves": "60",
    "first picture, ms": "500 first, 200 goal",
    "kernel's cost at the given rate, % of a core": "5",
    SLOWDOWN: "20 first, 10 goal",
    "traffic, MB/s": "1",
    "a step back in time at 100,000 tasks, ms": "50 (three frames)",
    "start bundle, kB gzipped": "300",
}


class Traffic:
    """Bytes that arrive over the page's kernel websockets."""

    def __init__(self, lab: Lab) -> None:
        self.bytes = 0
        lab.page.on("websocket", self._watch)

    def _watch(self, socket: WebSocket) -> None:
        if "/channels" in socket.url:
            socket.on("framereceived", self._received)

    def _received(self, data: str | bytes) -> None:
        self.bytes += len(data)


COUNT_FRAMES = """() => {
    window.frames_ = { n: 0, begun: performance.now(), on: true };
    const count = () => { if (window.frames_.on) { window.frames_.n++; requestAnimationFrame(count); } };
    requestAnimationFrame(count);
}"""
FRAMES_COUNTED = "() => { frames_.on = false; return 1000 * frames_.n / (performance.now() - frames_.begun); }"


def frames_per_second(lab: Lab, panel: Panel, seconds: float) -> float:
    """Pan and zoom for a while with real wheel and drag input; the page counts its frames."""
    box = panel.canvas.bounding_box()
    assert box
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    mouse = lab.page.mouse
    mouse.move(*middle)
    lab.page.evaluate(COUNT_FRAMES)
    end, step = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        step += 1
        if step % 60 == 0:
            mouse.down()
        if step % 60 < 30:
            mouse.move(middle[0] + (step % 30) * 4 - 60, middle[1] + (step % 20) * 3 - 30)
        else:
            mouse.up()
            mouse.wheel(0, 60 if step % 120 < 60 else -60)
    mouse.up()
    return lab.page.evaluate(FRAMES_COUNTED)


def first_picture_ms(lab: Lab) -> float:
    """From the execution of the first cell with a task to a drawn canvas, as the page sees it."""
    lab.page.evaluate("""() => {
        window.firstPicture = new Promise(resolve => {
            const begun = performance.now();
            const look = () => {
                const canvas = document.querySelector('#cellmesh-panel canvas.cm-canvas');
                if (canvas && canvas.width) {
                    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
                    if (new Set(new Uint32Array(data.buffer)).size > 5) { resolve(performance.now() - begun); return; }
                }
                requestAnimationFrame(look);
            };
            look();
        });
    }""")
    lab.start_cell(1)
    elapsed = lab.page.evaluate("() => window.firstPicture")
    lab.finish_cell(1)
    return elapsed


def step_back_ms(lab: Lab, panel: Panel, n: int = 20) -> float:
    """From a key on the time slider that goes a step back until it has been drawn: three frames at least."""
    panel.root.get_by_role("slider").press("ArrowLeft")  # the first one leaves the present
    took = lab.page.evaluate(
        """async n => {
        const slider = document.querySelector('#cellmesh-panel .cm-track'), took = [];
        const frame = () => new Promise(resolve => requestAnimationFrame(resolve));
        for (let i = 0; i < n; i++) {
            await frame();
            const begun = performance.now();
            slider.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowLeft', bubbles: true }));
            await frame();
            await frame();
            await frame();
            took.push(performance.now() - begun);
        }
        return took;
    }""",
        n,
    )
    panel.root.get_by_role("button", name="Now").click()
    return statistics.median(took)


def first_curves_ms(lab: Lab) -> float:
    """From a click on the tab of trials until curves are drawn, as the page sees it."""
    return lab.page.evaluate("""() => new Promise(resolve => {
        const begun = performance.now();
        document.querySelector('#cellmesh-panel [role=tab][id$=trials]').click();
        const look = () => {
            const canvas = document.querySelector('#cellmesh-panel canvas.cm-trial-plot');
            if (canvas && canvas.width) {
                const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
                if (new Set(new Uint32Array(data.buffer)).size > 60) { resolve(performance.now() - begun); return; }
            }
            requestAnimationFrame(look);
        };
        look();
    })""")


def frames_over_curves(lab: Lab, panel: Panel, seconds: float) -> float:
    """Move the pointer over the curves for a while, which finds and shows the trial below it; the page counts."""
    box = panel.canvas.bounding_box()
    assert box
    lab.page.evaluate(COUNT_FRAMES)
    end, step = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        step += 1
        lab.page.mouse.move(
            box["x"] + 60 + step * 7 % (box["width"] - 80), box["y"] + 30 + step * 3 % (box["height"] - 60)
        )
    return lab.page.evaluate(FRAMES_COUNTED)


def bundle_kb() -> float:
    """What JupyterLab loads of us at its start, gzipped."""
    static = ROOT / "labextension/built/static"
    return sum(len(gzip.compress(p.read_bytes(), 9)) for p in static.glob("*.js")) / 1e3


def of_trials(lab: Lab, panel: Panel, cell: int, seconds: float) -> dict[str, float]:
    """The figures of a search, whose journal a cell writes and reads."""
    lab.run_cell(cell)
    panel.root.get_by_role("tab", name="Trials").wait_for()
    first = first_curves_ms(lab)
    lab.page.wait_for_function(
        "() => document.querySelector('#cellmesh-panel .cm-grid').ariaRowCount === '10001'", timeout=COST_LIMIT_S * 1000
    )
    return {
        "first picture of 10,000 trials of 100 reports, ms": first,
        "frames/s, the pointer over 10,000 curves": frames_over_curves(lab, panel, seconds),
    }


def measure(lab: Lab, seconds: float) -> dict[str, float]:
    """All figures, in the order in which the notebook's cells run."""
    traffic = Traffic(lab)
    lab.open(lab.write("bench.ipynb", [SETUP, FIRST, STREAM, COST, MILLION, TRIALS]))
    lab.run_cell(0)
    panel = Panel(lab.page)
    panel.expect_open()
    figures = {"first picture, ms": first_picture_ms(lab)}
    panel.tasks()
    received, begun = traffic.bytes, time.monotonic()
    lab.start_cell(2)
    figures["frames/s, 100,000 tasks live"] = frames_per_second(lab, panel, seconds)
    lab.finish_cell(2)
    figures["traffic, MB/s"] = (traffic.bytes - received) / 1e6 / (time.monotonic() - begun)
    panel.expect_tasks(1 + STREAM_TASKS)
    figures["a step back in time at 100,000 tasks, ms"] = step_back_ms(lab, panel)
    cost = json.loads(lab.run_cell(3).strip().splitlines()[-1])
    figures["kernel's cost at the given rate, % of a core"] = 100 * cost["share_of_a_core"]
    figures["tasks/s at which that was measured"] = cost["tasks_per_s"]
    panel.root.get_by_role("tab", name="Groups").click()
    begun = time.monotonic()
    lab.run_cell(4)
    lab.page.wait_for_function(
        "() => Number(document.querySelector('#cellmesh-panel .cm-big').textContent.replace(/\\D/g, '')) > 1.1e6",
        timeout=COST_LIMIT_S * 1000,
    )
    figures["seconds until the panel had counted 1,000,000 more"] = time.monotonic() - begun
    figures["frames/s, 1,000,000 tasks as groups"] = frames_per_second(lab, panel, seconds)
    figures.update(of_trials(lab, panel, 5, seconds))
    figures["start bundle, kB gzipped"] = bundle_kb()
    return figures


# tasks_async, as in workloads.py: 1,000 no-op tasks in flight.
AT_FULL_SPEED = """import time
begun, n = time.perf_counter(), 0
while time.perf_counter() < begun + 1.5:
    cm.get([task.remote() for _ in range(1000)])
    n += 1000
print(n / (time.perf_counter() - begun))
"""
N_ALTERNATIONS = 15


def slowdown(scratch: Path) -> float:
    """By how many per cent fewer tasks a second a kernel does whose graph a front end follows than one without
    cellmesh's extension; medians of rounds that alternate between the two."""
    kernels: list[Kernel] = []
    rates: list[list[float]] = [[], []]
    try:
        for is_followed in (False, True):
            folder = scratch / f"kernel-{is_followed}"
            folder.mkdir()
            kernels.append(kernel := Kernel(folder))
            kernel.run(SETUP if is_followed else SETUP.replace("%load_ext cellmesh\n", ""))
            kernel.run(FIRST)
            if is_followed:
                kernel.ask(op="hello")
                kernel.ask(op="open", comm_id=uuid.uuid4().hex)
        for _ in range(N_ALTERNATIONS):
            for kernel, found in zip(kernels, rates, strict=True):
                found.append(float(kernel.text(kernel.run(AT_FULL_SPEED))))
    finally:
        for kernel in kernels:
            kernel.close()
    alone, followed = map(statistics.median, rates)
    return 100 * (1 - followed / alone)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=6.0, help="of pan and zoom for a frame rate")
    opt = parser.parse_args()
    set_marker()
    with tempfile.TemporaryDirectory(prefix="cm-", dir="/tmp") as scratch, chromium() as browser:
        folder = Path(scratch, "notebooks")
        folder.mkdir()
        server = LabServer(folder, Path(scratch, "jupyter"))
        page = browser.new_page(viewport={"width": 1600, "height": 1000})
        lab = Lab(server, page)
        usage, begun = Usage(), time.monotonic()
        try:
            figures = measure(lab, opt.seconds)
            foreign = Usage().since(usage)[1] / (time.monotonic() - begun)
        finally:
            lab.close()
            page.close()
            server.close()
        figures[SLOWDOWN] = slowdown(Path(scratch))
    day = datetime.datetime.now().strftime("%Y-%m-%d-%H%M")
    lines = [
        f"# Panel, {day}",
        "",
        f"- machine: {machine()}",
        f"- commit: {commit()}",
        "- command: `make bench-panel`",
        f"- other processes used {100 * foreign:.0f} % of one core meanwhile",
        "",
        "| what | measured | target |",
        "| --- | --- | --- |",
        *(f"| {name} | {value:,.1f} | {TARGETS.get(name, '')} |" for name, value in figures.items()),
        "",
    ]
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    (results / f"{day}-panel.md").write_text("\n".join(lines))
    (results / f"{day}-panel.json").write_text(json.dumps(figures, indent=1))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
