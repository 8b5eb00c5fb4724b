"""Values that a notebook lets go of leave the store at once, with Python's garbage collector off.

`runtime/test_cycles.py` has the same for scripts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.kernels import Kernel, talk, value
from support.waiting import wait_until

pytestmark = pytest.mark.timeout(60)

HERE = str(Path(__file__).parents[1])
SETUP = f"""
import gc, sys, os
sys.path.append({HERE!r})
from support import cycle_gc

@cm.remote
def double(x): return 2 * x

@cm.remote(max_retries=0)
def fail(x): raise KeyError(x)

@cm.remote
def count(n): yield from range(n)

@cm.remote
class Adder:
    def __init__(self, start=0): self.start = start
    def add(self, x): return self.start + (x if isinstance(x, int) else len(x))
    def count(self, n): yield from range(n)
"""
# What a notebook keeps by itself: `Out`, `_`, `_12` and the last error.
FORGET = "%reset -f out\nsys.last_traceback = sys.last_value = sys.last_type = sys.last_exc = None"
TAKES_ALL = "adder = Adder.options(num_cpus=2).remote(1)\nassert cm.get(adder.__ready__.remote(), timeout=30)\n"


@pytest.fixture
def quiet(kernel: Kernel) -> Iterator[Kernel]:
    """The kernel with its garbage collector switched off."""
    kernel.run(SETUP + "gc.collect()\ngc.disable()")
    yield kernel
    kernel.run("gc.enable(); gc.collect();")


@pytest.mark.parametrize(
    "use",
    [
        "cm.get(adder.add.remote(1))",
        "cm.get(adder.add.remote(list(range(100_000))))",  # more than is kept for %retry
        "cm.get([adder.add.remote(i) for i in range(1100)])",  # likewise
        "[cm.get(ref) for ref in adder.count.remote(2)]",
        "await adder.add.remote(1)",
        "adder.add.remote(1).future().result(30)",
        "cm.get(double.options(num_cpus=0).remote([adder]))",
    ],
    ids=["get", "large", "many", "generator", "await", "future", "travels"],
)
def test_a_dropped_handle_ends_its_actor_in_the_same_cell(quiet: Kernel, use: str) -> None:
    quiet.run("\n".join([TAKES_ALL + use + "\ndel adder"] * 4), 60)


def test_a_dropped_handle_ends_its_actor_in_the_next_cell(quiet: Kernel) -> None:
    for _ in range(4):
        quiet.run(TAKES_ALL + "cm.get(adder.add.remote(1))\ncm.get(adder.add.remote(list(range(100_000))))\nNone")
        quiet.run("del adder")


def test_an_actor_cell_that_is_run_again_ends_the_actor_that_it_made_before(quiet: Kernel) -> None:
    for _ in range(5):  # each takes one of two CPUs
        quiet.run("%%actor sim --cpus 1\nclass Sim:\n    def step(self): return 1")
        assert value(quiet, "cm.get(sim.step.remote(), timeout=30)") == 1
    quiet.run("del sim")


def test_a_cell_that_is_run_again_lets_go_of_what_it_made_before(quiet: Kernel) -> None:
    for _ in range(4):
        quiet.run("%%remote\ndef triple(x): return 3 * x\nclass Counter:\n    def get(self): return 1")
        assert value(quiet, "cm.get([triple.remote(2), triple.options(num_cpus=2).remote(3)])") == [6, 9]
        quiet.run(
            "counter = Counter.options(num_cpus=2).remote()\nassert cm.get(counter.get.remote(), timeout=30) == 1\n"
            "del counter"
        )


CELLS = {
    "calls": [
        "refs = [double.remote(i) for i in range(5)]\ncm.get(refs)\ndel refs",
        "many = [double.remote(i) for i in range(1500)]\ncm.get(many)",
        "del many",
    ],
    "functions": [
        "for _ in range(3):\n    @cm.remote\n    def own(x): return x\n    cm.get([own.remote(1), "
        "own.options(num_cpus=2).remote(2)])",
        "del own",
    ],
    "bodies": ["%%remote\na = 3\nb = [a] * 4\na + 1", "%%remote\nc = a + len(b)", "%fetch a b c", "del a, b, c"],
    "large": ["big = list(range(100_000))", "%%remote\nn = len(big)", "%fetch n", "del big, n"],
    "cards": ["double.remote(4)", "d = double.remote(5)", "cm.get(d)\nd", "[d, d]", "%inspect d", "%futures", "del d"],
    "actors": [
        "%%actor sim --cpus 1\nclass Sim:\n    def step(self): return 1",
        "cm.get(sim.step.remote())",
        "%inspect sim",
        "%%remote --on sim\nx = self.step()",
        "%fetch x",
        "del sim, x",
    ],
    "progress": ["bar = cm.progress([double.remote(i) for i in range(5)])\nbar", "list(bar)", "del bar"],
    "retry": [
        "path = '/nowhere/at/all'",
        "f = fail.remote(path)\ncm.wait([f])",
        "g = %retry f",
        "cm.wait([f])",
        "del f, g",
    ],
    "generators": ["[cm.get(ref) for ref in count.remote(4)]", "it = count.remote(3)\nnext(it)\ndel it"],
    "failed cells": ["%%remote\nraise KeyError('k')", "%%remote\nn = 1 / 0", "cm.wait([n])", "%fetch n", "del n"],
    "placement group": [
        "from cellmesh.util import *\ngroup = placement_group([{'CPU': 1}])\ncm.get(group.ready())",
        "placed = Adder.options(num_cpus=1, scheduling_strategy=PlacementGroupSchedulingStrategy(group)).remote(1)\n"
        "cm.get(placed.add.remote(1))",
        "remove_placement_group(group)\ndel group, placed",
    ],
    "pool": [
        "from cellmesh.util.multiprocessing import Pool\npool = Pool(1)\npool.map(abs, range(3))",
        "pool.apply_async(int, ('x',)).wait()",
        "del pool",
    ],
    "queue": ["from cellmesh.util import Queue\nqueue = Queue(2)\nqueue.put(1)\nqueue.get()", "queue", "del queue"],
    "actor pool": [
        "from cellmesh.util import ActorPool\npool = ActorPool([Adder.remote(1)])",
        "list(pool.map(lambda a, x: a.add.remote(x), range(3)))",
        "del pool",
    ],
    "executor": [
        "from cellmesh.util import Executor\nwith Executor(max_workers=1) as executor:\n"
        "    f = executor.submit(abs, -1); f.result(30)",
        "f",
        "del f, executor",
    ],
    "map": ["list(double.map(range(3)))", "it = double.map(iter(range(10**9)))\nnext(it)", "del it"],
    "task group": [
        "with cm.task_group() as g: ref = g.submit(double, 1)",
        # Not shown: what shows a group of errors, IPython's, leaves it in a cycle.
        "try:\n    with cm.task_group() as g: g.submit(fail, 1)\nexcept ExceptionGroup: pass",
        "del g, ref",
    ],
    "actor group": [
        "pair = cm.group(Adder.options(num_cpus=0.5), 2, 1)\nrefs = pair.add.remote(1)\ncm.get(refs)",
        "pair",
        "refs",
        "pair[1:]",
        "del pair, refs",
    ],
    "graph": ["%graph", "cm.get([double.remote(i) for i in range(3)])", "%graph"],
    "actor card": ["adder = Adder.options(num_cpus=1).remote(1)\ncm.get(adder.add.remote(1))", "adder", "del adder"],
    "kept error": [
        "def fails():\n    big = cm.put(bytes(1 << 20)); adder = Adder.options(num_cpus=1).remote(1)\n"
        "    cm.get(fail.remote(big))",
        "try: fails()\nexcept Exception as e: error = e",
        "error",
        "del error",
    ],
    "await": [
        "[await double.remote(i) for i in range(3)]",
        "async for ref in cm.as_completed([double.remote(i) for i in range(3)]): await ref",
    ],
}


@pytest.mark.parametrize("name", CELLS)
def test_cells_leave_nothing_of_ours_to_the_garbage_collector(quiet: Kernel, name: str) -> None:
    for turn in range(2):  # first what is kept for good is made
        for cell in CELLS[name]:
            quiet.wait(quiet.start(cell))
        quiet.run(FORGET)
        if not turn:
            quiet.run("gc.collect(); n_bytes = cycle_gc.held()")
    quiet.run("cycle_gc.until_gone(n_bytes)")
    assert value(quiet, "cycle_gc.found()") == []


def test_a_cell_that_defines_a_function_does_not_keep_the_handle_that_it_was_given(kernel: Kernel) -> None:
    """On the worker the cell's variables are that function's globals. There the collector is on, and comes when there
    is nothing to do.
    """
    kernel.run(SETUP + "adder = Adder.options(num_cpus=1).remote(1)\nassert cm.get(adder.__ready__.remote())")
    kernel.run("%%remote\ndef ask(x): return cm.get(adder.add.remote(x))\ny = ask(2)")
    kernel.run("%fetch y\ndel adder, ask")
    assert value(kernel, "y") == 3
    kernel.run("import cellmesh.session.current as sessions")
    states = "[a['state'] for a in sessions.current().client.actors()]"
    wait_until(lambda: "alive" not in value(kernel, states), 15)


BIG = "big = cm.put(bytes(8 << 20))"


@pytest.fixture
def n_bytes(quiet: Kernel) -> int:
    """Bytes in the store before the test."""
    quiet.run(FORGET)
    return value(quiet, "cycle_gc.held()")


def is_gone(kernel: Kernel, n_bytes: int) -> bool:
    return value(kernel, "cycle_gc.held()") < n_bytes + (1 << 20)


def test_outputs_keep_a_value_until_they_are_reset(quiet: Kernel, n_bytes: int) -> None:
    quiet.run(BIG + "\n[big]")
    quiet.run("del big")
    assert not is_gone(quiet, n_bytes)
    quiet.run("%reset -f out")
    assert is_gone(quiet, n_bytes)


def holders_of(kernel: Kernel, name: str) -> list[str]:
    return value(kernel, f"holders(Places([])).get({name}, [])")


def test_what_falls_out_of_the_last_three_outputs_is_freed(quiet: Kernel, n_bytes: int) -> None:
    quiet.run("from cellmesh.observe.holders import Places, holders\n" + BIG + "\nname = big.hex()\n[big]")
    number = value(quiet, "max(Out)")
    quiet.run("del big")
    assert holders_of(quiet, "name") == ["__", f"_{number}", f"Out[{number}]"]  # `_` is the number
    assert f": ___, _{number}, Out[{number}]" in quiet.text(quiet.run("print(cm.state.memory())"))
    quiet.run(f"del Out[{number}], _{number}")
    assert ": ___\n" in quiet.text(quiet.run("print(cm.state.memory())"))
    assert not is_gone(quiet, n_bytes), "it is the third from last while this is asked"
    assert is_gone(quiet, n_bytes)


def test_outputs_are_remembered_and_freed_after_each_reset(quiet: Kernel, n_bytes: int) -> None:
    for _ in range(2):
        quiet.run(BIG + "\n[big]")
        quiet.run("del big\nassert isinstance(_[0], cm.ObjectRef)")
        quiet.run("%reset -f out")
        assert is_gone(quiet, n_bytes)


def test_memory_names_the_outputs_that_a_variable_of_the_users_hides(quiet: Kernel, n_bytes: int) -> None:
    quiet.run("for _ in range(3): pass\n" + BIG + "\n[big]")
    number = value(quiet, "max(Out)")
    quiet.run(f"del big, Out[{number}], _{number}")
    said = quiet.text(quiet.run("print(cm.state.memory())"))
    assert ": what IPython keeps as __\n" in said
    quiet.run("%reset -f out")
    assert is_gone(quiet, n_bytes)


def test_a_displayed_card_does_not_keep_the_value(quiet: Kernel, n_bytes: int) -> None:
    quiet.run(BIG + "\ndisplay(big)")
    quiet.run("del big")
    wait_until(lambda: is_gone(quiet, n_bytes), 5, "the value whose card stands there")


def test_an_errors_traceback_keeps_a_value_until_the_next_error(quiet: Kernel, n_bytes: int) -> None:
    quiet.wait(quiet.start("def failing():\n    " + BIG + "\n    raise KeyError\nfailing()"))
    assert not is_gone(quiet, n_bytes)
    assert "big of failing in the traceback of the last KeyError" in value(quiet, "str(cm.state.memory())")
    quiet.wait(quiet.start("1 / 0"))
    assert is_gone(quiet, n_bytes)


def test_a_program_that_keeps_a_cells_result_keeps_its_error(quiet: Kernel, n_bytes: int) -> None:
    code = BIG + "\ndef failing():\n    mine = big\n    raise KeyError\nfailing()"
    quiet.wait(quiet.start(f"result = get_ipython().run_cell({code!r}, store_history=True)"))
    quiet.run("del big")
    assert value(quiet, "result.error_in_exec is sys.last_value and type(sys.last_value) is KeyError")
    assert value(
        quiet, "[*cm.get(result.error_in_exec.__traceback__.tb_next.tb_next.tb_frame.f_locals['mine'])][:1]"
    ) == [0]
    quiet.run("del result")
    quiet.wait(quiet.start("1 / 0"))
    assert is_gone(quiet, n_bytes)


def test_debug_of_the_last_error_shows_its_variables_cells_later(quiet: Kernel) -> None:
    quiet.wait(quiet.start("def failing(x):\n    mine = x + 1\n    raise KeyError\nfailing(4)"))
    for _ in range(3):
        quiet.run("1")
    assert "\n5\n" in "\n" + talk(quiet, "%debug", "p mine", "q", prompt="ipdb> ")


def test_memory_names_the_inputs_that_are_kept_for_another_try(quiet: Kernel, n_bytes: int) -> None:
    quiet.run(BIG + "\nf = fail.remote([big])\ncm.wait([f]);")
    quiet.run("del big")
    assert ": an input of task " in value(quiet, "str(cm.state.memory())")
    quiet.run("del f\n" + FORGET)
    assert is_gone(quiet, n_bytes)


def test_memory_names_cards_of_what_has_not_ended(quiet: Kernel) -> None:
    quiet.run("waits = double.options(resources={'none': 1}).remote(1)\ndisplay(waits)\nname = waits.hex()")
    quiet.run("from cellmesh.observe.holders import Places, holders")
    assert value(quiet, "holders(Places([]))[name]") == ["waits", "a card that follows its state"]
    quiet.run("cm.cancel(waits)\ndel waits")
    wait_until(lambda: value(quiet, "name in holders(Places([]))") is False, 5, "the end of the card")
