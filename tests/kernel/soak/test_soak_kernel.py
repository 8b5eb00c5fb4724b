"""A notebook that makes, redefines, drops and fails, by dice, for long: what it has dropped is gone, at each look the
store, its tables, the processes, and the kernel's descriptors and threads are what they were at the first.

CELLMESH_SOAK_S=3600 works so long, in seconds, instead of a few steps; CELLMESH_SOAK_SEED=2 throws other dice.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import NamedTuple

import pytest
from support.kernels import Kernel, value
from support.waiting import wait_until

# jupyter_client keeps zmq's I/O threads and their descriptors for the life of the process.
pytestmark = [pytest.mark.may_keep("descriptors", "zmq context"), pytest.mark.may_keep("threads", "zmq context")]

SECONDS = float(os.environ.get("CELLMESH_SOAK_S", "0"))
SEED = int(os.environ.get("CELLMESH_SOAK_SEED", "1"))
N_STEPS = 40  # in the quick run, after the warm-up
EVERY = 20  # steps from one look to the next
N_WARM_UP = 10  # after each step once
WAIT_S = 120.0  # for a cell: beside others that take the whole machine for minutes
SETTLED_S = 10.0  # what has been dropped is gone by then: mostly at once, processes of actors take a moment to end

# Of the kernel's own memory. What it keeps on purpose is bounded, here by so much in place of thousands: what still
# grows after `N_FULL` steps would grow for ever.
FEW = 64
BOUNDED = (
    ("kernel_ext.cells.registry", "N_KEPT"),
    ("observe.function_names", "N_KEPT"),
    ("session.unfetched_errors", "N_KNOWN"),
    ("session.unfetched_errors", "N_REMEMBERED"),
    ("session.session", "N_FAILED"),
    ("submit.class_states", "N_KEPT"),
    ("tasks.call_log", "N_NOTED"),
)
N_ROWS = 1000  # of the graph
FULL_BYTES = 8 << 20
N_FULL = 500
# IPython keeps text and number of each cell, and its output: a kernel without cellmesh that runs the like grows by 1.1
# to 1.3 kB a cell, and this one by 1.9, measured over 29,000 cells. Of that, 0.15 kB are Python objects of ours.
CELL_BYTES = 2_500
GROWTH_BYTES = 4 << 20

BEGINNING = f"""
import importlib, os, cellmesh as cm
for module, name in {BOUNDED}:
    module = importlib.import_module("cellmesh." + module)
    assert getattr(module, name) > {FEW}
    setattr(module, name, {FEW})
from cellmesh.kernel_ext.graph.model import Graph
Graph.__init__.__kwdefaults__["n_rows_max"] = {N_ROWS}
%load_ext cellmesh
cm.init(num_cpus=3)
"""

SETUP = f"""
import ctypes, sys, threading
sys.path.append({str(Path(__file__).parents[2])!r})
from support.real_machines import own_bytes
from cellmesh.session.current import current

@cm.remote
def double(x): return 2 * x

@cm.remote(max_retries=0)
def fail(x): raise KeyError("of a task")  # IPython keeps the text of each output

@cm.remote
def count(n):
    for i in range(n): yield bytes(i << 14)

@cm.remote
class Keeper:
    def __init__(self): self.kept = []
    def keep(self, x): self.kept.append(x); return len(self.kept)
    def fail(self): raise ValueError(len(self.kept))
    def count(self, n): yield from range(n)

def kept_bytes():
    ctypes.CDLL(None).malloc_trim(0)  # glibc keeps of what threads have freed, now 16 MB and now 33
    return own_bytes(os.getpid())

def look():
    client, states = current().client, ("alive", "pending", "restarting")
    # A descriptor for each thread that has printed; ipykernel closes those of ended threads every ten seconds.
    n_pipes = len(get_ipython().kernel.iopub_thread._event_pipes)
    # Of those in the background there are as many, at most 8, as were needed at a time.
    n_idle = sum(thread.name == "cellmesh-background" for thread in threading.enumerate())
    return {{
        "bytes": client.stats()["used_bytes"],
        "objects": client.stats()["n_objects"],
        "tasks": client.stats()["n_tasks"],
        "actors": sum(row["state"] in states for row in client.actors()),
        "workers": sum(row["role"] == "worker" for row in client.clients()),
        "descriptors": len(os.listdir("/proc/self/fd")) - n_pipes,
        "threads": len(os.listdir("/proc/self/task")) - n_idle,
    }}
"""

# Each is a list of cells; `{n}` is a number of the step's own. What they make is dropped or made anew by a later one.
STEPS = {
    "calls": ["cm.get([double.remote(i) for i in range(20)])"],
    "put": ["big = cm.put(bytes({n} << 10))", "double.remote(big)\ndel big"],
    "redefine": ["@cm.remote\ndef own(x): return x + {n}", "assert cm.get(own.remote(1)) == {n} + 1"],
    "cell": ["%%remote\na = [{n}] * 1000\nb = len(a)", "%fetch a b", "%%remote\nc = a[0] + b", "del a, b, c"],
    "actor": ["keeper = Keeper.options(num_cpus=1).remote()", "cm.get(keeper.keep.remote(bytes({n} << 8)))"],
    "drop an actor": ["keeper = None"],
    "actor cell": ["%%actor sim --cpus 1\nclass Sim:\n    def step(self): return {n}", "cm.get(sim.step.remote())"],
    "drop an actor cell": ["sim = None"],
    "an actor's error": ["keeper = Keeper.remote()", "cm.get(keeper.fail.remote())", "keeper"],
    "an actor's generator": ["keeper = Keeper.remote()\n[cm.get(ref) for ref in keeper.count.remote(5)]"],
    "error": ["def deep(x):\n    mine = cm.put(bytes({n} << 10))\n    cm.get(fail.remote(mine))", "deep(1)"],
    "caught error": ["try: deep(2)\nexcept Exception as e: kept = e", "kept", "del kept"],
    "error of a cell": ["%%remote\nz = 1 / 0", "cm.wait([z])\nz", "%fetch z", "del z"],
    "error in Python": ["held = cm.put(bytes({n} << 10))\n[held][1]", "del held"],
    "retry": ["f = fail.remote({n})\ncm.wait([f]);", "g = %retry f", "cm.wait([g]);", "del f, g"],
    "generator": ["[len(cm.get(ref)) for ref in count.remote(6)]"],
    "unread generator": ["items = count.remote(20)\nnext(items)", "del items"],
    "card": ["card = double.remote({n})\ncard", "[card, card]\n", "display(card)\ndel card"],
    "await": ["await double.remote({n})", "[await ref async for ref in count.remote(3)];"],
    "cancel": ["waits = double.options(resources={{'none': 1}}).remote(1)\nwaits", "cm.cancel(waits)\ndel waits"],
    "progress": ["bar = cm.progress([double.remote(i) for i in range(10)])\nbar", "list(bar)", "del bar"],
    "reset": ["%reset -f out"],
}


class Own(NamedTuple):
    """The kernel's own memory after so many cells."""

    n_bytes: int
    n_cells: int


class Most(NamedTuple):
    """What it may be at most, from one look on."""

    begun: Own
    n_bytes: int

    def at(self, n_cells: int) -> int:
        return self.begun.n_bytes + self.n_bytes + CELL_BYTES * (n_cells - self.begun.n_cells)


class Soak:
    """The notebook, and what was seen of it.

    Parameters
    ----------
    kernel : Kernel
    seed : int
    """

    def __init__(self, kernel: Kernel, seed: int) -> None:
        self.kernel, self.dice, self.done = kernel, random.Random(seed), list[str]()

    def step(self, name: str) -> None:
        """Run the cells of a step. One with "error" in its name may have cells that fail."""
        self.done.append(name)
        n = self.dice.randrange(300, 500)
        for cell in STEPS[name]:
            code = cell.format(n=n)
            if "error" in name:
                self.kernel.wait(self.kernel.start(code), WAIT_S)
            else:
                self.kernel.run(code, WAIT_S)
        del self.kernel.messages[:]  # they are the front end's

    def steps(self, n: int) -> None:
        """So many steps."""
        for _ in range(n):
            self.step(self.dice.choice(list(STEPS)))
        self.let_go()

    def let_go(self) -> None:
        """Of all that the notebook holds; with the next error that of the last one, too."""
        self.kernel.run("keeper = sim = None", WAIT_S)
        self.kernel.wait(self.kernel.start("1 / 0"), WAIT_S)
        self.kernel.run("%reset -f out", WAIT_S)

    def look(self) -> dict[str, int]:
        """What there is, by its name."""
        return value(self.kernel, "look()")

    def own(self) -> Own:
        return Own(value(self.kernel, "kept_bytes()"), value(self.kernel, "len(In)"))


@pytest.mark.timeout(120 + 2 * SECONDS)
def test_a_notebook_that_makes_and_drops_grows_nowhere(fresh_kernel: Kernel) -> None:
    soak, begun = Soak(fresh_kernel, SEED), time.monotonic()
    fresh_kernel.run(BEGINNING + SETUP, 60)
    for name in STEPS:
        soak.step(name)
    soak.steps(N_WARM_UP)
    first = wait_until(lambda: seen if not (seen := soak.look())["actors"] else None)
    first["bytes"] += 64 * first["objects"]  # a function is as long as the name of its cell's file, a hash in digits
    n_at_first, most = len(soak.done), [Most(soak.own(), FULL_BYTES)]
    while len(soak.done) < n_at_first + N_STEPS or time.monotonic() - begun < SECONDS:
        soak.steps(EVERY)
        seen = first

        def is_flat() -> bool:
            nonlocal seen
            seen = soak.look()
            return all(seen[what] <= n for what, n in first.items())

        try:
            wait_until(is_flat, SETTLED_S)
        except AssertionError:
            grown = {what: (n, seen[what]) for what, n in first.items() if seen[what] > n}
            raise AssertionError(f"grown after {soak.done}, of seed {SEED}: {grown}") from None
        own = soak.own()
        print(f"{time.monotonic() - begun:.0f} s, {len(soak.done)} steps, {own}: {seen}", flush=True)
        if len(soak.done) >= N_FULL and len(most) == 1:
            most.append(Most(own, GROWTH_BYTES))
        for bound in most:
            assert own.n_bytes < bound.at(own.n_cells), f"{own}, more than {bound}, after {soak.done}, of seed {SEED}"
