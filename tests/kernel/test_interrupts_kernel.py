"""The stop button at random moments of mixed work: the cell ends, and the session works as before.

Every cell works for ever and checks what it gets. So it ends by the interrupt alone, or by a wrong value. The cell says
when it has begun, because ipykernel may ignore an earlier press; after that one press must be enough.
CELLMESH_INTERRUPTS says how many presses there are (`make nightly`: 500); CELLMESH_SEED chooses another sequence. The
test prints how long they took: until IPython has the error in hand, which is ours to keep short, and until it has shown
the error, for which it reads the sources of the libraries in the traceback.
"""

from __future__ import annotations

import os
import queue
import random
import time

import pytest
from support.kernels import Kernel, plain, reply_of, value
from support.waiting import wait_until

N = int(os.environ.get("CELLMESH_INTERRUPTS", 25))
SEED = int(os.environ.get("CELLMESH_SEED", 1))
ENDS_S = 20.0  # a cell that has not ended by then hangs
LATEST_S = 0.15  # after the beginning of its cell an interrupt comes
EXPECTED = {"KeyboardInterrupt", "CancelledError"}

SETUP = """
%load_ext cellmesh
import asyncio, time
import numpy as np
import cellmesh as cm
cm.init(num_cpus=2)
@cm.remote
def add(x, y): return x + y
@cm.remote
def slow(x):
    time.sleep(0.03)
    return x
@cm.remote
def items(n):
    for i in range(n):
        yield i
@cm.remote
def nested(n): return sum(cm.get([add.remote(i, 1) for i in range(n)]))
@cm.remote
class Counter:
    def echo(self, x): return x
counter = Counter.remote()
array = cm.put(np.arange(100_000))
raised, show = [0.0], get_ipython().showtraceback
def note_and_show(*args, **kwargs):
    raised.append(time.time())
    return show(*args, **kwargs)
get_ipython().showtraceback = note_and_show
"""
BEGUN = "print('begun', flush=True)\n"
WORK = {
    "a get that blocks": "i = 0\nwhile True:\n    i += 1\n    assert cm.get(slow.remote(i)) == i",
    "quick gets": "i = 0\nwhile True:\n    i += 1\n    assert cm.get(add.remote(i, 1)) == i + 1",
    "submitting": "while True:\n    refs = [add.remote(i, i) for i in range(500)]\n"
    "    assert cm.get(refs) == [2 * i for i in range(500)]",
    "await": "i = 0\nwhile True:\n    i += 1\n    assert await slow.remote(i) == i",
    "gather": "while True:\n    assert await asyncio.gather(*[add.remote(i, 0) for i in range(20)]) == list(range(20))",
    "wait": "while True:\n    refs = [slow.remote(i) for i in range(4)]\n    while refs:\n"
    "        done, refs = cm.wait(refs)\n        assert 0 <= cm.get(done[0]) < 4",
    "an actor": "i = 0\nwhile True:\n    i += 1\n    assert cm.get([counter.echo.remote(i + k) for k in range(5)]) == "
    "[i, i + 1, i + 2, i + 3, i + 4]",
    "a stream": "while True:\n    assert [cm.get(ref) for ref in items.remote(20)] == list(range(20))",
    "arrays": "while True:\n    ref = cm.put(np.ones(20_000))\n    assert cm.get(ref).sum() == 20_000\n"
    "    assert cm.get(add.remote(array, 1))[5] == 6",
    "nested tasks": "while True:\n    assert cm.get(nested.remote(10)) == 55",
    "progress": "while True:\n    assert list(cm.progress([slow.remote(i) for i in range(3)])) == [0, 1, 2]",
    "a map": "while True:\n    assert list(slow.map(range(3))) == [0, 1, 2]\n    assert sum(add.map(range(200), "
    "range(200))) == 39_800",
    "a map as they come": "import itertools\nfor n, _ in enumerate(slow.map(itertools.count(), ordered=False)): pass",
    "groups": "while True:\n    with cm.task_group() as g:\n        refs = [g.submit(slow, i) for i in range(3)]\n    "
    "assert cm.get(refs) == [0, 1, 2]",
    "a remote cell": f"%%remote --wait\n{BEGUN}n = 0\nwhile True:\n    n += 1\n    time.sleep(0.001)",
    "remote cells": "for i in range(100_000):\n"
    "    get_ipython().run_cell_magic('remote', '--returns total', f'total = {i} + 1')\n"
    "    assert cm.get(total) == i + 1",
}


@pytest.mark.timeout(60 + 4 * N)
def test_random_interrupts(fresh_kernel: Kernel, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = fresh_kernel
    kernel.run(SETUP, 60)
    node = value(kernel, "cm.nodes()[0]['NodeID']")
    choose = random.Random(SEED)
    took: dict[str, list[tuple[float, str]]] = {"raised": [], "shown": []}
    n_too_early = n_dropped = 0
    for number in range(N):
        what = choose.choice(list(WORK))
        name = f"interrupt {number}, seed {SEED}: {what}"
        code = WORK[what] if WORK[what].startswith("%%") else BEGUN + WORK[what]
        pressed, shown, had_begun = interrupted(kernel, code, choose.uniform(0.0, LATEST_S), name)
        n_too_early += not had_begun
        n_dropped += shown is None
        if what == "a remote cell":  # the task goes on, by itself
            kernel.run("%cancel")
        check = "cm.get([add.remote(k, 1) for k in range(20)]) == list(range(1, 21)), cm.get(counter.echo.remote(7)), "
        *well, raised = value(kernel, check + "cm.nodes()[0]['NodeID'], raised[-1]")
        assert well == [True, 7, node], what
        if shown is not None:
            took["raised"].append((raised - pressed, what))
            took["shown"].append((shown - pressed, what))
    assert value(
        kernel,
        "[__import__('cellmesh.session.current', fromlist=['current']).current().client.check(), len(cm.get(array))]",
    ) == [
        [],
        100_000,
    ]
    with capsys.disabled():
        for how, times in took.items():
            times.sort()
            late = [f"{1e3 * seconds:.0f} ms ({what})" for seconds, what in reversed(times) if seconds > 0.1]
            print(
                f"\n{len(times)} interrupts (seed {SEED}): {how} after {1e3 * times[len(times) // 2][0]:.0f} ms "
                f"(median), {1e3 * times[int(0.95 * len(times))][0]:.0f} ms (95 %), {1e3 * times[-1][0]:.0f} ms (the "
                f"last); over 100 ms: {', '.join(late) or 'none'}"
            )
        print(
            f"{n_too_early} came before the cell had begun, and {n_dropped} of them ended the request without a reply"
        )
    assert n_too_early < N / 4, "most are to come while the cell works"


def interrupted(kernel: Kernel, code: str, after_s: float, what: str) -> tuple[float, float | None, bool]:
    """Run a cell, interrupt it, see that it ends as it should.

    Returns
    -------
    When the button was pressed, when the error had been shown, in Unix seconds, and whether the cell had begun by then.
    None if ipykernel dropped the request: an interrupt in the milliseconds before it runs the code leaves a request
    without a reply ("KeyboardInterrupt caught in kernel").
    """
    request = kernel.start(code)
    wait_until(lambda: kernel.of(request, "status"))
    time.sleep(after_s)  # the moment is what is tried
    had_begun = "begun" in kernel.text(request)
    pressed = time.time()
    kernel.manager.interrupt_kernel()
    try:
        kernel.wait(request, ENDS_S if had_begun else 1.0)
    except AssertionError:
        assert not had_begun, f"{what}: the cell did not end; it says {kernel.text(request, 'stderr')!r}"
        had_begun, pressed = True, time.time()
        kernel.manager.interrupt_kernel()
        kernel.wait(request, ENDS_S)
    shown = kernel.of(request, "error")
    try:
        reply = reply_of(kernel, request)
    except queue.Empty:
        assert [m["msg_type"] for m in kernel.of(request)] == ["status", "execute_input", "status"], what
        return pressed, None, had_begun
    text = plain("\n".join(line for m in shown for line in m["content"]["traceback"]))
    assert reply["status"] == "error" and reply["ename"] in EXPECTED, f"{what}: {reply['status']}\n{text}"
    return pressed, (shown or kernel.of(request, "status"))[-1]["header"]["date"].timestamp(), had_begun


PRESSER = """
import os, signal, threading
class Presser:
    def __init__(self, seed, latest_s):
        self.choose, self.latest_s, self.took = random.Random(seed), latest_s, []
        self.begun, self.ended = threading.Event(), threading.Event()
        get_ipython().events.register("post_run_cell", lambda result: self.ended.set())
        threading.Thread(target=self.press, daemon=True).start()
    def press(self):
        while self.begun.wait():
            self.begun.clear()
            self.ended.clear()
            time.sleep(self.choose.uniform(0, self.latest_s))
            pressed = time.perf_counter()
            os.kill(os.getpid(), signal.SIGINT)
            self.ended.wait()
            self.took.append(time.perf_counter() - pressed)
"""


@pytest.mark.timeout(60 + N)
def test_any_instant_of_a_gather(fresh_kernel: Kernel, capsys: pytest.CaptureFixture[str]) -> None:
    """Pressed from within the kernel, so to the microsecond, within what one gather takes; one press is always
    enough.
    """
    kernel = fresh_kernel
    kernel.run(f"{SETUP}{PRESSER}import random\npresser = Presser({SEED}, 0.01)", 60)
    for number in range(4 * N):
        request = kernel.start(f"presser.begun.set()\n{WORK['gather']}")
        kernel.wait(request, ENDS_S)
        assert reply_of(kernel, request)["ename"] in EXPECTED, number
        kernel.messages.clear()
    kernel.run("took = sorted(1e3 * seconds for seconds in presser.took)")
    n, median, most, last = value(kernel, "len(took), took[len(took) // 2], took[int(0.95 * len(took))], took[-1]")
    assert n == 4 * N and value(kernel, "[t for t in asyncio.all_tasks() if 'cell' in t.get_coro().__name__]") == []
    with capsys.disabled():
        print(
            f"\n{n} interrupts of gather (seed {SEED}): the cell had ended after {median:.1f} ms (median), {most:.1f} "
            f"ms (95 %), {last:.0f} ms (the last)"
        )


def test_a_cell_that_is_stopped_before_it_has_begun_does_not_run(fresh_kernel: Kernel) -> None:
    """The moment between ipykernel's making a task of the cell and its watching over it; here it lasts."""
    kernel = fresh_kernel
    kernel.run("""%load_ext cellmesh
import asyncio
kernel, ran = get_ipython().kernel, []
watch_over = kernel._cancel_on_sigint
def interrupted(future):
    kernel._cancel_on_sigint = watch_over
    raise KeyboardInterrupt
kernel._cancel_on_sigint = interrupted""")
    kernel.wait(kernel.start("ran.append(1)\nwhile True: await asyncio.sleep(0.01)"))
    assert value(
        kernel, "ran, [t.get_coro().__name__ for t in asyncio.all_tasks() if 'cell' in t.get_coro().__name__]"
    ) == ([], [])
    request = kernel.run("await asyncio.sleep(0.01)\nran.append(2)")
    assert value(kernel, "ran") == [2] and reply_of(kernel, request)["status"] == "ok"


def test_an_interrupt_that_python_cannot_raise_comes_again(fresh_kernel: Kernel) -> None:
    kernel = fresh_kernel
    kernel.run(
        "%load_ext cellmesh\nimport signal, time\nclass Freed:\n    def __del__(self):\n        "
        "signal.raise_signal(signal.SIGINT)\n"
        "class Wrong:\n    def __del__(self): 1 / 0"
    )
    request = kernel.start("Freed()\ntime.sleep(20)")
    assert reply_of(kernel, request)["ename"] == "KeyboardInterrupt" and kernel.text(request, "stderr") == ""
    request = kernel.run("Wrong()\n1")
    kernel.until_text(request, lambda text: "ZeroDivisionError" in text, "stderr")
    kernel.run("%unload_ext cellmesh")
    request = kernel.run("Freed()\nd = 1")
    kernel.until_text(request, lambda text: "KeyboardInterrupt" in text, "stderr")
